import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { PendingApprovals } from '../src/approvals';
import { respond } from '../src/participant';
import { ACTIVITY, type Message, type Part, type StoredConversation } from '../src/wire';
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
  isMissing?: boolean;
  source?: vscode.CancellationTokenSource;
  needsLogin?: string;
  stored?: StoredConversation;
  prompt?: string;
  command?: string;
  history?: object[];
}

async function answered(selected: object | undefined, circumstances: Circumstances = {}) {
  const { references = [], approvals, failure, isMissing = false, source, needsLogin, stored, prompt = 'hello', command, history = [] } = circumstances;
  const shown: string[] = [];
  const buttons: object[] = [];
  const stream = { markdown: (text: string) => shown.push(text), progress: () => undefined, button: (one: object) => buttons.push(one) };
  const request = { model: selected, prompt, references, toolReferences: [], command };
  const { token } = source ?? new vscode.CancellationTokenSource();
  const host = {
    approvals: approvals ?? new PendingApprovals(() => undefined),
    failure: () => failure,
    isMissing: () => isMissing,
    agents: { needsLogin: (id: string) => id === needsLogin },
    stored: async () => stored ?? Promise.reject(new Error('There is no conversation.')),
  };
  const result = await respond(host, request as never, { history } as never, stream as never, token as never);
  const { messages } = (result.metadata ?? {}) as { messages?: Message[] };
  return { result, buttons, shown: shown.join(''), error: result.errorDetails?.message, prompt: messages?.[0]?.content, messages };
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
    { id: '1', name: 'pasted', value: 'some words' },
    { id: 'vscode.customizations.index', name: 'prompt:customizationsIndex', value: '<skills>\n…</skills>' },
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
  const value = 'hello\n\nAttached:\n- /w/a.py\n- /w/b.py:3-5\n- untitled:Untitled-1\n\nAttached, pasted:\n\n```\nsome words\n```';
  assert.deepEqual(prompt, [
    { type: 'text', value },
    { type: 'data', mimeType: 'image/png', data: 'Ynl0ZXM=' },
  ]);
  assert.deepEqual(said[0]?.messages[0]?.content, [
    new vscode.LanguageModelTextPart(value),
    new (vscode.LanguageModelDataPart ?? assert.fail())(Buffer.from('bytes'), 'image/png'),
  ]);
});

test('what VS Code adds is context, and never the user’s words', async () => {
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', [])];
  const index = { id: 'vscode.customizations.index', name: 'prompt:customizationsIndex', value: '<skills>…</skills>' };
  // As an older VS Code names it.
  const older = { id: 'vscode.prompt.instructions.text', name: 'prompt:instructionsText', value: '<instructions>…' };
  const { shown, prompt } = await answered(model('demo', 'dragoman', []), { references: [index, older] });
  assert.equal(shown, 'from demo');
  assert.deepEqual(prompt, [{ type: 'text', value: 'hello' }]);
  const file = { id: 'vscode.instructions.file.root__file:///w/AGENTS.md', name: 'prompt:AGENTS.md', value: new vscode.Uri('/w/AGENTS.md') };
  const rendered = await answered(model('demo', 'dragoman', []), { references: [index, file] });
  // Python takes this form apart (tests/vscode/test_vscode_rendered.py).
  assert.deepEqual(rendered.prompt, [
    {
      type: 'text',
      value:
        '<instructions>\nThe workspace has instructions for agents in these files:\n- /w/AGENTS.md\n</instructions>\n<userRequest>\nhello\n</userRequest>',
    },
  ]);
});

test('before Dragoman is set up, the answer is an offer and not an error', async () => {
  const { result, buttons } = await answered(undefined, { isMissing: true });
  assert.deepEqual([result, buttons.map((one) => (one as { command: string }).command)], [{}, ['dragoman.install']]);
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

const STORED: StoredConversation = {
  modelId: 'other',
  title: 'The milk',
  keepsMemory: true,
  messages: [
    { role: 'user', content: [{ type: 'text', value: 'Where is the milk?' }] },
    { role: 'assistant', content: [{ type: 'data', mimeType: 'stateful_marker', data: 'AA==' }, { type: 'text', value: 'Here.' }] },
  ],
};

function both(asked: Asked[]) {
  vscode.lm.selectChatModels = async (selector) => {
    const { id = 'demo' } = selector as { id?: string };
    return [model(id, 'dragoman', asked)];
  };
  return model('demo', 'dragoman', asked);
}

test('a stored conversation goes on in its own agent, with its messages and marker before the prompt', async () => {
  const asked: Asked[] = [];
  const selected = both(asked);
  const before = { command: 'continue', prompt: 'abcd And the butter?', stored: STORED };
  const { shown, result } = await answered(selected, before);
  assert.deepEqual([shown, asked[0]?.id, asked[0]?.messages.length], ['from other', 'other', 3]);
  assert.deepEqual(asked[0]?.messages.at(-1)?.content, [new vscode.LanguageModelTextPart('And the butter?')]);

  // The chat before it is no part of the conversation; the next prompt is, without the command.
  const turn = (metadata: object) => new vscode.ChatResponseTurn([], { metadata }, 'dragoman.participant');
  const other = turn({ messages: [{ role: 'user', content: [{ type: 'text', value: 'unrelated' }] }] });
  const history = [new vscode.ChatRequestTurn('x'), other, new vscode.ChatRequestTurn('y'), turn(result.metadata ?? {})];
  await answered(selected, { history, prompt: 'And the bread?' });
  assert.deepEqual([asked[1]?.id, asked[1]?.messages.length], ['other', 5]);
  // Until the user selects another model.
  await answered(both(asked), { history: [...history], prompt: 'x' });
  const third = model('third', 'dragoman', asked);
  await answered(third, { history, prompt: 'And now?' });
  assert.equal(asked.at(-1)?.id, 'third');
});

test('without a prompt the chat is only set to the conversation', async () => {
  const asked: Asked[] = [];
  const { shown, result } = await answered(both(asked), { command: 'continue', prompt: ' abcd ', stored: STORED });
  assert.equal(asked.length, 0);
  assert.match(shown, /The milk.*own memory/);
  assert.deepEqual((result.metadata as { messages: object[] }).messages, STORED.messages);
});

test('a conversation that is not there is an error of that turn', async () => {
  const { error } = await answered(both([]), { command: 'continue', prompt: 'zzzz' });
  assert.equal(error, 'There is no conversation.');
});

test('an agent that requires a login gets a button', async () => {
  const { buttons } = await answered(both([]), { needsLogin: 'demo' });
  assert.deepEqual(buttons, [{ command: 'dragoman.signIn', title: 'Sign In', arguments: ['demo'] }]);
  assert.deepEqual((await answered(both([]))).buttons, []);
});
