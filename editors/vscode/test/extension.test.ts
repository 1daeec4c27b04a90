/** The extension as a whole, in an editor that is only played, with a backend that is a real process. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { afterEach, test } from 'node:test';
import { activate, deactivate } from '../src/extension';
import type { Provider } from '../src/provider';
import { offerChatOnce } from '../src/welcome';
import * as vscode from './vscode';

const PLAYED = (starts: string, configuration: string) => `
  const fs = require('node:fs');
  fs.appendFileSync(${JSON.stringify(starts)}, 'started\\n');
  fs.writeFileSync(${JSON.stringify(starts)}.replace(/starts$/, 'environment'), JSON.stringify(Object.keys(process.env)));
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
  const reply = (id, result) => say({ id, result });
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (method === 'settings/didChange') fs.appendFileSync(${JSON.stringify(starts)}.replace(/starts$/, 'told'), JSON.stringify(params) + '\\n');
    else if (method === 'initialize') reply(id, { server: { version: '9' }, configuration: ${JSON.stringify(configuration)} });
    else if (method === 'lm/provideLanguageModelChatInformation') reply(id, { models: [{ id: 'demo', name: 'Demo' }] });
    else if (method === 'conversations/list') {
      reply(id, { conversations: [] });
      setTimeout(() => say({ method: 'conversations/changed', params: {} }), 20);
    } else if (method === 'shutdown') {
      say({ method: 'log', params: { level: 'debug', message: 'a detail' } });
      say({ method: 'log', params: { level: 'info', message: 'every agent has ended' } });
      reply(id, {});
    }
  });
`;

class Memento extends Map<string, unknown> {
  async update(key: string, value: unknown): Promise<void> {
    // As VS Code keeps it.
    this.set(key, JSON.parse(JSON.stringify(value)));
  }
}

const folder = mkdtempSync(path.join(tmpdir(), 'dragoman-extension-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** What outlives a window. */
function machine(name: string) {
  const at = (...names: string[]) => path.join(folder, name, ...names);
  return { at, starts: `${at()}-starts`, globalState: new Memento(), workspaceState: new Memento() };
}

type Machine = ReturnType<typeof machine>;

function opened({ at, starts, globalState, workspaceState }: Machine, settings: Record<string, unknown> = {}) {
  const editor = vscode.anotherEditor();
  const configuration = `${at()}.toml`;
  editor.settings = { command: [process.execPath, '-e', PLAYED(starts, configuration)], ...settings };
  const subscriptions: { dispose(): void }[] = [];
  activate({
    extension: { packageJSON: { version: '1' } },
    globalStorageUri: vscode.Uri.file(at('storage')),
    asAbsolutePath: at,
    subscriptions,
    globalState,
    workspaceState,
  } as never);
  const provider = editor.provider as Provider;
  const models = async () => {
    const token = new vscode.CancellationTokenSource().token as never;
    return (await provider.provideLanguageModelChatInformation({ silent: true }, token)).map(({ id }) => id);
  };
  const started = () => (existsSync(starts) ? readFileSync(starts, 'utf8').split('\n').length - 1 : 0);
  /** As VS Code does it: nothing waits for the end of what was asked to end. */
  const close = () => {
    const ended = deactivate();
    subscriptions.forEach((one) => one.dispose());
    return ended;
  };
  return { editor, models, started, configuration, close };
}

afterEach(() => deactivate());

test('the view of conversations is read again when the backend says so, and when it has started', async () => {
  const { editor } = opened(machine('conversations'));
  const tree = editor.tree as { getChildren(): Promise<unknown[]>; onDidChangeTreeData(listener: () => void): void };
  let listed = false;
  const before = { start: 0, after: 0 };
  await new Promise<void>((resolve) => {
    tree.onDidChangeTreeData(() => {
      before[listed ? 'after' : 'start'] += 1;
      if (listed) {
        resolve();
      }
    });
    void tree.getChildren().then(() => (listed = true));
  });
  assert.deepEqual(before, { start: 1, after: 1 });
});

