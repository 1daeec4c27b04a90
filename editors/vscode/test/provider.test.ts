import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as vscode from 'vscode';
import { AgentState } from '../src/agentState';
import { PendingApprovals } from '../src/approvals';
import type { BackendState } from '../src/backend';
import { unlessAborted } from '../src/cancellation';
import { offered, historyOf, PARTICIPANT } from '../src/participant';
import { Provider, type ProviderSettings } from '../src/provider';
import { ConnectionClosed, type RequestOptions, RpcError } from '../src/rpc';
import { PermissionTool } from '../src/tools';
import type { Message, ModelInformation, Part } from '../src/wire';
import { memento } from './vscode';

type Answer = (params: never, options: RequestOptions) => unknown;

function made(answers: Record<string, Answer>, settings: Partial<ProviderSettings> = {}, remembered?: ModelInformation[]) {
  const asked: [string, Record<string, unknown>][] = [];
  const counts: number[] = [];
  const approvals = new PendingApprovals((count) => counts.push(count));
  const kept: (readonly ModelInformation[])[] = [];
  const memory = { recall: async () => remembered as readonly ModelInformation[] | undefined, keep: async (models: readonly ModelInformation[]) => void kept.push(models) };
  const state: { name: 'ready' | 'stopped' } = { name: remembered === undefined ? 'ready' : 'stopped' };
  const backend = {
    state: state as BackendState,
    request: async (method: string, params: unknown, options: RequestOptions = {}) => {
      asked.push([method, params as Record<string, unknown>]);
      return answers[method]?.(params as never, options);
    },
  };
  const agents = new AgentState(memento());
  const all: ProviderSettings = { models: [], permission: 'ask', thinking: 'show', ...settings };
  const provider = new Provider(backend, memory, () => all, approvals, () => undefined, agents);
  return { agents, provider, asked, approvals, backend, counts, kept, memory, state };
}

const MODEL = { id: 'demo', name: 'Demo', family: 'demo', version: '1', maxInputTokens: 1, maxOutputTokens: 1, capabilities: {} };
const RESPOND = 'lm/provideLanguageModelChatResponse';

async function respond(
  provider: Provider,
  options: object = { toolMode: 1 },
  source = new vscode.CancellationTokenSource(),
  messages: vscode.LanguageModelChatRequestMessage[] = [],
) {
  const parts: unknown[] = [];
  const progress = { report: (part: unknown) => parts.push(part) };
  await provider.provideLanguageModelChatResponse(MODEL, messages, options as never, progress, source.token);
  return parts;
}

const says = (...parts: Part[]): Answer => (_params, { onPart }) => {
  parts.forEach((part) => onPart?.(part));
  return {};
};

test('models are those of the backend, marked as brought along, and those that are wanted', async () => {
  const models = [{ ...MODEL }, { ...MODEL, id: 'other' }];
  const list = { 'lm/provideLanguageModelChatInformation': () => ({ models }) };
  const token = new vscode.CancellationTokenSource().token;
  const all = await made(list).provider.provideLanguageModelChatInformation({ silent: true }, token);
  assert.deepEqual(all.map(({ id, isBYOK }) => [id, isBYOK]), [['demo', true], ['other', true]]);
  const some = await made(list, { models: ['other'] }).provider.provideLanguageModelChatInformation({ silent: true }, token);
  assert.deepEqual(some.map(({ id }) => id), ['other']);
});

test('a list that is known starts nothing, until somebody wants it anew or the backend runs', async () => {
  const list = { 'lm/provideLanguageModelChatInformation': () => ({ models: [{ ...MODEL, id: 'new' }] }) };
  const { provider, asked, kept, state } = made(list, {}, [{ ...MODEL, id: 'remembered' }]);
  const listed = async (silent: boolean) =>
    (await provider.provideLanguageModelChatInformation({ silent }, new vscode.CancellationTokenSource().token)).map(({ id }) => id);
  assert.deepEqual(await listed(true), ['remembered']);
  assert.deepEqual([asked, kept], [[], []]);
  assert.deepEqual(await listed(false), ['new']);
  state.name = 'ready';
  assert.deepEqual(await listed(true), ['new']);
  assert.deepEqual(kept.map((models) => models.map(({ id }) => id)), [['new'], ['new']]);
});

test('a memory that cannot be read is none', async () => {
  const list = { 'lm/provideLanguageModelChatInformation': () => ({ models: [MODEL] }) };
  const { provider, memory } = made(list, {}, []);
  memory.recall = () => Promise.reject(new TypeError('of another version'));
  const token = new vscode.CancellationTokenSource().token;
  const listed = await provider.provideLanguageModelChatInformation({ silent: true }, token);
  assert.deepEqual(listed.map(({ id }) => id), ['demo']);
});

