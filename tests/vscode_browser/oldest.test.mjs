// A short look at the oldest VS Code that `engines` allows: it starts, lists the models, answers, and asks for permission.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ROOT, until } from './editor.mjs';
import { withEditor } from './suite.mjs';

let editor;

withEditor({ dragoman: process.env.DRAGOMAN ?? path.join(ROOT, '.venv/bin/dragoman'), release: 'code-server-oldest' }, (started) => {
  editor = started;
});

test('it is the oldest version in `engines`, and the models are listed', async () => {
  const { engines } = JSON.parse(readFileSync(path.join(ROOT, 'editors/vscode/package.json'), 'utf8'));
  const [{ version }] = editor.witnessed('activated');
  assert.equal(`^${version.replace(/\.\d+$/, '')}.0`, engines.vscode);
  await until('the list', () => editor.record.some(({ direction, result }) => direction === 'out' && result?.models?.length > 0));
});

test('@dragoman answers', async () => {
  await editor.chat.ask('@dragoman say hello', /Hello, I am the demo agent/);
});

test('a command runs only after the yes', async () => {
  await editor.chat.say('@dragoman !run echo old | tee old.txt');
  assert.match(await editor.chat.dialog(), /echo old/);
  assert(!existsSync(editor.at('workspace/old.txt')));
  await editor.chat.allowOnce();
  await until('the file', () => existsSync(editor.at('workspace/old.txt')));
  await editor.chat.idle();
  assert.deepEqual(editor.invocations.map(({ params }) => params.name), ['dragoman-agent-action-execute']);
});
