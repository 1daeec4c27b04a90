import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { PendingApprovals } from '../src/approvals';
import { respond } from '../src/participant';
import { ACTIVITY, EDITS, type Message, type Part } from '../src/wire';
import * as vscode from './vscode';

const { selectChatModels, invokeTool } = vscode.lm;

afterEach(() => {
  Object.assign(vscode.lm, { selectChatModels, invokeTool });
});

type Asked = { id: string; messages: { content: unknown[] }[]; options?: object };

/** A model that answers with these parts, one list a request, and then with its name. */
function model(id: string, vendor: string, asked: Asked[], ...answers: unknown[][]) {
  return {
    id,
    vendor,
    name: id.toUpperCase(),
    sendRequest: async (messages: Asked['messages'], options: object) => {
      asked.push({ id, messages, options });
      const parts = answers[asked.length - 1] ?? [new vscode.LanguageModelTextPart(`from ${id}`)];
      return {
        stream: (async function* () {
          yield* parts;
        })(),
      };
    },
  };
}

interface Circumstances {
  references?: object[];
  approvals?: PendingApprovals;
  failure?: string;
  source?: vscode.CancellationTokenSource;
}

async function answered(selected: object | undefined, { references = [], approvals, failure, source }: Circumstances = {}) {
  const shown: string[] = [];
  const buttons: object[] = [];
  const stream = { markdown: (text: string) => shown.push(text), progress: () => undefined, button: (button: object) => buttons.push(button) };
  const request = { model: selected, prompt: 'hello', references, toolReferences: [], command: undefined };
  const { token } = source ?? new vscode.CancellationTokenSource();
  const host = { approvals: approvals ?? new PendingApprovals(() => undefined), failure: () => failure };
  const result = await respond(host, request as never, { history: [] } as never, stream as never, token as never);
  const { messages } = (result.metadata ?? {}) as { messages?: Message[] };
  return { result, shown: shown.join(''), error: result.errorDetails?.message, prompt: messages?.[0]?.content, messages, buttons };
}

test('a model is looked up before it is asked: after a reload VS Code shows one that it does not know yet', async () => {
  const said: Asked[] = [];
  const unknown = {
    id: 'demo',
    vendor: 'dragoman',
    sendRequest: () => Promise.reject(new Error('Chat provider for model dragoman/demo is not registered.')),
  };
  const selectors: object[] = [];
  vscode.lm.selectChatModels = async (selector) => {
    selectors.push(selector);
    return [model('demo', 'dragoman', said)];
  };
  const { shown, error } = await answered(unknown);
  assert.deepEqual([shown, error], ['from demo', undefined]);
  assert.deepEqual(selectors, [{ vendor: 'dragoman', id: 'demo' }]);
  assert.deepEqual(said.map(({ id }) => id), ['demo']);
});

test('where the picker stands on a model of somebody else, one of ours answers, and says so', async () => {
  const theirs: Asked[] = [];
  const ours: Asked[] = [];
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', ours)];
  const { shown } = await answered(model('a_u*to', 'copilot', theirs));
  assert.equal(shown, '*DEMO answers: “A\\_U\\*TO” is none of Dragoman’s models.*\n\nfrom demo');
  assert.deepEqual([theirs.length, ours.length], [0, 1]);
});

test('where the selected one is not there any more, our first answers, and says so', async () => {
  vscode.lm.selectChatModels = async (selector) => ('id' in selector ? [] : [model('demo', 'dragoman', [])]);
  const { shown } = await answered(model('gone', 'dragoman', []));
  assert.match(shown, /^\*DEMO answers: “GONE” is none/);
});

test('without a model of ours nobody else is asked, and the error says what to do', async () => {
  const theirs: Asked[] = [];
  const { error } = await answered(model('auto', 'copilot', theirs));
  assert.match(error ?? '', /Dragoman: Manage Agents/);
  assert.deepEqual(theirs, []);
  const down = await answered(model('auto', 'copilot', theirs), { failure: 'Dragoman is gone: it ended by SIGKILL' });
  assert.match(down.error ?? '', /^Dragoman is gone: it ended by SIGKILL\. Run “Dragoman: Show Log”/);
  assert.deepEqual(theirs, []);
});

test('Stop while the models are looked up waits for nothing', async () => {
  const source = new vscode.CancellationTokenSource();
  vscode.lm.selectChatModels = () => new Promise(() => source.cancel());
  const { shown, error } = await answered(undefined, { source });
  assert.deepEqual([shown, error], ['', undefined]);
});