test('without a backend there are no models, and no error that nobody could act on', async () => {
  const { provider } = made({
    'lm/provideLanguageModelChatInformation': () => {
      throw new ConnectionClosed('gone');
    },
  });
  assert.deepEqual(await provider.provideLanguageModelChatInformation({ silent: false }, new vscode.CancellationTokenSource().token), []);
});

test('an error before anything was said is one of VS Code’s, without a stack to speak of', async () => {
  for (const [kind, code] of [['not_found', 'NotFound'], ['no_permissions', 'NoPermissions'], ['blocked', 'Blocked'], ['rate_limited', 'Blocked'], ['auth_required', undefined], ['internal', undefined]] as const) {
    const { provider } = made({
      [RESPOND]: () => {
        throw new RpcError('Cause. Next step.', -32000, kind);
      },
    });
    await assert.rejects(respond(provider), (error: Error & { code?: string }) => {
      const message = kind === 'auth_required' ? 'Cause. Next step. Or run “Dragoman: Sign In…”.' : 'Cause. Next step.';
      assert.deepEqual([error.message, error.stack, error.code], [message, ' ', code]);
      return true;
    });
  }
});

test('an error that nobody made for a person still has a next step', async () => {
  const errors = [
    new RpcError('The server is shutting down.', -32600, undefined),
    new RpcError("lm/x failed: KeyError: 'x'", -32603, undefined),
    new DOMException('late', 'TimeoutError'),
  ];
  for (const error of errors) {
    const { provider } = made({
      [RESPOND]: () => {
        throw error;
      },
    });
    await assert.rejects(respond(provider), { message: /[^.]\. Run “Dragoman: Show Log” to see why, or “Dragoman: Check the Installation”\.$/ });
  }
});

test('an error after words is told in words, so that they stay', async () => {
  const { provider } = made({
    [RESPOND]: (_params, { onPart }) => {
      onPart?.({ type: 'text', value: 'half' });
      throw new ConnectionClosed('it ended by SIGKILL');
    },
  });
  const parts = (await respond(provider)) as { value: string }[];
  assert.equal(parts[0]?.value, 'half');
  assert.match(parts[1]?.value ?? '', /^\n\n\*\*Error:\*\* .*SIGKILL.*\n\n$/);
});

test('Stop resolves, is passed on, and nothing is said after it', async () => {
  const source = new vscode.CancellationTokenSource();
  let wasPassedOn = false;
  const { provider } = made({
    [RESPOND]: (_params, { onPart, signal }) => {
      onPart?.({ type: 'text', value: 'before' });
      source.cancel();
      wasPassedOn = signal?.aborted === true;
      onPart?.({ type: 'text', value: 'after' });
      throw new RpcError('Cancelled.', -32800, undefined);
    },
  });
  assert.deepEqual(await respond(provider, { toolMode: 1 }, source), [new vscode.LanguageModelTextPart('before')]);
  assert(wasPassedOn);
});

test('options go along, and permission tools only where somebody is asked', async () => {
  const tools = [{ name: 'look', description: '' }, { name: 'dragoman-agent-action-edit', description: '' }];
  const options = { tools, toolMode: 2, modelOptions: { _conversationId: 'c' }, requestInitiator: 'x' };
  for (const permission of ['ask', 'configured'] as const) {
    const { provider, asked } = made({ [RESPOND]: says() }, { permission });
    await respond(provider, options);
    const sent = asked[0]?.[1]['options'] as Record<string, unknown> & { tools: { name: string }[] };
    assert.equal(sent.tools.length, permission === 'ask' ? 2 : 1);
    assert.deepEqual([sent['toolMode'], sent['requestInitiator'], sent['modelOptions']], ['required', 'x', { _conversationId: 'c', _dragomanActivity: false }]);
  }
});

test('thinking is hidden where nobody wants it', async () => {
  const { provider } = made({ [RESPOND]: says({ type: 'thinking', value: 'hm' }, { type: 'text', value: 'a' }) }, { thinking: 'hide' });
  assert.deepEqual(await respond(provider), [new vscode.LanguageModelTextPart('a')]);
});

test('tokens are counted here, without the backend', async () => {
  const token = new vscode.CancellationTokenSource().token;
  const { provider, asked } = made({});
  assert.equal(await provider.provideTokenCount(MODEL, 'words', token), 2);
  assert.equal(await provider.provideTokenCount(MODEL, '漢字漢字', token), 3);
  const content = [
    new vscode.LanguageModelTextPart('x'.repeat(400)),
    new vscode.LanguageModelToolCallPart('c', 'look', { a: 1 }),
    new vscode.LanguageModelToolResultPart('c', [new vscode.LanguageModelTextPart('done')]),
    new (vscode.LanguageModelDataPart ?? assert.fail())(Buffer.alloc(90_000), 'image/png'),
    new (vscode.LanguageModelDataPart ?? assert.fail())(Buffer.alloc(400), 'stateful_marker'),
  ];
  const message = { role: 1, content, name: undefined } as never;
  // As the backend does it: four for a message, a call and a result each, and 1,600 for a picture.
  assert.equal(await provider.provideTokenCount(MODEL, message, token), 4 + 100 + (4 + 1 + 2) + (4 + 1) + 1_600);
  assert.equal(asked.length, 0);
});

