import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { test } from 'node:test';
import { registerAgentCommands } from '../src/agents';
import { AgentState } from '../src/agentState';
import { PendingApprovals } from '../src/approvals';
import type { BackendState, Ready } from '../src/backend';
import { registerCommands } from '../src/commands';
import { registerConversations } from '../src/conversations';
import { registerReview } from '../src/review';
import { install } from '../src/install';
import { locate, type Places } from '../src/locate';
import * as vscode from './vscode';

const folder = mkdtempSync(path.join(tmpdir(), 'dragoman-commands-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** A `dragoman` that writes down what it is asked, and knows two agents. */
function played(name: string): { command: string[]; runs: () => string[][] } {
  const record = path.join(folder, `${name}.jsonl`);
  const entry = (id: string, installed: object | null) => ({ id, name: id.toUpperCase(), version: '1', description: '', installed, models: [] });
  const listed = [entry('claude', null), entry('codex', {})].map((one) => JSON.stringify(one)).join('\n');
  writeFileSync(record, '');
  const script = `
    const words = process.argv.slice(1);
    require('node:fs').appendFileSync(${JSON.stringify(record)}, JSON.stringify(words) + '\\n');
    if (words[1] === 'list') console.log(${JSON.stringify(listed)});
  `;
  const runs = () => readFileSync(record, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line) as string[]);
  return { command: [process.execPath, '-e', script], runs };
}

function places(command: readonly string[], platform: NodeJS.Platform = 'linux'): Places {
  return { command, storage: folder, bundled: folder, path: '', platform };
}

function registered(command: readonly string[], state: BackendState, platform?: NodeJS.Platform) {
  const editor = vscode.anotherEditor();
  const done: string[] = [];
  const backend = {
    state,
    request: () => Promise.reject(new Error('it does not start')),
    ready: () => (state.name === 'ready' ? Promise.resolve(state) : Promise.reject(new Error('it does not start'))),
    restart: async () => {
      done.push('restart');
      if (state.name === 'failed') {
        throw new Error(state.reason);
      }
    },
  };
  const approvals = new PendingApprovals(() => undefined);
  const log = { show: () => done.push('log') } as never;
  const agents = new AgentState(vscode.memento());
  registerAgentCommands({ backend, state: agents });
  registerConversations(backend);
  registerCommands({ backend, approvals, agents, log, places: () => places(command, platform) });
  const invoke = async (name: string) => {
    await editor.commands.get(`dragoman.${name}`)?.();
  };
  return { editor, done, invoke, approvals, agents };
}

function ready(configuration?: string): Ready {
  return { name: 'ready', version: '9', pid: 1, configuration };
}

test('every command that is promised is there, and every command that is there is promised', () => {
  const { editor } = registered([], ready());
  registerReview({ request: () => assert.fail() }, new PendingApprovals(() => undefined));
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
    contributes: { commands: { command: string }[]; walkthroughs: { steps: { description: string; media: { markdown: string } }[] }[] };
  };
  const promised = manifest.contributes.commands.map(({ command }) => command);
  assert.deepEqual([...editor.commands.keys()].toSorted(), promised.toSorted());
  const steps = manifest.contributes.walkthroughs.flatMap((walkthrough) => walkthrough.steps);
  const linked = steps.flatMap(({ description }) => [...description.matchAll(/\(command:(dragoman\.\w+)\)/g)].map(([, name]) => name ?? ''));
  assert.deepEqual(linked, ['dragoman.install', 'dragoman.manage', 'dragoman.builtInChat']);
  linked.forEach((name) => assert(promised.includes(name)));
  steps.forEach(({ media }) => assert(readFileSync(media.markdown, 'utf8').length > 0));
});

test('the built-in chat is told of us once, and its list of models is opened every time', async () => {
  const { editor, invoke } = registered([], ready());
  const [add, open] = ['lm.addLanguageModelsProviderGroup', 'workbench.action.chat.manage'];
  await invoke('builtInChat');
  assert.deepEqual(editor.executed, [[add, { name: 'Dragoman', vendor: 'dragoman' }], [open]]);
  editor.refusals.set(add, 'Language model group with name Dragoman already exists for vendor dragoman');
  await invoke('builtInChat');
  assert.deepEqual([editor.executed.at(-1), editor.messages], [[open], []]);
  // In an older VS Code that chat needs an account.
  editor.builtInCommands = [];
  await invoke('builtInChat');
  assert.match(editor.messages[0]?.text ?? '', /only with an account\. Begin a prompt with @dragoman/);
});

test('Restart restarts, and says why where it cannot', async () => {
  const { editor, done, invoke } = registered([], ready());
  await invoke('restart');
  assert.deepEqual([done, editor.messages], [['restart'], []]);
  const broken = registered([], { name: 'failed', reason: 'line 3: no such key' });
  broken.editor.answers = ['Show Log'];
  await broken.invoke('restart');
  assert.deepEqual(broken.editor.messages, [{ text: 'line 3: no such key', buttons: ['Show Log'] }]);
  assert.deepEqual(broken.done, ['restart', 'log']);
});

test('Reset Approvals asks first, then forgets ours and the editor’s', async () => {
  const { command, runs } = played('reset');
  const { editor, invoke } = registered(command, ready());
  await invoke('resetApprovals');
  assert.deepEqual([runs(), editor.executed], [[], []]);
  editor.answers = ['Forget'];
  await invoke('resetApprovals');
  assert.deepEqual(runs(), [['approvals', 'reset']]);
  assert.deepEqual(editor.executed, [['workbench.action.chat.resetTrustedTools']]);
});

