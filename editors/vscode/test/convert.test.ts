import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as vscode from 'vscode';
import { features, fromWire, fromWireMessage, progressOf, toWire, toWireMessage, toWireTools } from '../src/convert';
import { promptTsxText } from '../src/prompttsx';
import { ACTIVITY, type Part } from '../src/wire';
import * as fake from './vscode';

const MARKER: Part = { type: 'data', mimeType: 'stateful_marker', data: Buffer.from('demo\\abc').toString('base64') };

const THERE_AND_BACK: Part[] = [
  { type: 'text', value: 'words – 漢字' },
  { type: 'thinking', value: ['one', 'two'], id: 't1', metadata: { signature: 's' } },
  { type: 'thinking', value: 'plain' },
  { type: 'tool_call', callId: 'dg_1', name: 'look', input: { deep: [1, { er: null }] } },
  { type: 'tool_result', callId: 'dg_1', content: [{ type: 'text', value: 'seen' }, MARKER] },
  { type: 'tool_result', callId: 'dg_2', content: [{ type: 'text', value: 'ERROR while calling tool: no' }], isError: true },
  MARKER,
  { type: 'data', mimeType: 'image/png', data: 'iVBORw0KGgo=' },
];

for (const part of THERE_AND_BACK) {
  test(`a ${part.type} part goes to VS Code and comes back as it was`, () => {
    const made = fromWire(part);
    assert(made !== undefined);
    assert.deepEqual(toWire(made), [part]);
  });
}

const BESIDE_THE_ANSWER: Part[] = [
  { type: 'activity', id: 't1', title: 'Lesen – 漢字', kind: 'read', status: 'completed', locations: [{ path: '/a', line: 3 }] },
  { type: 'plan', entries: [{ text: 'Look', priority: 'high', status: 'pending' }] },
  { type: 'usage', contextUsed: 1_200, contextSize: 200_000 },
];

test('activities, plans and usage go through VS Code as data of our own type', () => {
  for (const part of BESIDE_THE_ANSWER) {
    const [data] = toWire(fromWire(part));
    assert(data?.type === 'data');
    assert.equal(data.mimeType, ACTIVITY);
    assert.deepEqual(progressOf(data), part);
  }
});

test('data that carries no activity is data', () => {
  const json = (text: string): Part => ({ type: 'data', mimeType: ACTIVITY, data: Buffer.from(text).toString('base64') });
  assert.deepEqual([MARKER, json('{half'), json('null'), { type: 'text', value: '{}' } as const].map(progressOf), [undefined, undefined, undefined, undefined]);
});

test('the other variants of a class are known by what they are', () => {
  const { LanguageModelTextPart2: Text, LanguageModelToolResultPart2: Result, LanguageModelDataPart2: Data } = fake;
  assert(Text && Result && Data);
  assert.deepEqual(toWire(new Text('words')), [{ type: 'text', value: 'words' }]);
  assert.deepEqual(toWire(new Data(Buffer.from('bytes'), 'image/png')), [{ type: 'data', mimeType: 'image/png', data: 'Ynl0ZXM=' }]);
  assert.deepEqual(toWire(new Result('dg_1', [new Text('no')], true)), [
    { type: 'tool_result', callId: 'dg_1', content: [{ type: 'text', value: 'no' }], isError: true },
  ]);
});

test('what nobody knows is kept out of the way', () => {
  assert.deepEqual(toWire({ value: 'looks like a text' }), []);
});

test('what nobody knows is not lost in the result of a tool', () => {
  const { LanguageModelToolResultPart2: Result } = fake;
  assert(Result);
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const endless: { self?: unknown } = {};
  endless.self = endless;
  assert.deepEqual(toWire(new Result('dg_1', [{ depth: 3 }, undefined, endless], false)), [
    {
      type: 'tool_result',
      callId: 'dg_1',
      content: [
        { type: 'data', mimeType: 'application/json', data: base64('{"depth":3}') },
        { type: 'data', mimeType: 'text/plain', data: base64('undefined') },
        { type: 'data', mimeType: 'text/plain', data: base64('[object Object]') },
      ],
    },
  ]);
  assert.equal(fromWire({ type: 'hologram' } as unknown as Part), undefined);
});

test('roles are three, and a name goes along', () => {
  const message = (role: number) => ({ role, content: [new vscode.LanguageModelTextPart('x')], name: undefined });
  const roles = [1, 2, 3].map((role) => toWireMessage(message(role)).role);
  assert.deepEqual(roles, ['user', 'assistant', 'system']);
  assert.equal(toWireMessage({ ...message(1), name: 'bob' }).name, 'bob');
  assert(!('name' in toWireMessage(message(1))));
});

test('a kept message is the message again', () => {
  for (const role of ['user', 'assistant'] as const) {
    const kept = { role, content: THERE_AND_BACK.slice(0, 1) };
    assert.deepEqual(toWireMessage(fromWireMessage(kept)), kept);
  }
});

test('prompt-tsx is read as text, with its lines', () => {
  const value = {
    node: {
      type: 1,
      children: [
        { type: 2, text: 'first', lineBreakBefore: true },
        { type: 1, ctor: 1, children: [{ type: 2, text: ' and', lineBreakBefore: false }] },
        { type: 2, text: 'second', lineBreakBefore: true },
      ],
    },
  };
  assert.equal(promptTsxText(value), 'first and\nsecond');
  assert.deepEqual(toWire(new vscode.LanguageModelPromptTsxPart(value)), [{ type: 'text', value: 'first and\nsecond' }]);
  const picture = { type: 1, ctor: 3, children: [], props: { src: 'data:image/png;base64,iVBORw0KGgo=' } };
  assert.equal(promptTsxText({ node: { type: 1, children: [{ type: 2, text: 'see ' }, picture] } }), 'see <image>');
  assert.equal(promptTsxText('plain'), 'plain');
  assert.equal(promptTsxText({ odd: 1 }), '{"odd":1}');
});

test('tools without a schema have none', () => {
  assert.deepEqual(toWireTools([{ name: 'a', description: 'b', inputSchema: undefined }]), [{ name: 'a', description: 'b' }]);
  assert.deepEqual(toWireTools(undefined), []);
});

test('features are those of the classes that are there, and so are the parts', () => {
  assert.deepEqual(features(), { thinking: true, data: true, activity: true });
  const made = THERE_AND_BACK.map((part) => fromWire(part));
  fake.withoutNewClasses(() => {
    assert.deepEqual(features(), { thinking: false, data: false, activity: false });
    assert.deepEqual(BESIDE_THE_ANSWER.map(fromWire), [undefined, undefined, undefined]);
    assert.deepEqual(
      THERE_AND_BACK.filter((part) => fromWire(part) === undefined).map(({ type }) => type),
      ['thinking', 'thinking', 'data', 'data'],
    );
    assert.deepEqual(made.filter((part) => toWire(part).length === 0).length, 4);
  });
});