test('a request for permission waits until it is allowed, or has a result', async () => {
  const call = (callId: string, nonce: string): Part => ({
    type: 'tool_call', callId, name: 'dragoman-agent-action-execute', input: { nonce },
  });
  const content = [{ type: 'text', value: 'token' }];
  const { provider, approvals, backend, counts } = made({
    [RESPOND]: says(call('dg_1', 'n1'), call('dg_2', 'n2')),
    'tools/invoke': () => ({ content }),
    'tools/prepareInvocation': () => ({ invocationMessage: 'i', confirmationMessages: { title: 't', message: '**m**' } }),
  });
  await respond(provider);
  assert.equal(approvals.count, 2);
  const tool = new PermissionTool('dragoman-agent-action-execute', backend, approvals);
  const token = new vscode.CancellationTokenSource().token;
  const prepared = await tool.prepareInvocation({ input: { nonce: 'n1' } }, token);
  assert.equal(prepared.confirmationMessages?.title, 't');
  const result = await tool.invoke({ input: { nonce: 'n1' } } as never, token);
  assert.deepEqual(result.content, [new vscode.LanguageModelTextPart('token')]);
  assert.equal(approvals.count, 1);
  // Skipped: the next request of the chat brings its result.
  const answered = { role: 1, content: [new vscode.LanguageModelToolResultPart('dg_2', [])], name: undefined };
  await respond(provider, { toolMode: 1 }, new vscode.CancellationTokenSource(), [answered]);
  assert.deepEqual(counts, [1, 2, 1, 0, 1, 2]);
});

test('a permission tool without a backend allows nothing, and asks all the same', async () => {
  const backend = { request: () => Promise.reject(new ConnectionClosed('gone')) };
  const tool = new PermissionTool('dragoman-agent-action-read', backend, new PendingApprovals(() => undefined));
  const token = new vscode.CancellationTokenSource().token;
  const { confirmationMessages } = await tool.prepareInvocation({ input: {} }, token);
  assert.equal(confirmationMessages?.title, 'Nothing can be allowed now');
  await assert.rejects(tool.invoke({ input: {} } as never, token), ConnectionClosed);
});

test('nothing waits for ever for a backend that says nothing', async (context) => {
  const limits: number[] = [];
  const soon = (does: () => void, milliseconds: number) => {
    limits.push(milliseconds);
    return setImmediate(does);
  };
  context.mock.method(globalThis, 'setTimeout', soon as never);
  const silence: Answer = (_params, { signal }) => unlessAborted(new Promise(() => undefined), signal);
  const { provider, backend, approvals } = made({
    'lm/provideLanguageModelChatInformation': silence,
    'tools/prepareInvocation': silence,
    'tools/invoke': silence,
  });
  const token = new vscode.CancellationTokenSource().token;
  assert.deepEqual(await provider.provideLanguageModelChatInformation({ silent: true }, token), []);
  const tool = new PermissionTool('dragoman-agent-action-read', backend, approvals);
  const { confirmationMessages } = await tool.prepareInvocation({ input: {} }, token);
  assert.match(String((confirmationMessages?.message as vscode.MarkdownString).value), /did not answer in time/);
  await assert.rejects(tool.invoke({ input: {} } as never, token), { name: 'TimeoutError' });
  assert.deepEqual(limits, [90_000, 20_000, 20_000]);
});

test('the participant’s history is what was kept, else what the chat shows', () => {
  const classes = vscode as unknown as Record<string, new (...values: unknown[]) => never>;
  const [Asked, Shown, Markdown] = [classes['ChatRequestTurn'], classes['ChatResponseTurn'], classes['ChatResponseMarkdownPart']];
  assert(Asked && Shown && Markdown);
  const kept: Message[] = [
    { role: 'user', content: [{ type: 'text', value: 'as it was sent' }] },
    { role: 'assistant', content: [{ type: 'text', value: 'answer' }] },
  ];
  const shown = new Markdown(new vscode.MarkdownString('half'));
  const history = [
    new Asked('first'), new Shown([], { metadata: { messages: kept } }, PARTICIPANT),
    new Asked('second'), new Shown([shown], {}, PARTICIPANT),
    new Asked('third'), new Shown([], {}, PARTICIPANT),
  ];
  assert.deepEqual(historyOf(history), [
    ...kept,
    { role: 'user', content: [{ type: 'text', value: 'second' }] },
    { role: 'assistant', content: [{ type: 'text', value: 'half' }] },
    { role: 'user', content: [{ type: 'text', value: 'third' }] },
  ]);
});