test('what is attached goes along: files by their path, pictures as they are; the rest is said to stay behind', async () => {
  const Binary = vscode.ChatReferenceBinaryData;
  assert(Binary);
  const said: Asked[] = [];
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', said)];
  const range = { start: { line: 2 }, end: { line: 4 } };
  const references = [
    { id: '1', value: 'some words' },
    { id: '2', value: new vscode.Uri('/w/a.py') },
    { id: '3', value: new vscode.Location(new vscode.Uri('/w/b.py'), range) },
    { id: '4', value: new vscode.Uri('Untitled-1', 'untitled') },
    { id: '5', name: 'shot.png', value: new Binary('image/png', async () => Buffer.from('bytes')) },
    { id: '6', name: 'song.mp3', value: new Binary('audio/mpeg', async () => Buffer.from('la')) },
    { id: '7', name: 'gone.png', value: new Binary('image/png', () => Promise.reject(new Error('gone'))) },
    { id: '8', value: { diagnostics: [] } },
  ];
  const { shown, prompt } = await answered(model('demo', 'dragoman', []), { references });
  assert.equal(shown, '*Not passed on: song.mp3, gone.png, 8.*\n\nfrom demo');
  const value = 'hello\n\nAttached:\n- some words\n- /w/a.py\n- /w/b.py:3-5\n- untitled:Untitled-1';
  assert.deepEqual(prompt, [
    { type: 'text', value },
    { type: 'data', mimeType: 'image/png', data: 'Ynl0ZXM=' },
  ]);
  assert.deepEqual(said[0]?.messages[0]?.content, [
    new vscode.LanguageModelTextPart(value),
    new (vscode.LanguageModelDataPart ?? assert.fail())(Buffer.from('bytes'), 'image/png'),
  ]);
});

test('a request that was stopped waits for nobody any more, and its result is an error', async () => {
  const counts: number[] = [];
  const approvals = new PendingApprovals((count) => counts.push(count));
  const source = new vscode.CancellationTokenSource();
  const call = (callId: string): Part => ({
    type: 'tool_call', callId, name: 'dragoman-agent-action-execute', input: { nonce: callId },
  });
  const calls = ['dg_1', 'dg_2'].map((id) => new vscode.LanguageModelToolCallPart(id, 'dragoman-agent-action-execute', { nonce: id }));
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', [], calls)];
  vscode.lm.invokeTool = async () => {
    source.cancel();
    throw Object.assign(new Error('Canceled'), { name: 'Canceled' });
  };
  // As the provider does when it passes them on.
  ['dg_1', 'dg_2'].forEach((id) => approvals.emitted(call(id)));
  const { messages } = await answered(model('demo', 'dragoman', []), { approvals, source });
  // One after the other, as they are settled.
  assert.deepEqual(counts, [1, 2, 1, 0]);
  const results = messages?.flatMap(({ content }) => content.filter((part) => part.type === 'tool_result'));
  assert.deepEqual(results?.map(({ isError }) => isError), [true, true]);
});

test('a tool that fails is told to the model as a failure', async () => {
  const said: Asked[] = [];
  const failing = new vscode.LanguageModelToolCallPart('dg_1', 'look', {});
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', said, [failing])];
  vscode.lm.invokeTool = () => Promise.reject(new Error('no such file'));
  await answered(model('demo', 'dragoman', []));
  const [result] = said[1]?.messages.at(-1)?.content ?? [];
  const text = new vscode.LanguageModelTextPart('ERROR while calling tool: no such file');
  assert.deepEqual(result, new vscode.LanguageModelToolResultPart('dg_1', [text], true));
});

test('an answer with edits ends with buttons to review and to undo them', async () => {
  const edits = { turn: 'edits_1', files: [{ path: '/w/a.py', change: 'changed' }] };
  const part = new (vscode.LanguageModelDataPart ?? assert.fail())(Buffer.from(JSON.stringify(edits)), EDITS);
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', [], [new vscode.LanguageModelTextPart('Done.'), part])];
  const { buttons, messages } = await answered(model('demo', 'dragoman', []));
  assert.deepEqual(buttons, [
    { command: 'dragoman.reviewEdits', title: 'Review', arguments: ['edits_1'] },
    { command: 'dragoman.undoEdits', title: 'Undo These Edits', arguments: ['edits_1'] },
  ]);
  assert.deepEqual(messages?.map(({ content }) => content.map(({ type }) => type)), [['text'], ['text']]);
});

test('it asks for activities, draws them, and keeps none in its history', async () => {
  const said: Asked[] = [];
  const activity = (value: object) => new (vscode.LanguageModelDataPart ?? assert.fail())(Buffer.from(JSON.stringify(value)), ACTIVITY);
  const step = { type: 'activity', id: 't1', title: 'Look', kind: 'read', status: 'completed', locations: [] };
  const call = new vscode.LanguageModelToolCallPart('dg_1', 'look', {});
  const parts = [activity(step), new vscode.LanguageModelTextPart('Seen.'), activity({ type: 'usage', input: 5 })];
  // A step goes on over the rounds of a turn.
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', said, [activity(step), call], parts)];
  vscode.lm.invokeTool = async () => ({ content: [] });
  const { shown, messages, result } = await answered(model('demo', 'dragoman', []));
  assert.deepEqual(said.map(({ options }) => (options as { modelOptions: object }).modelOptions), [
    { _dragomanActivity: true },
    { _dragomanActivity: true },
  ]);
  assert.equal(shown, '\n\n✓ Look\n\nSeen.');
  assert.deepEqual(messages?.map(({ content }) => content.map(({ type }) => type)), [
    ['text'], ['tool_call'], ['tool_result'], ['text'],
  ]);
  assert.equal((result as { details?: string }).details, '5 tokens in');
});
