// What a person is asked and what a yes covers, in a real VS Code: every kind of action, two agents, lasting approvals.
// They share one editor and run in their order; each begins a chat of its own.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { ROOT, until } from './editor.mjs';
import { withEditor } from './suite.mjs';

const DRAGOMAN = process.env.DRAGOMAN ?? path.join(ROOT, '.venv/bin/dragoman');
const EXECUTE = 'dragoman-agent-action-execute';
const SENSITIVE = 'dragoman-agent-action-sensitive';
const IMAGES = process.env.DRAGOMAN_IMAGES;
// For a look at what the tests see.

let editor;
let chat;

/** A second demo agent, and one that asks for what it is told to ask for. */
function agents(at) {
  return {
    'Second Agent': ['dragoman', 'demo-agent', '--pace', 'instant', '--sessions', at('second')],
    'Scripted Agent': [path.join(path.dirname(DRAGOMAN), 'python'), path.join(ROOT, 'tests/fake_agent/agent.py'), JSON.stringify({ folder: at('state') })],
  };
}

withEditor({ dragoman: DRAGOMAN, agents }, (started) => {
  editor = started;
  chat = started.chat;
});

function times(name) {
  const file = editor.at('workspace', name);
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0;
}

/** The scripted agent asks for permission, and says the outcome. */
function asks(toolCall) {
  return `@dragoman ${JSON.stringify([['ask', { toolCallId: 'c1', ...toolCall }, ['allow_once', 'reject_once']]])}`;
}

function edit(file) {
  return { kind: 'edit', title: 'Write', content: [{ type: 'diff', path: file, newText: 'changed\n' }], locations: [{ path: file }] };
}

async function skipped(outcome = /denied/) {
  await chat.skip();
  await chat.hears(outcome);
  await chat.idle();
}

test('every kind of action can be allowed once or skipped, and nothing else is offered', async () => {
  await editor.newChat();
  await chat.pick('Scripted Agent');
  const file = editor.at('workspace', 'hello.txt');
  const actions = {
    read: { kind: 'read', title: 'Read', locations: [{ path: file }] },
    edit: edit(file),
    delete: { kind: 'delete', title: 'Delete', locations: [{ path: file }], rawInput: { path: file } },
    execute: { kind: 'execute', title: 'Run', rawInput: { command: 'git status' } },
    fetch: { kind: 'fetch', title: 'Fetch', rawInput: { url: 'https://evil.example/' } },
    other: { kind: 'other', title: 'Think', rawInput: { about: 'it' } },
    sensitive: edit(editor.at('workspace', '.vscode/settings.json')),
  };
  for (const [risk, action] of Object.entries(actions)) {
    await chat.say(asks(action));
    await chat.dialog();
    assert.equal(editor.lastQuestion.name, `dragoman-agent-action-${risk}`);
    assert.deepEqual(Object.keys(editor.lastQuestion.input), ['nonce']);
    assert.deepEqual(await chat.choices(), ['Allow Once', 'Skip'], risk);
    await skipped(/<c1: the-reject_once>/);
    // The next answer is told from this one by its chat.
    await editor.newChat();
  }
});

for (const [where, target] of [
  ['outside the workspace', () => editor.at('elsewhere.txt')],
  ['to the settings of the workspace', () => editor.at('workspace', '.vscode/settings.json')],
]) {
  test(`Allow all: a change ${where} is asked about in a modal dialog, every time`, async () => {
    await editor.newChat();
    await chat.pick('Scripted Agent');
    await chat.permissions('Allow all');
    for (const [answer, outcome] of [['Cancel', 'reject'], ['Allow Once', 'allow'], ['Cancel', 'reject']]) {
      const since = editor.invocations.length;
      await chat.say(asks(edit(target())));
      const text = await editor.modalText();
      assert(text.includes(target()), text);
      assert(await editor.modalFits());
      if (IMAGES) {
        await editor.pictureOfModal(path.join(IMAGES, 'vscode-sensitive.png'));
      }
      await editor.look(`modal-${where.replaceAll(' ', '-')}`);
      await editor.answerModal(answer);
      await chat.hears(new RegExp(`<c1: the-${outcome}_once>`));
      await chat.idle();
      assert.equal(editor.invocations.length - since, outcome === 'allow' ? 1 : 0);
      await editor.newChat();
      await chat.permissions('Allow all');
    }
    await chat.permissions('Default permissions');
  });
}

