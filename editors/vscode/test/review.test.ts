/** An agent's changes as diffs, and their undo. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PendingApprovals } from '../src/approvals';
import { CHANGE_SCHEME, registerReview, REVIEW_EDITS, SHOW_CHANGES, UNDO_EDITS } from '../src/review';
import { RpcError } from '../src/rpc';
import * as vscode from './vscode';

const TURN = {
  turn: 't1',
  agent: 'Claude',
  at: '',
  files: [
    { path: '/w/a.ts', change: 'changed' },
    { path: '/w/b.ts', change: 'created' },
    { path: '/w/c.ts', change: 'deleted' },
  ],
};

function reviewing(answers: Record<string, unknown>) {
  const editor = vscode.anotherEditor();
  const asked: [method: string, params: unknown][] = [];
  const backend = {
    request: async (method: string, params: object) => {
      asked.push([method, params]);
      const answer = answers[method];
      return typeof answer === 'function' ? (answer as (params: object) => unknown)(params) : answer;
    },
  };
  registerReview(backend, new PendingApprovals(() => undefined));
  const run = async (command: string, ...values: unknown[]) => {
    await editor.commands.get(command)?.(...values);
  };
  const read = async (uri: vscode.Uri) => editor.documents.get(CHANGE_SCHEME)?.provideTextDocumentContent(uri);
  return { editor, asked, run, read };
}

test('a question’s only file opens in the diff editor, whole', async () => {
  const files = [{ path: '/w/a.ts', before: 'one', after: 'two', isWhole: true, why: null }];
  const { editor, asked, run, read } = reviewing({ 'permissions/changes': { files } });
  await run(SHOW_CHANGES, 'n1');
  assert.deepEqual(asked, [['permissions/changes', { nonce: 'n1' }]]);
  const [[name, before, after, title] = []] = editor.executed as [string, vscode.Uri, vscode.Uri, string][];
  assert.deepEqual([name, title], ['vscode.diff', 'a.ts (proposed change)']);
  assert.deepEqual([await read(before as vscode.Uri), await read(after as vscode.Uri)], ['one', 'two']);
  assert.deepEqual(editor.messages, []);
});

test('a new file is compared with nothing, and a passage is called one', async () => {
  const made = [{ path: '/w/a.ts', before: null, after: 'two', isWhole: true, why: null }];
  const first = reviewing({ 'permissions/changes': { files: made } });
  await first.run(SHOW_CHANGES, 'n1');
  const [[, before, , title] = []] = first.editor.executed as [string, vscode.Uri, vscode.Uri, string][];
  assert.deepEqual([await first.read(before as vscode.Uri), title], ['', 'a.ts (new file)']);
  const passage = [{ path: '/w/a.ts', before: 'x', after: 'y', isWhole: false, why: 'It has it twice.' }];
  const second = reviewing({ 'permissions/changes': { files: passage } });
  await second.run(SHOW_CHANGES, 'n1');
  assert.equal(second.editor.executed[0]?.[3], 'a.ts (only the passage that the agent sent)');
  assert.equal(second.editor.messages[0]?.detail, '/w/a.ts: It has it twice.');
});

test('several files open in the editor for many; without it a list offers each', async () => {
  const answers = {
    'edits/list': { turns: [TURN] },
    'edits/text': ({ path, side }: { path: string; side: string }) => ({ text: `${path} ${side}` }),
  };
  const { editor, run, read } = reviewing(answers);
  await run(REVIEW_EDITS, 't1');
  const [[name, title, resources] = []] = editor.executed as [string, string, (vscode.Uri | undefined)[][]][];
  assert.deepEqual([name, title], ['vscode.changes', 'Edits of Claude']);
  const texts = (resources ?? []).map(([, ...sides]) => Promise.all(sides.map((uri) => uri && read(uri))));
  assert.deepEqual(await Promise.all(texts), [
    ['/w/a.ts before', '/w/a.ts after'],
    [undefined, '/w/b.ts after'],
    ['/w/c.ts before', undefined],
  ]);
  editor.refusals.set('vscode.changes', 'command not found');
  editor.answers = ['b.ts'];
  await run(REVIEW_EDITS);
  assert.deepEqual(editor.picks[0]?.items.map(({ label }) => label), ['a.ts', 'b.ts', 'c.ts']);
  assert.deepEqual(editor.executed.at(-1)?.slice(3), ['b.ts (created)']);
});

test('undo says what it did, and names in a dialog what it left alone', async () => {
  const left = [{ path: '/w/[a](command:x).ts', why: 'It has changed since.' }];
  const answers = { 'edits/list': { turns: [TURN] }, 'edits/undo': { undone: ['/w/b.ts'], left } };
  const { editor, asked, run } = reviewing(answers);
  await run(UNDO_EDITS, 't1');
  assert.deepEqual(asked.at(-1), ['edits/undo', { turn: 't1' }]);
  const [{ text, detail } = { text: '' }] = editor.messages;
  assert.equal(text, 'The edits of 1 file were undone. 1 file was left as it is:');
  // A message could make a link of the name; a detail cannot.
  assert.deepEqual([text.includes('command:'), detail], [false, '/w/[a](command:x).ts: It has changed since.']);
});

test('undo from the palette asks first, and names the files', async () => {
  const answers = { 'edits/list': { turns: [TURN] }, 'edits/undo': { undone: ['/w/a.ts'], left: [] } };
  const { editor, asked, run } = reviewing(answers);
  await run(UNDO_EDITS);
  assert.deepEqual(asked.map(([method]) => method), ['edits/list']);
  assert.match(editor.messages[0]?.detail ?? '', /\/w\/c\.ts \(deleted\)/);
  editor.answers = ['Undo These Edits'];
  await run(UNDO_EDITS);
  assert.equal(asked.at(-1)?.[0], 'edits/undo');
});

test('a button of edits that were undone says what the backend says of them, without an error', async () => {
  const known = ({ turn }: { turn?: string }) => {
    if (turn !== undefined) {
      throw new RpcError('These edits were undone already: nothing is left to undo.', -32000, 'not_found');
    }
    return { turns: [] };
  };
  const { editor, asked, run } = reviewing({ 'edits/list': known });
  const errors = editor.errors;
  for (const command of [REVIEW_EDITS, UNDO_EDITS]) {
    await run(command, 't1');
    assert.equal(editor.messages.at(-1)?.text, 'These edits were undone already: nothing is left to undo.');
  }
  assert.deepEqual([errors, asked.at(-1)], [[], ['edits/list', { turn: 't1' }]]);
  await run(REVIEW_EDITS);
  assert.match(editor.messages.at(-1)?.text ?? '', /No agent has changed a file/);
});

test('an undo that leaves every file alone says that nothing was undone', async () => {
  const left = [{ path: '/w/a.ts', why: 'It has changed since.' }];
  const { editor, run } = reviewing({ 'edits/list': { turns: [TURN] }, 'edits/undo': { undone: [], left } });
  await run(UNDO_EDITS, 't1');
  assert.equal(editor.messages[0]?.text, 'Nothing was undone. 1 file was left as it is:');
});
