// The first minutes of somebody who has nothing but the extension: README's three steps, in a real VS Code.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { until } from './editor.mjs';
import { withEditor } from './suite.mjs';

// An environment is made and filled from the package registry.
const INSTALLING = 240_000;

let editor;

withEditor({}, (started) => {
  editor = started;
});

test('without Dragoman the extension offers to set it up, and shows no error', async () => {
  const offer = editor.notification(/Set it up now\?/);
  await offer.waitFor();
  assert.equal(await offer.locator('.codicon-error').count(), 0);
  assert.equal(await editor.statusText(), 'Set Up Dragoman');
  await editor.page.locator('.statusbar-item').filter({ hasText: 'Set Up Dragoman' }).click();
  await until('the next step', async () => /^[^]*Install Dragoman[^]*Use an Installed One…[^]*Show Log\s*$/.test(await editor.menuText()));
  await editor.look('set-up');
  await editor.page.keyboard.press('Escape');
  await offer.locator('.monaco-button').filter({ hasText: /^Set Up$/ }).click();
  await editor.notification(/Installing Dragoman/).waitFor();
  await until('the model in the picker', async () => /demo/i.test(await editor.chat.model()), INSTALLING);
});

test('signed out, the way to VS Code’s own chat is offered; it then answers, and so it does in the next window', async () => {
  const offer = editor.notification(/agents are ready, without an account/);
  await offer.waitFor();
  await editor.enableBuiltInChat(() =>
    offer.locator('.monaco-button').filter({ hasText: /^Use in the Built-in Chat$/ }).click(),
  );
  await editor.newChat();
  await editor.chat.ask('say hello', /Hello, I am the demo agent/);
  await editor.newChat();
  await editor.chat.ask('@dragoman say hello', /Hello, I am the demo agent/);
  await editor.reload({ withBuiltInChat: true });
  await editor.newChat();
  await editor.chat.ask('say hello', /Hello, I am the demo agent/);
});

test('Manage Agents lists what there is and what can be added', async () => {
  await editor.command('Dragoman: Manage Agents');
  await until('the list', async () => /Open the configuration[^]*Add Claude Code/.test(await editor.menuText()));
  assert.match(await editor.menuText(), /demo/);
  await editor.page.keyboard.type('Open the configuration');
  await editor.page.keyboard.press('Enter');
  await until('the file', () => existsSync(editor.at('home/.config/dragoman/dragoman.toml')));
});

test('a model that is written into the configuration is in the picker at once', async () => {
  editor.configure(`[models.missing]\nkind = "acp"\nname = "Your Agent"\ncommand = ["no-such-agent-anywhere"]\n`);
  // A list that is open stays as it is.
  await until('it in the list', async () => {
    await editor.chat.openPicker('Your');
    const isThere = /Your Agent/.test(await editor.menuText());
    await editor.page.keyboard.press('Escape');
    await editor.page.keyboard.press('Escape');
    return isThere;
  });
});

test('Check the Installation and Show Log show what they say', async () => {
  await editor.command('Dragoman: Check the Installation');
  await until('what it found', async () => /ok\s+demo \(Demo agent\)/.test(await editor.panelText()));
  await editor.command('Dragoman: Show Log');
  // What stands in it needs a native module that this build of VS Code lacks.
  await until('the log', async () => (await editor.outputShown()) === 'Dragoman');
});