test('the first window asks for the models; the next one knows them, and starts nothing for its list', async () => {
  const here = machine('lazy');
  const first = opened(here);
  assert.deepEqual(await first.models(), ['demo']);
  assert.equal(first.started(), 1);
  assert.match(first.editor.status.tooltip, /Dragoman 9 is running/);
  await deactivate();

  const second = opened(here);
  assert.deepEqual(await second.models(), ['demo']);
  assert.equal(second.started(), 1);
  assert.match(second.editor.status.tooltip, /not running\. It starts with your next prompt/);
});

test('what the backend says at its end is logged, in a window that is closing', { timeout: 20_000 }, async () => {
  const { editor, models, close } = opened(machine('closing'));
  await models();
  await close();
  assert(editor.logged.includes('every agent has ended'));
});

test('what a window has left half installed is removed by the next', { timeout: 20_000 }, async () => {
  const here = machine('left over');
  const half = here.at('storage', '1', `environment-${spawnSync('true').pid}-00c0ffee`);
  mkdirSync(half, { recursive: true });
  opened(here);
  while (existsSync(half)) {
    await new Promise(setImmediate);
  }
});

test('what decides about the models is another: they are asked for again', async () => {
  const here = machine('changed');
  const first = opened(here);
  await first.models();
  await deactivate();

  appendFileSync(first.configuration, '[models.new]\n');
  const second = opened(here);
  await second.models();
  assert.equal(second.started(), 2);
  await deactivate();

  const third = opened(here, { configuration: '/another.toml' });
  await third.models();
  assert.equal(third.started(), 3);
});

test('another first folder has a configuration of its own: the models are asked for again', async () => {
  const here = machine('folders');
  const inFolder = async (name: string) => {
    const window = opened(here);
    mkdirSync(here.at(name), { recursive: true });
    window.editor.folders = [{ uri: vscode.Uri.file(here.at(name)) }];
    await window.models();
    await deactivate();
    return window.started();
  };
  assert.equal(await inFolder('one'), 1);
  assert.equal(await inFolder('one'), 1);
  assert.equal(await inFolder('other'), 2);
  assert.equal(await inFolder('other'), 2);
});

test('a setting that says what to start restarts the backend, if there is one', async () => {
  const here = machine('settings');
  const { editor, models, started } = opened(here);
  const change = () => editor.configurationChanged.fire({ affectsConfiguration: (name) => name === 'dragoman.configuration' });
  change();
  await new Promise(setImmediate);
  assert.match(editor.status.tooltip, /not running/);
  await editor.commands.get('dragoman.restart')?.();
  assert.equal(started(), 1);
  change();
  await models();
  assert.equal(started(), 2);
});

test('the log level and thinking change in the running backend, which is not restarted under its answers', async () => {
  const here = machine('live');
  const { editor, models, started } = opened(here);
  await models();
  const changed = async (name: string, value: string) => {
    editor.settings = { ...editor.settings, [name]: value };
    editor.configurationChanged.fire({ affectsConfiguration: (one) => ['dragoman', `dragoman.${name}`].includes(one) });
    await models();
  };
  await changed('logLevel', 'debug');
  await changed('thinking', 'text');
  const told = readFileSync(`${here.at()}-told`, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line) as object);
  const features = { thinking: true, data: true, activity: true, fs: true, terminal: true };
  assert.deepEqual(told, [
    { features, logLevel: 'debug' },
    { features: { ...features, thinking: false }, logLevel: 'debug' },
  ]);
  assert.equal(started(), 1);
});

test('debug lines of the backend are shown, although VS Code’s level of the channel would drop them', async () => {
  const { editor, models, close } = opened(machine('debug'), { logLevel: 'debug' });
  await models();
  await close();
  assert(editor.logged.includes('[debug] a detail'), editor.logged.join('\n'));
});

test('the backend does not inherit what VS Code sets for itself', async () => {
  const here = machine('environment');
  Object.assign(process.env, { ELECTRON_RUN_AS_NODE: '1', VSCODE_PID: '7', DRAGOMAN_TEST_ONLY: 'kept' });
  try {
    await opened(here).models();
    const names = JSON.parse(readFileSync(`${here.at()}-environment`, 'utf8')) as string[];
    assert.deepEqual(names.filter((name) => /^(VSCODE_|ELECTRON_|DRAGOMAN_TEST_ONLY)/.test(name)), ['DRAGOMAN_TEST_ONLY']);
  } finally {
    ['ELECTRON_RUN_AS_NODE', 'VSCODE_PID', 'DRAGOMAN_TEST_ONLY'].forEach((name) => delete process.env[name]);
  }
});

