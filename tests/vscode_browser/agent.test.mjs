// What belongs to the agent, in a real VS Code: its modes, its commands, its login, its stored conversations.
// They share one editor and run in their order.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ROOT, dense, until } from './editor.mjs';
import { withEditor } from './suite.mjs';

const DRAGOMAN = process.env.DRAGOMAN ?? path.join(ROOT, '.venv/bin/dragoman');
const MODES = {
  currentModeId: 'default',
  availableModes: [
    { id: 'default', name: 'Ask', description: 'Asks before it changes anything' },
    { id: 'plan', name: 'Plan', description: 'Changes nothing' },
    { id: 'yolo', name: 'Full access', description: 'Bypasses all permission checks' },
  ],
};
const COMMANDS = [{ name: 'review', description: 'Review the changes', input: { hint: '[branch]' } }];

let editor;
let chat;

function agents(at) {
  const python = path.join(path.dirname(DRAGOMAN), 'python');
  const fake = (options) => [python, path.join(ROOT, 'tests/fake_agent/agent.py'), JSON.stringify(options)];
  const login = [{ id: 'shell', name: 'Here', _meta: { 'terminal-auth': { command: '/bin/sh', args: ['-c', `touch '${at('logged-in')}'; echo done; sleep 60`] } } }];
  return {
    'Scripted Agent': fake({ folder: at('state'), state: { modes: MODES }, commands: COMMANDS, resume: true }),
    'Second Agent': fake({ folder: at('home'), authentication: login, login_file: at('logged-in') }),
  };
}

withEditor({ dragoman: DRAGOMAN, agents }, (started) => {
  editor = started;
  chat = started.chat;
});

/** What the scripted agent was sent, by its method. */
function noted(method) {
  const lines = readFileSync(editor.at('state', 'journal'), 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line)).filter((entry) => entry.method === method).map(({ params }) => params);
}

async function inputShows(words) {
  await until(`“${words}” in the input`, async () => dense(await chat.input.locator('.view-lines').innerText()).startsWith(dense(words)));
}

test('a mode is chosen before the first prompt, in the agent’s own words, and holds for it', async () => {
  await until('a model in the picker', async () => /Agent/.test(await chat.model()));
  await editor.command('Dragoman: Agent Options…');
  await editor.pickItem('Which agent?', 'Scripted Agent');
  await editor.pickItem('Agent options for this workspace', 'Mode');
  await until('the values', async () => /Full access[^]*Bypasses all permission checks/.test(await editor.menuText()));
  await editor.look('agent-mode');
  await editor.pickItem('Mode', 'Plan');
  await chat.pick('Scripted Agent');
  await chat.ask('@dragoman Where is the milk?', /echo: \["Where is the milk\?"\]/);
  assert.deepEqual(noted('session/set_mode').map(({ modeId }) => modeId), ['plan']);
  const item = editor.page.locator('.statusbar-item').filter({ hasText: 'Dragoman' }).first();
  await until('the mode in the status item', async () => /mode: plan/.test((await item.getAttribute('aria-label')) ?? (await item.innerText())));
});

test('the view of conversations follows what is said, without a click', async () => {
  const view = editor.page.locator('.pane').filter({ has: editor.page.getByText('Agent Conversations', { exact: true }) }).last();
  const rows = async () => dense((await view.locator('.monaco-list-row').allInnerTexts()).join('\n'));
  await view.locator('.pane-header').click();
  await until('what was said before', async () => (await rows()).includes(dense('Where is the milk?')));
  await editor.newChat();
  await chat.ask('@dragoman Who drinks it?', /echo: \["Who drinks it\?"\]/);
  await until('what was said now', async () => (await rows()).includes(dense('Who drinks it?')));
  await until('the end of the answer', async () => (await view.locator('.codicon-loading').count()) === 0);
  await editor.look('agent-view');
});

test('a command of the agent goes into the input, and reaches the agent as its first words', async () => {
  await editor.command('Dragoman: Agent Commands…');
  await editor.pickItem('Which agent?', 'Scripted Agent');
  await editor.pickItem('Commands of the agent', '/review');
  await inputShows('@dragoman /review');
  await editor.look('agent-command');
  await editor.page.keyboard.type('main', { delay: 10 });
  await editor.page.keyboard.press('Escape');
  await editor.page.keyboard.press('Enter');
  await chat.hears(/echo: \["\/review main"\]/);
  await chat.idle();
});

test('a stored conversation goes on in a new chat, with the agent’s memory', async () => {
  await editor.newChat();
  const sessions = () => new Set(noted('session/prompt').map(({ sessionId }) => sessionId)).size;
  const before = sessions();
  await editor.command('Dragoman: Continue Conversation');
  await editor.pickItem('Conversations of this folder', 'Where is the milk?');
  await inputShows('@dragoman /continue');
  await editor.look('agent-continue');
  await editor.page.keyboard.type('And the butter?', { delay: 10 });
  await editor.page.keyboard.press('Escape');
  await editor.page.keyboard.press('Enter');
  await chat.hears(/echo: \["And the butter\?"\]/);
  await chat.idle();
  await chat.ask('@dragoman And the bread?', /echo: \["And the bread\?"\]/);
  assert.equal(sessions(), before);
});

test('an agent that requires a login has a button, its command is shown and runs in a terminal after a yes, and the prompt then works', async () => {
  await editor.newChat();
  await chat.pick('Second Agent');
  await chat.say('@dragoman hello');
  await chat.hears(/requires a login/);
  await editor.look('agent-login');
  await chat.within.locator('.monaco-button').filter({ hasText: 'Sign In' }).last().click();
  assert.match(await editor.modalText(), /\/bin\/sh\s+-c\s+"touch '[^]*logged-in'; echo done; sleep 60"/);
  assert(await editor.modalFits());
  assert(!existsSync(editor.at('logged-in')));
  await editor.look('agent-login-command');
  await editor.answerModal('Run in Terminal');
  await until('the login', () => {
    try {
      return readFileSync(editor.at('logged-in')) !== undefined;
    } catch {
      return false;
    }
  });
  await chat.ask('@dragoman hello again', /echo: .*hello again/);
});
