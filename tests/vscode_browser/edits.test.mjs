// Edits of agents in a real VS Code: the change of a question as a diff, files through the editor, terminals, review and undo.
// They share one editor and run in their order; each begins a chat of its own.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { dense, ROOT, until } from './editor.mjs';
import { withEditor } from './suite.mjs';

const DRAGOMAN = process.env.DRAGOMAN ?? path.join(ROOT, '.venv/bin/dragoman');

let editor;
let chat;

function agents(at) {
  const options = JSON.stringify({ folder: at('state') });
  return { 'Scripted Agent': [path.join(path.dirname(DRAGOMAN), 'python'), path.join(ROOT, 'tests/fake_agent/agent.py'), options] };
}

withEditor({ dragoman: DRAGOMAN, agents }, (started) => {
  editor = started;
  chat = started.chat;
});

function file(name, text) {
  const at = editor.at('workspace', name);
  if (text !== undefined) {
    writeFileSync(at, text);
  }
  return at;
}

function asks(...diffs) {
  const content = diffs.map(([at, oldText, newText]) => ({ type: 'diff', path: at, oldText, newText }));
  return ['ask', { toolCallId: 'e1', kind: 'edit', title: 'Edit', content }, ['allow_once', 'reject_once']];
}

const says = (...steps) => chat.say(`@dragoman ${JSON.stringify(steps)}`);
const text = (at) => (existsSync(at) ? readFileSync(at, 'utf8') : undefined);
const shownInEditors = async () => dense((await editor.page.locator('.part.editor').allInnerTexts()).join('\n'));

async function open(name) {
  const row = editor.page.locator('.quick-input-list-row', { hasText: name });
  // A list of files that was made before the file stays as it is while it is open.
  await until('the file in the list', async () => {
    await editor.command('Go to File...');
    await editor.page.keyboard.type(name);
    const isThere = await row.waitFor({ timeout: 2_000 }).then(() => true, () => false);
    await editor.page.keyboard.press(isThere ? 'Enter' : 'Escape');
    return isThere;
  });
  await until('the file', () => editor.page.locator('.tab.active', { hasText: name }).count());
}

async function editorShows(words) {
  const shown = editor.page.locator('.editor-group-container .monaco-editor .view-lines');
  await until(`“${words}” in the editor`, async () => dense((await shown.allInnerTexts()).join('')).startsWith(dense(words)));
}

test('the link in a question opens the whole change in the diff editor', async () => {
  const lines = Array.from({ length: 12 }, (_, number) => `line ${number}\n`).join('');
  const at = file('long.txt', lines);
  await editor.newChat();
  await chat.pick('Scripted Agent');
  await says(asks([at, 'line 5', 'changed 5']));
  await chat.dialog();
  await chat.dialogs.last().getByText('Open the change as a diff').click();
  await until('the diff editor', () => editor.page.locator('.tab', { hasText: 'long.txt (proposed change)' }).count());
  // Lines that the agent did not send are there, too.
  await until('the whole file', async () => {
    const shown = await shownInEditors();
    return ['line 0', 'line 5', 'changed 5', 'line 11'].every((words) => shown.includes(dense(words)));
  });
  await chat.skip();
  await chat.hears(/the-reject_once/);
  await editor.closeEditors();
});

