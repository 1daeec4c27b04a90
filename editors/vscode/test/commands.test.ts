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
  registerAgentCommands({ backend, state: new AgentState(vscode.memento()) });
  registerConversations(backend);
  registerCommands({ backend, approvals, log, places: () => places(command, platform) });
  const invoke = async (name: string) => {
    await editor.commands.get(`dragoman.${name}`)?.();
  };
  return { editor, done, invoke };
}

function ready(configuration?: string): Ready {
  return { name: 'ready', version: '9', pid: 1, configuration };
}

test('every command that is promised is there, and every command that is there is promised', () => {
  const { editor } = registered([], ready());
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

test('the menu has what can be done, and Install where something is wrong', async () => {
  const { editor, done, invoke } = registered([], ready());
  editor.answers = ['Restart'];
  await invoke('menu');
  assert.deepEqual(done, ['restart']);
  assert.equal(editor.picks[0]?.title, 'Dragoman: ready');
  assert(!editor.picks[0]?.items.some(({ label }) => label.includes('Install Dragoman')));
  const broken = registered([], { name: 'failed', reason: 'Dragoman is gone.' });
  await broken.invoke('menu');
  assert.equal(broken.editor.picks[0]?.title, 'Dragoman is gone.');
  assert(broken.editor.picks[0]?.items.some(({ label }) => label.includes('Install Dragoman')));
  const fresh = registered([], { name: 'missing', reason: 'Dragoman is not set up yet.' });
  await fresh.invoke('menu');
  assert.equal(fresh.editor.picks[0]?.title, 'Dragoman is not set up yet.');
  assert.match(fresh.editor.picks[0]?.items[0]?.label ?? '', /Install Dragoman/);
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