test('a long sensitive question: the modal dialog shows both ends, and nothing is allowed before all of it was shown', async () => {
  const secrets = editor.at('workspace', '.env');
  const lines = Array.from({ length: 1_500 }, (_, number) => `KEY_${number}=value\n`).join('');
  writeFileSync(secrets, lines);
  await editor.newChat();
  await chat.pick('Demo Agent');
  await chat.permissions('Allow all');
  for (const [answer, isDone] of [['Refuse', false], ['Allow Once', true]]) {
    await chat.say('@dragoman write `KEY=1` to `.env`');
    assert.match(await editor.modalText(), /Demo Agent wants[^]*KEY_0=[^]*lines left out[^]*\+KEY=1[^]*Folder:/);
    await editor.look('modal-long');
    assert(await editor.modalFits());
    assert.equal(await editor.modal.locator('.monaco-button').filter({ hasText: 'Allow Once' }).count(), 0);
    const before = editor.witnessed('document').length;
    await editor.answerModal('Show All');
    const { text } = await until('the document', () => editor.witnessed('document')[before]);
    assert(text.includes('-KEY_750=value') && text.includes('+KEY=1'), text);
    await editor.look('modal-document');
    await editor.pickItem(/wants to/, answer);
    if (isDone) {
      await until('the change', () => readFileSync(secrets, 'utf8') !== lines);
    } else {
      await chat.hears(/denied/);
      assert.equal(readFileSync(secrets, 'utf8'), lines);
    }
    await chat.idle();
    await editor.closeEditors();
  }
  await chat.permissions('Default permissions');
});

/** One change by one agent is allowed; then the other agent and the same one, in chats of their own, are asked about each. */
async function askedAgain(to, [name, other]) {
  const file = editor.at('workspace', name);
  await editor.newChat();
  await chat.pick('Demo Agent');
  await chat.say(to(`write \`First.\` to \`${name}\``));
  assert.match(await chat.dialog(), /Demo Agent/);
  await chat.allowOnce();
  await until('the change', () => existsSync(file));
  await chat.idle();
  writeFileSync(file, 'Reset.\n');
  for (const agent of ['Second Agent', 'Demo Agent']) {
    await editor.newChat();
    await chat.pick(agent);
    for (const [words, target] of [['First.', name], ['Other.', other]]) {
      await chat.say(to(`write \`${words}\` to \`${target}\``));
      assert((await chat.dialog()).includes(agent));
      await skipped();
    }
    await chat.say(to('write `{}` to `.vscode/settings.json`'));
    await chat.dialog();
    assert.equal(editor.lastQuestion.name, SENSITIVE);
    await skipped();
  }
  assert.equal(readFileSync(file, 'utf8'), 'Reset.\n');
  assert(!existsSync(editor.at('workspace', other)));
  assert(!existsSync(editor.at('workspace', '.vscode/settings.json')));
}

test('a yes to one agent is no yes to another one, nor to the next change', async () => {
  await askedAgain((words) => `@dragoman ${words}`, ['notes.txt', 'other-notes.txt']);
});

test('Allow from Now On: the same action is no longer asked about, another one and another agent’s are', async () => {
  const command = '@dragoman !run echo lasting | tee -a lasting.txt';
  await editor.newChat();
  await chat.pick('Demo Agent');
  await chat.say(command);
  await chat.allowOnce();
  await until('the command', () => times('lasting.txt') === 1);
  await chat.idle();
  await editor.command('Dragoman: Allow from Now On…');
  await until('the list', async () => /echo lasting/.test(await editor.menuText()));
  await editor.look('recent');
  await editor.pickItem('Allow from now on', 'echo lasting');
  await editor.pickItem('Allow from now on: for how long?', /^\s*Workspace/);
  assert.match(await editor.modalText(), /echo lasting \| tee -a lasting\.txt[^]*Demo Agent/);
  await editor.look('lasting');
  await editor.answerModal('Allow from Now On');
  await editor.notification(/Allowed from now on: this folder/).waitFor();

  await editor.newChat();
  const since = editor.invocations.length;
  await chat.say(command);
  await until('the command, unasked', () => times('lasting.txt') === 2);
  await chat.idle();
  assert.equal(editor.invocations.length, since);
  await chat.say('@dragoman !run echo lasting | tee -a  lasting.txt');
  await chat.dialog();
  await skipped();
  await editor.newChat();
  await chat.pick('Second Agent');
  await chat.say(command);
  await chat.dialog();
  await skipped();
  assert.equal(times('lasting.txt'), 2);
});

test('Allow from Now On: a rule is shown with its file before it is added, and decides from then on', async () => {
  const command = '@dragoman !run touch ruled.txt';
  const file = editor.at('workspace', 'ruled.txt');
  await editor.newChat();
  await chat.pick('Demo Agent');
  await chat.say(command);
  await chat.dialog();
  await skipped();
  assert(!existsSync(file));
  await editor.command('Dragoman: Allow from Now On…');
  await editor.pickItem('Allow from now on', 'touch ruled.txt');
  await editor.pickItem('Allow from now on: for how long?', /^\s*Always allow exactly `touch ruled\.txt` here/);
  assert.match(await editor.modalText(), /\[\[policy\]\][^]*command = \["touch", "ruled\.txt"\][^]*dragoman\.toml/);
  await editor.look('rule');
  await editor.answerModal('Add the Rule');
  await editor.notification(/The rule holds from now on/).waitFor();

  await editor.newChat();
  const since = editor.invocations.length;
  await chat.say(command);
  await until('the command, unasked', () => existsSync(file));
  await chat.idle();
  assert.equal(editor.invocations.length, since);
  await chat.say('@dragoman !run touch ruled-2.txt');
  await chat.dialog();
  await skipped();
});