test('an answer with edits can be reviewed and undone, and what has changed since is left alone', async () => {
  const [changed, created, mine] = [file('changed.txt', 'before\n'), file('created.txt'), file('mine.txt', 'before\n')];
  await editor.newChat();
  await chat.pick('Scripted Agent');
  await says(
    asks([changed, 'before', 'after'], [created, null, 'new\n'], [mine, 'before', 'after']),
    ['put', changed, 'after\n'],
    ['put', created, 'new\n'],
    ['put', mine, 'after\n'],
    ['say', 'All done.'],
  );
  await chat.dialog();
  await chat.allowOnce();
  await chat.hears(/All done/);
  await chat.idle();
  await editor.page.getByRole('button', { name: 'Review', exact: true }).last().click();
  await until('the review', async () => {
    const shown = await shownInEditors();
    return ['Edits of Scripted Agent', 'changed.txt', 'created.txt', 'mine.txt', 'after'].every((words) => shown.includes(dense(words)));
  });
  writeFileSync(mine, 'after, and mine\n');
  await editor.page.getByRole('button', { name: 'Undo These Edits' }).last().click();
  const left = await editor.modalText();
  assert(dense(left).includes(dense('The edits of 2 files were undone. 1 file was left as it is')), left);
  assert(left.includes('mine.txt'), left);
  await editor.page.keyboard.press('Escape');
  assert.deepEqual([text(changed), text(created), text(mine)], ['before\n', undefined, 'after, and mine\n']);
  // VS Code cannot take the buttons away: the next press tries what is left, and the one after that says that nothing is.
  writeFileSync(mine, 'after\n');
  await editor.page.getByRole('button', { name: 'Undo These Edits' }).last().click();
  await editor.notification('The edits of 1 file were undone.').waitFor();
  assert.equal(text(mine), 'before\n');
  await editor.page.getByRole('button', { name: 'Undo These Edits' }).last().click();
  await editor.notification('nothing is left to undo').waitFor();
  await editor.look('edits-undone');
  await editor.closeEditors();
});

test('undo changes an open document in the editor, whose own undo takes that back', async () => {
  const at = file('open.txt', 'before\n');
  await editor.newChat();
  await chat.pick('Scripted Agent');
  await open('open.txt');
  await says(asks([at, 'before', 'after']), ['put', at, 'after\n'], ['say', 'All done.']);
  await chat.dialog();
  await chat.allowOnce();
  await chat.hears(/All done/);
  await chat.idle();
  await editorShows('after');
  await editor.page.getByRole('button', { name: 'Undo These Edits' }).last().click();
  await until('the text before', () => text(at) === 'before\n');
  await editorShows('before');
  await editor.page.locator('.editor-group-container .monaco-editor .view-lines').first().click();
  await editor.page.keyboard.press('Control+z');
  await editorShows('after');
  await editor.closeEditors();
});

test('a write of the agent is made in the editor, over unsaved text, and the editor’s undo takes it back', async () => {
  const at = file('buffer.txt', 'saved\n');
  await editor.newChat();
  await chat.pick('Scripted Agent');
  await open('buffer.txt');
  await editor.page.locator('.editor-group-container .monaco-editor .view-lines').first().click();
  await editor.page.keyboard.press('Control+Home');
  await editor.page.keyboard.type('typed ');
  await says(['read', at], ['write', at, 'written\n'], ['say', 'All done.']);
  await chat.dialog();
  await chat.allowOnce();
  await chat.hears(/All done/);
  await chat.idle();
  const journal = readFileSync(editor.at('state', 'journal'), 'utf8');
  assert(journal.includes('"content": "typed saved\\n"'), 'the agent read the unsaved text');
  assert.equal(text(at), 'written\n');
  await editor.page.locator('.editor-group-container .monaco-editor .view-lines').first().click();
  await editor.page.keyboard.press('Control+z');
  await editorShows('typed saved');
});

test('a command of the agent is asked about, and shown whole in a terminal', async () => {
  const end = `${'x'.repeat(100)} && echo the end of it`;
  await editor.newChat();
  await chat.pick('Scripted Agent');
  await says(['terminal', { command: `echo seen in the terminal ${end}` }], ['term', 'wait_for_exit'], ['say', 'All done.']);
  await chat.dialog();
  await chat.allowOnce();
  await chat.hears(/All done/);
  await until('the whole command', async () => dense(await editor.panelText()).includes(dense(`$ echo seen in the terminal ${end}`)));
  await editor.look('edits-terminal');
});