/** The entries of the first menu, and the title. */
async function menuOf({ editor, invoke }: Pick<ReturnType<typeof registered>, 'editor' | 'invoke'>) {
  await invoke('menu');
  const { title = '', items = [] } = editor.picks[0] ?? {};
  return { title, labels: items.map(({ label }) => label.replace(/^\$\([\w-]+\) /, '')) };
}

test('where Dragoman is not set up, the menu is short and begins with Install', async () => {
  const fresh = registered([], { name: 'missing', reason: 'Dragoman is not set up yet.' });
  const { title, labels } = await menuOf(fresh);
  assert.equal(title, 'Set Up Dragoman');
  assert.deepEqual(labels, ['Install Dragoman', 'Use an Installed One…', 'Read the First Steps', 'Show Log']);
  fresh.editor.answers = ['Use an Installed One'];
  await fresh.invoke('menu');
  assert.deepEqual(fresh.editor.executed.at(-1), ['workbench.action.openSettings', 'dragoman.command']);
});

test('where it fails, the menu begins with what says why', async () => {
  const { title, labels } = await menuOf(registered([], { name: 'failed', reason: 'Dragoman is gone.' }));
  assert.equal(title, 'Dragoman is gone.');
  assert.deepEqual(labels, ['Check the Installation', 'Show Log', 'Manage Agents', 'Restart', 'Install Dragoman']);
});

test('the first entry is the next step: a question, a login, an agent, the chat, a prompt', async () => {
  const models = (...ids: string[]) => {
    vscode.lm.selectChatModels = async () => ids.map((id) => ({ id, name: id }));
  };
  models('demo');
  const { editor, approvals, agents, invoke } = registered([], ready());
  const next = async () => {
    editor.picks.length = 0;
    return (await menuOf({ editor, invoke })).labels;
  };
  assert.deepEqual(await next(), ['Add an Agent', 'Ask @dragoman', 'Agent Options…', 'More…']);
  models('demo', 'claude');
  assert.deepEqual(await next(), ['Use in the Built-in Chat', 'Ask @dragoman', 'Manage Agents', 'Agent Options…', 'More…']);
  editor.isBuiltInChatActive = true;
  assert.deepEqual(await next(), ['Ask @dragoman', 'Manage Agents', 'Agent Options…', 'More…']);
  agents.named([{ id: 'claude', name: 'Claude Code' }]);
  agents.loginNeeded('claude', true);
  assert.equal((await next())[0], 'Sign In…');
  assert.equal(editor.picks[0]?.items[0]?.detail, 'Claude Code requires a login');
  editor.answers = ['Sign In'];
  await invoke('menu');
  assert.deepEqual(editor.executed.at(-1), ['dragoman.signIn', 'claude']);
  approvals.emitted({ type: 'tool_call', callId: 'c', name: 'dragoman-agent-action-edit', input: { nonce: 'n' } });
  assert.equal((await next())[0], 'Show Question');
  models();
});

test('More has every other command, and none twice', async () => {
  const { editor, done, invoke } = registered([], ready());
  editor.answers = ['More', 'Restart'];
  await invoke('menu');
  assert.deepEqual(done, ['restart']);
  const labels = editor.picks.flatMap(({ items }) => items.map(({ label }) => label));
  assert.equal(new Set(labels).size, labels.length);
  ['Show Log', 'Reset Approvals', 'Allow from Now On…', 'Sign In…'].forEach((words) =>
    assert(labels.some((label) => label.includes(words)), words),
  );
});

test('Manage Agents opens the file that is in use, and has an agent added to that', async () => {
  const file = path.join(folder, "a folder's", 'dragoman.toml');
  const { command, runs } = played('manage');
  const { editor, invoke } = registered(command, ready(file));
  editor.answers = ['Open the configuration'];
  await invoke('manage');
  assert.deepEqual(editor.opened, [file]);
  assert.match(readFileSync(file, 'utf8'), /^# An agent is a model/);
  assert.deepEqual(runs(), [['agents', 'list', '--json']]);
  // Now it is there.
  editor.answers = ['Add CLAUDE'];
  await invoke('manage');
  assert.deepEqual(runs()[1], ['agents', 'list', '--json', '--config', file]);
  // Each word is an argument of its own, so nothing is quoted; the user's shell follows, so that the output stays.
  assert.deepEqual(editor.terminals, [
    ['/bin/sh', '-c', '"$@"; exec "${SHELL:-/bin/sh}"', 'dragoman', ...command, 'agents', 'add', 'claude', '--config', file],
  ]);
  assert(!editor.picks[1]?.items.some(({ label }) => label.includes('CODEX')));
});

test('on Windows nothing is installed: the folder is to be opened in WSL', async () => {
  await assert.rejects(locate(places([], 'win32')), /open the folder in WSL/);
  await assert.rejects(install(places([], 'win32'), new AbortController().signal, () => undefined), /open the folder in WSL/);
  assert.deepEqual(await locate(places(['my', 'dragoman'], 'win32')), ['my', 'dragoman']);
  for (const name of ['install', 'doctor']) {
    const { editor, invoke } = registered([], { name: 'stopped' }, 'win32');
    await invoke(name);
    assert.match(editor.messages[0]?.text ?? '', /open the folder in WSL/);
    assert.deepEqual(editor.messages[0]?.buttons, ['Show Log']);
  }
});