test('the whole of a long question is in a document, one click from its dialog', async () => {
  await editor.newChat();
  await chat.pick('Demo Agent');
  const words = Array.from({ length: 480 }, (_, number) => `word-${number}`).join(' ');
  await chat.say(`@dragoman !run echo ${words} the-end-of-it`);
  assert.match(await chat.dialog(), /Show the whole question/);
  await editor.look('long');
  const before = editor.witnessed('document').length;
  await chat.dialogs.last().getByText('Show the whole question').click();
  const { text } = await until('the document', () => editor.witnessed('document')[before]);
  assert(text.replaceAll('↩\n', '').includes(`echo ${words} the-end-of-it`), text);
  const shown = editor.page.locator('.editor-group-container .monaco-editor').last();
  await shown.click();
  await editor.page.keyboard.press('Control+End');
  await until('its end', async () => /the-end-of-it/.test((await shown.innerText()).replaceAll(/\W/g, '-')));
  await editor.look('document');
  await editor.closeEditors();
  await skipped();
});

test('without a chat, VS Code’s modal dialog keeps command and folder apart, and the token is of no use', async () => {
  await editor.newChat();
  await chat.say('@dragoman !run echo apart | tee -a apart.txt');
  await chat.dialog();
  await editor.callWithoutChat(editor.lastQuestion);
  const text = await editor.modalText();
  await editor.look('without-chat');
  // A short question needs no link, which would be drawn as text here.
  assert.doesNotMatch(text, /command:/);
  assert.match(text, /echo apart \| tee -a apart\.txt\s*\n\s*Folder:/, text);
  await editor.answerModal(/^(Allow|Continue|Yes)/);
  const { text: result } = await until('the result', () => editor.witnessed('called').at(-1));
  assert.match(result, /^dragoman-grant-/);
  await skipped();
  assert.equal(times('apart.txt'), 0);
});

describe('a workspace that brings settings along', () => {
  after(async () => {
    const before = editor.witnessed('settings').length;
    rmSync(editor.at('workspace/.vscode'), { recursive: true });
    await until('the settings from before', () => editor.witnessed('settings').slice(before).some(({ mode }) => mode === 'default'));
  });

  async function withSettings(settings, isThere) {
    editor.configureWorkspace(settings);
    await until('the settings', () => editor.witnessed('settings').some(isThere));
    await editor.newChat();
    await chat.pick('Demo Agent');
  }

  test('it makes a tool eligible, and “Allow in this Session” still covers one action', async () => {
    const eligible = { 'dragoman.dragoman/agentExecute': true };
    await withSettings({ 'chat.tools.eligibleForAutoApproval': eligible }, ({ eligible }) => eligible['dragoman.dragoman/agentExecute']);
    await chat.say('@dragoman !run echo eligible | tee -a eligible.txt');
    await chat.dialog();
    await editor.look('eligible');
    await chat.button(/^Allow in this Session$/).click();
    for (const [answer, ran] of [['Allow Once', 1], ['Cancel', 1]]) {
      assert.match(await editor.modalText(), /echo eligible[^]*chat\.tools\.eligibleForAutoApproval/);
      await editor.answerModal(answer);
      await until('the command', () => times('eligible.txt') === ran);
      await chat.idle();
      if (answer === 'Allow Once') {
        await editor.newChat();
        await chat.say('@dragoman !run echo eligible | tee -a eligible.txt');
      }
    }
    await chat.hears(/denied/);
    assert.equal(times('eligible.txt'), 1);
  });

  test('it makes “Allow all” the mode of new chats, and each action is asked about in a modal dialog', async () => {
    await withSettings({ 'chat.permissions.default': 'autoApprove' }, ({ mode }) => mode === 'autoApprove');
    const since = editor.invocations.length;
    await chat.say('@dragoman !run echo default | tee -a default.txt');
    assert.match(await editor.modalText(), /echo default[^]*chat\.permissions\.default/);
    await editor.look('default');
    await editor.answerModal('Cancel');
    await chat.hears(/denied/);
    await chat.idle();
    assert.equal(times('default.txt'), 0);
    assert.equal(editor.invocations.slice(since).filter(({ params }) => params.name === EXECUTE).length, 0);
  });
});

// Last: once the built-in chat is enabled, VS Code attaches its own text to every prompt for `@dragoman`.
test('in agent mode a yes to one agent is no yes to another one, nor to the next change', async () => {
  await editor.enableBuiltInChat();
  await askedAgain((words) => words, ['agent-notes.txt', 'other-agent-notes.txt']);
});