test('where Dragoman is not installed that is offered once, as an offer, and the status bar has it from then on', async () => {
  const here = machine('nothing');
  const settings = { command: [] };
  const before = process.env['PATH'];
  process.env['PATH'] = '';
  try {
    const first = opened(here, settings);
    assert.deepEqual(await first.models(), []);
    assert.deepEqual(await first.models(), []);
    assert.equal(first.editor.messages.length, 1);
    assert.match(first.editor.messages[0]?.text ?? '', /Set it up now\?/);
    assert.deepEqual(first.editor.messages[0]?.buttons, ['Set Up', 'Use an Installed One…']);
    assert.deepEqual([first.editor.status.text, first.editor.status.backgroundColor], ['$(rocket) Set Up Dragoman', undefined]);
    await deactivate();

    const second = opened(here, settings);
    await second.models();
    assert.equal(second.editor.messages.length, 0);
    // Who asks for something is offered it all the same.
    await second.editor.commands.get('dragoman.doctor')?.();
    assert.deepEqual(second.editor.messages[0]?.buttons, ['Set Up', 'Use an Installed One…']);
  } finally {
    process.env['PATH'] = before;
  }
});

test('the permission tools are in no list before there are models that may need them', async () => {
  const asks = ({ executed }: vscode.Editor) => executed.filter(([name, key]) => name === 'setContext' && key === 'dragoman.asks').map(([, , value]) => value);
  const { editor, models } = opened(machine('tools'));
  assert.deepEqual(asks(editor), []);
  await models();
  assert.deepEqual([...new Set(asks(editor))], [true]);
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as { contributes: { languageModelTools: { when?: string }[] } };
  assert.deepEqual([...new Set(manifest.contributes.languageModelTools.map(({ when }) => when))], ['dragoman.asks']);
  await deactivate();
  const never = opened(machine('no tools'), { permission: 'configured' });
  await never.models();
  assert.deepEqual([...new Set(asks(never.editor))], [false]);
});

test('who is not signed in is offered the ways to talk to an agent, once', async () => {
  const memory = new Memento() as never;
  const atOnce = () => Promise.resolve();
  const editor = vscode.anotherEditor();
  editor.answers = ['Use in the Built-in Chat'];
  await offerChatOnce(memory, atOnce);
  assert.deepEqual(editor.messages.map(({ buttons }) => buttons), [['Use in the Built-in Chat', 'Ask @dragoman']]);
  assert.deepEqual(editor.executed, [['dragoman.builtInChat']]);
  await offerChatOnce(memory, atOnce);
  assert.equal(editor.messages.length, 1);

  const signedIn = vscode.anotherEditor();
  signedIn.isBuiltInChatActive = true;
  await offerChatOnce(new Memento() as never, atOnce);
  assert.deepEqual(signedIn.messages, []);

  const old = vscode.anotherEditor();
  old.builtInCommands = [];
  old.answers = ['Ask @dragoman'];
  await offerChatOnce(new Memento() as never, atOnce);
  assert.deepEqual(old.messages.map(({ buttons }) => buttons), [['Ask @dragoman']]);
  assert.deepEqual(old.executed, [['workbench.action.chat.open', { query: '@dragoman ', isPartialQuery: true }]]);
});

test('a broken configuration can be opened, although nothing runs', async () => {
  const here = machine('broken');
  const { editor } = opened(here, { command: [process.execPath, '-e', 'process.exit(2)'] });
  const file = path.join(folder, 'dragoman.toml');
  writeFileSync(file, 'broken');
  editor.folders = [{ uri: vscode.Uri.file(folder) }];
  editor.answers = ['Open the configuration'];
  await editor.commands.get('dragoman.manage')?.();
  assert.deepEqual(editor.opened, [file]);
});