test('of too many tools, those stay that are needed: to ask, and those that are named', () => {
  const tool = (name: string) => ({ name, description: '', inputSchema: undefined, tags: [] });
  const tools = [...Array.from({ length: 200 }, (_, index) => tool(`t${index}`)), tool('dragoman-agent-action-edit')];
  const names = offered({ toolReferences: [{ name: 't199' }] }, tools).map(({ name }) => name);
  assert.equal(names.length, 128);
  assert.deepEqual(names.slice(0, 3), ['dragoman-agent-action-edit', 't199', 't0']);
});

test('only a request of our participant gets activities, and none where thinking is hidden', async () => {
  const marked = { toolMode: 1, modelOptions: { _dragomanActivity: true, temperature: 0 } };
  const asks = async (options: object, thinking: ProviderSettings['thinking'] = 'show') => {
    const { provider, asked } = made({ [RESPOND]: says() }, { thinking });
    await respond(provider, options);
    return (asked[0]?.[1]['options'] as { modelOptions: object }).modelOptions;
  };
  assert.deepEqual(await asks(marked), { _dragomanActivity: true, temperature: 0 });
  assert.deepEqual(await asks({ toolMode: 1 }), { _dragomanActivity: false });
  assert.deepEqual(await asks({ toolMode: 1, modelOptions: { _conversationId: 'c' } }), { _conversationId: 'c', _dragomanActivity: false });
  assert.deepEqual(await asks(marked, 'text'), { _dragomanActivity: true, temperature: 0 });
  assert.deepEqual(await asks(marked, 'hide'), { _dragomanActivity: false, temperature: 0 });
});

test('an activity reaches VS Code as data of our type', async () => {
  const step: Part = { type: 'activity', id: 't1', title: 'Look', kind: 'read', status: 'completed', locations: [] };
  const [part] = await respond(made({ [RESPOND]: says(step) }).provider);
  const { mimeType, data } = part as { mimeType: string; data: Uint8Array };
  assert.equal(mimeType, 'application/vnd.dragoman.activity+json');
  assert.deepEqual(JSON.parse(Buffer.from(data).toString()), step);
});

test('the tags of a model are in its tooltip, for VS Code has no field for them', async () => {
  const models = [{ ...MODEL, detail: 'An agent.', tags: ['agent', 'tools'] }, { ...MODEL, tooltip: 'Mine.' }, { ...MODEL, detail: 'Plain.' }];
  const { provider } = made({ 'lm/provideLanguageModelChatInformation': () => ({ models }) });
  const listed = await provider.provideLanguageModelChatInformation({ silent: true }, new vscode.CancellationTokenSource().token);
  assert.deepEqual(listed.map(({ tooltip }) => tooltip), ['An agent.\n\nTags: agent, tools.', 'Mine.', undefined]);
});

test('the chosen options go with every request; what VS Code has from the user wins', async () => {
  const { provider, agents, asked } = made({ [RESPOND]: says({ type: 'text', value: 'x' }) });
  await agents.choose('demo', 'mode', 'plan');
  await agents.choose('demo', 'model', 'small');
  await agents.choose('other', 'mode', 'yolo');
  await respond(provider, { toolMode: 1, modelConfiguration: { model: 'large' } });
  const { options } = asked[0]?.[1] as { options: { modelConfiguration: object } };
  assert.deepEqual(options.modelConfiguration, { mode: 'plan', model: 'large' });
  await agents.choose('demo', 'mode', undefined);
  assert.deepEqual(agents.chosen('demo'), { model: 'small' });
});

test('the context and the cost of an answer are noted, in the form of either chat', async () => {
  const counted = { prompt_tokens: 53000, completion_tokens: 0, total_tokens: 53000, context_size: 200000, cost: 0.25, currency: 'USD' };
  const data = Buffer.from(JSON.stringify(counted)).toString('base64');
  const { provider, agents } = made({ [RESPOND]: says({ type: 'data', mimeType: 'usage', data }, { type: 'text', value: 'x' }) });
  await respond(provider);
  assert.deepEqual(agents.lines, ['demo: context 53,000 of 200,000 • 0.25 USD']);
});

test('a login that is required is remembered until an answer comes, and the error names the command', async () => {
  let isLoggedIn = false;
  const answer: Answer = () => {
    if (!isLoggedIn) {
      throw new RpcError('Demo requires a login.', -32000, 'auth_required');
    }
    return {};
  };
  const { provider, agents } = made({ [RESPOND]: answer });
  await assert.rejects(respond(provider), /Dragoman: Sign In/);
  assert.equal(agents.needsLogin('demo'), true);
  isLoggedIn = true;
  await respond(provider);
  assert.equal(agents.needsLogin('demo'), false);
});
