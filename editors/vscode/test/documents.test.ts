/** Files through the editor: unsaved documents are respected, and nothing is half done. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { test } from 'node:test';
import { difference, readTextFile, writeTextFile } from '../src/documents';
import * as vscode from './vscode';

const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'dragoman-documents-')));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text?: string): string {
  const at = path.join(folder, name);
  mkdirSync(path.dirname(at), { recursive: true });
  if (text !== undefined) {
    writeFileSync(at, text);
  }
  return at;
}

function opened(at: string, text: string, { isDirty = false, eol = vscode.EndOfLine.LF } = {}): vscode.PlayedDocument {
  const document = new vscode.PlayedDocument(vscode.Uri.file(at), text, eol);
  document.isDirty = isDirty;
  vscode.editor.textDocuments.push(document);
  return document;
}

const write = (at: string, text: string, expected: string | null, signal = new AbortController().signal) =>
  writeTextFile({ path: at, text, expected }, signal);

test('a read gives an unsaved text, no text for a file that is saved, and says which file is open', async () => {
  vscode.anotherEditor();
  const [dirty, saved] = [file('dirty.txt', 'disk'), file('saved.txt', 'disk')];
  opened(dirty, 'not saved', { isDirty: true });
  opened(saved, 'disk');
  assert.deepEqual(await readTextFile({ path: dirty }), { text: 'not saved', isOpen: true });
  assert.deepEqual(await readTextFile({ path: saved }), { text: null, isOpen: true });
  assert.deepEqual(await readTextFile({ path: file('closed.txt', 'x') }), { text: null, isOpen: false });
});

test('a document is found through a link to its folder', async () => {
  vscode.anotherEditor();
  const real = file('real/a.txt', 'disk');
  symlinkSync(path.dirname(real), path.join(folder, 'link'));
  opened(path.join(folder, 'link', 'a.txt'), 'not saved', { isDirty: true });
  assert.deepEqual(await readTextFile({ path: real }), { text: 'not saved', isOpen: true });
});

test('a write changes an unsaved document and saves it', async () => {
  vscode.anotherEditor();
  const at = file('write.txt', 'disk');
  const document = opened(at, 'one two three', { isDirty: true });
  assert.deepEqual(await write(at, 'one 2 three', 'one two three'), { text: 'one 2 three' });
  assert.deepEqual([document.text, document.isDirty, readFileSync(at, 'utf8')], ['one 2 three', false, 'one 2 three']);
});

test('a write to a file that is not open opens it', async () => {
  vscode.anotherEditor();
  const at = file('closed-write.txt', 'one');
  assert.deepEqual(await write(at, 'two', 'one'), { text: 'two' });
  assert.equal(readFileSync(at, 'utf8'), 'two');
});

test('a document keeps its line ends', async () => {
  vscode.anotherEditor();
  const at = file('crlf.txt', 'one\r\ntwo\r\n');
  opened(at, 'one\r\ntwo\r\n', { eol: vscode.EndOfLine.CRLF });
  assert.deepEqual(await write(at, 'one\n2\n', 'one\r\ntwo\r\n'), { text: 'one\r\n2\r\n' });
});

test('a document with another text than expected stays as it is', async () => {
  vscode.anotherEditor();
  const at = file('other.txt', 'disk');
  const document = opened(at, 'typed meanwhile', { isDirty: true });
  assert.deepEqual(await write(at, 'new', 'disk'), { text: null });
  assert.deepEqual([document.text, readFileSync(at, 'utf8')], ['typed meanwhile', 'disk']);
});

test('a document that was not dirty follows its file before it is compared', async () => {
  vscode.anotherEditor();
  const at = file('late.txt', 'fresh');
  const document = opened(at, 'stale');
  setTimeout(() => (document.text = 'fresh'), 20);
  assert.deepEqual(await write(at, 'new', 'fresh'), { text: 'new' });
});

test('a file is created with its folders, and never over one that is there or open', async () => {
  vscode.anotherEditor();
  const at = path.join(folder, 'deep', 'new.txt');
  assert.deepEqual(await write(at, 'hello', null), { text: 'hello' });
  assert.equal(readFileSync(at, 'utf8'), 'hello');
  const open = file('open-new.txt');
  opened(open, '', { isDirty: true });
  assert.deepEqual(await write(open, 'hello', null), { text: null });
  assert.equal(existsSync(open), false);
});

test('a document that cannot be saved is put back', async () => {
  vscode.anotherEditor();
  const at = file('readonly.txt', 'one');
  const document = opened(at, 'one');
  document.canBeSaved = false;
  await assert.rejects(write(at, 'two', 'one'), /could not be saved/);
  assert.deepEqual([document.text, readFileSync(at, 'utf8')], ['one', 'one']);
});

test('a write that was withdrawn does nothing', async () => {
  vscode.anotherEditor();
  const at = file('withdrawn.txt', 'one');
  await assert.rejects(write(at, 'two', 'one', AbortSignal.abort()));
  await assert.rejects(write(path.join(folder, 'withdrawn-new.txt'), 'two', null, AbortSignal.abort()));
  assert.deepEqual([readFileSync(at, 'utf8'), existsSync(path.join(folder, 'withdrawn-new.txt'))], ['one', false]);
});

test('a difference divides no character and no line end', () => {
  const cases: [now: string, wanted: string][] = [
    ['', 'a'],
    ['a', ''],
    ['same', 'same'],
    ['aXb', 'aYb'],
    ['a\r\nb', 'a\r\n\r\nb'],
    ['a\rb', 'a\r\nb'],
    ['😀', '😁'],
    ['x😀', 'x\u{1F400}'],
    ['aaa', 'aa'],
    ['one\ntwo\nthree', 'one\n2\nthree'],
  ];
  for (const [now, wanted] of cases) {
    const { start, end, piece } = difference(now, wanted);
    assert.equal(now.slice(0, start) + piece + now.slice(end), wanted);
    for (const part of [now.slice(0, start), piece, now.slice(end)]) {
      assert.equal(Buffer.from(part).toString(), part, JSON.stringify([now, wanted, part]));
    }
  }
});
