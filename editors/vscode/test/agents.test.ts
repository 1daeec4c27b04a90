import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { registerAgentCommands } from '../src/agents';
import { AgentState } from '../src/agentState';
import { registerConversations } from '../src/conversations';
import type { AgentOffer, ConversationRow, Login } from '../src/wire';
import * as vscode from './vscode';

const { selectChatModels } = vscode.lm;

afterEach(() => {
  Object.assign(vscode.lm, { selectChatModels });
});

const OFFER: AgentOffer = {
  options: [
    {
      id: 'mode',
      name: 'Mode',
      category: 'mode',
      values: [
        { value: 'plan', name: 'Plan' },
        { value: 'yolo', name: 'Full $(x)', description: 'Bypasses all permission checks' },
      ],
    },
  ],
  commands: [{ name: 'review', description: 'Review the changes', hint: '[branch]' }],
};

function set(answers: Record<string, (params: Record<string, unknown>) => unknown>) {
  const editor = vscode.anotherEditor();
  vscode.lm.selectChatModels = async () => [{ id: 'demo', name: 'Demo' }];
  const asked: [string, object][] = [];
  const backend = {
    request: async (method: string, params: unknown) => {
      asked.push([method, params as object]);
      return answers[method]?.(params as Record<string, unknown>);
    },
  };
  const state = new AgentState(vscode.memento());
  registerAgentCommands({ backend, state });
  registerConversations(backend);
  const invoke = async (name: string, ...values: unknown[]) => editor.commands.get(`dragoman.${name}`)?.(...values);
  return { editor, asked, state, invoke };
}

test('a mode is chosen from the words of the agent, and taken back', async () => {
  const { editor, state, invoke } = set({ 'agent/options': () => OFFER });
  editor.answers = ['Mode', 'Full'];
  await invoke('agentOptions');
  assert.deepEqual(state.chosen('demo'), { mode: 'yolo' });
  const values = editor.picks[1]?.items ?? [];
  assert.deepEqual(values.map(({ label, detail }) => [label, detail]).at(-1), ['Full \\$(x)', 'Bypasses all permission checks']);
  editor.answers = ['Mode', 'As configured'];
  await invoke('agentOptions', 'demo');
  assert.deepEqual(state.chosen('demo'), {});
});

test('an agent that has said nothing yet is asked', async () => {
  const { editor, asked, invoke } = set({ 'agent/options': ({ look }) => (look === true ? OFFER : {}) });
  editor.answers = ['/review'];
  await invoke('agentCommands');
  assert.deepEqual(asked.map(([, params]) => params), [{ modelId: 'demo' }, { modelId: 'demo', look: true }]);
  const open = ['workbench.action.chat.open', { query: '@dragoman /review ', isPartialQuery: true }];
  assert.deepEqual(editor.executed, [open]);
});

test('a login in a terminal shows its whole command, and starts the program itself after a yes, without a shell', async () => {
  const login: Login = { id: 'a', name: 'Log in', kind: 'terminal', terminal: { command: ['/bin/my agent', '--login', "it's"], env: { A: '1' } } };
  const { editor, invoke } = set({ 'agent/logins': () => ({ logins: [login] }) });
  await invoke('signIn', 'demo');
  const { detail = '', buttons } = editor.messages.at(-1) ?? {};
  assert.match(detail, /^"\/bin\/my agent" --login "it's"\n\n.*the variables A\.$/);
  assert.deepEqual(buttons, ['Run in Terminal']);
  assert.deepEqual(editor.shells, []);
  editor.answers = ['Run in Terminal'];
  await invoke('signIn', 'demo');
  assert.deepEqual(editor.shells, [{ name: 'Log in: Log in', shellPath: '/bin/my agent', shellArgs: ['--login', "it's"], env: { A: '1' } }]);
});

test('no part of the command of a login is hidden', async () => {
  const logins = ([['sh', '-c', `echo \u202eyes\n\u200b${'x'.repeat(80)}`], ['sh', '-c', 'x\n'.repeat(20_000)]]).map((command, index): Login => (
    { id: `${index}`, name: `Way ${index}`, kind: 'terminal', description: 'Harmless', terminal: { command } }
  ));
  const { editor, invoke } = set({ 'agent/logins': () => ({ logins }) });
  editor.answers = ['Way 0'];
  await invoke('signIn', 'demo');
  assert.match(editor.picks[0]?.items[0]?.detail ?? '', /^sh -c "echo /);
  assert.match(editor.messages.at(-1)?.detail ?? '', /^sh\n-c\n"echo \\u\{202e\}yes\\n\\u\{200b\}x{80}"\n/);
  // What does not fit is not run.
  editor.answers = ['Way 1', 'Run in Terminal'];
  await invoke('signIn', 'demo');
  assert.deepEqual(editor.messages.at(-1)?.buttons, []);
  assert.deepEqual(editor.shells, []);
});

test('any other login is left to the agent', async () => {
  const logins: Login[] = [{ id: 'key', name: 'Key', kind: 'agent' }, { id: 'v', name: 'Variable', kind: 'env_var' }];
  const { editor, asked, state, invoke } = set({ 'agent/logins': () => ({ logins }) });
  state.loginNeeded('demo', true);
  editor.answers = ['Key'];
  await invoke('signIn', 'demo');
  assert.deepEqual(asked.at(-1), ['agent/login', { modelId: 'demo', methodId: 'key' }]);
  assert.equal(state.needsLogin('demo'), false);
  editor.answers = ['Variable'];
  await invoke('signIn', 'demo');
  assert.match(editor.messages.at(-1)?.text ?? '', /env/);
});

const ROW: ConversationRow = {
  id: 'abcdefghijklmnop', title: 'The milk', modelId: 'demo', agent: 'Demo', client: 'stdio:Test', folder: '/w',
  startedAt: 1, usedAt: 2, state: 'idle', keepsMemory: true,
};

test('the view lists conversations, shows one, continues one in the chat, and deletes one after a question', async () => {
  const { editor, asked, invoke } = set({
    'conversations/list': () => ({ conversations: [ROW] }),
    'conversations/show': () => ({ text: '# The milk' }),
  });
  const tree = editor.tree as { getChildren(): Promise<ConversationRow[]>; getTreeItem(row: ConversationRow): { label: string; tooltip: string } };
  assert.deepEqual(await tree.getChildren(), [ROW]);
  assert.equal(tree.getTreeItem(ROW).label, 'The milk');
  assert.match(tree.getTreeItem(ROW).tooltip, /own memory/);
  await invoke('conversations.show', ROW);
  assert.deepEqual(editor.opened, ['# The milk']);
  await invoke('conversations.continue', ROW);
  assert.deepEqual(editor.executed.at(-1), ['workbench.action.chat.open', { query: '@dragoman /continue abcdefghijklmnop ', isPartialQuery: true }]);
  await invoke('conversations.delete', ROW);
  assert.equal(asked.some(([method]) => method === 'conversations/delete'), false);
  editor.answers = ['Delete'];
  await invoke('conversations.delete', ROW);
  assert.deepEqual(asked.at(-1), ['conversations/delete', { id: ROW.id }]);
});
