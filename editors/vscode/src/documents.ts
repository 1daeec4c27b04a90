/**
 * Files for agents through the editor: `fs/readTextFile` and `fs/writeTextFile` of Dragoman.
 *
 * Python checks paths and permissions first. A read gives what the editor holds and the disk does not: a document with
 * unsaved changes. A write changes the document, if it has the expected text, and saves it; the editor's undo takes it back.
 */
import { realpath } from 'node:fs/promises';
import * as vscode from 'vscode';

/** A document that is not dirty follows its file, a moment later. */
const FOLLOWS_MS = 2_000;
const LOOK_MS = 50;
const NOT_SAVED = 'The file could not be saved, so it was not changed.';

interface WriteRequest {
  readonly path: string;
  readonly text: string;
  /** The text that the file must have; null: there must be no file. */
  readonly expected: string | null;
}

/** The text of a document with unsaved changes; null if the disk has the same. And whether there is a document. */
export async function readTextFile(params: unknown): Promise<{ text: string | null; isOpen: boolean }> {
  const document = await openDocument((params as { path: string }).path);
  return { text: document?.isDirty === true ? document.getText() : null, isOpen: document !== undefined };
}

/** Change a file and save it. The result is its text after that, or null if it was not the expected one. */
export async function writeTextFile(params: unknown, signal: AbortSignal): Promise<{ text: string | null }> {
  const { path, text, expected } = params as WriteRequest;
  const open = await openDocument(path);
  if (expected === null) {
    return { text: open === undefined ? await create(vscode.Uri.file(path), text, signal) : null };
  }
  const document = open ?? (await vscode.workspace.openTextDocument(vscode.Uri.file(path)));
  if (!(await becomes(document, expected))) {
    return { text: null };
  }
  signal.throwIfAborted();
  const before = document.getText();
  await replace(document, text);
  if (!(await document.save())) {
    await replace(document, before);
    throw new Error(NOT_SAVED);
  }
  return { text: document.getText() };
}

async function create(uri: vscode.Uri, text: string, signal: AbortSignal): Promise<string> {
  const edit = new vscode.WorkspaceEdit();
  edit.createFile(uri, { overwrite: false, ignoreIfExists: false, contents: Buffer.from(text) });
  signal.throwIfAborted();
  await apply(edit);
  return text;
}

async function openDocument(path: string): Promise<vscode.TextDocument | undefined> {
  for (const document of vscode.workspace.textDocuments) {
    const { scheme, fsPath } = document.uri;
    // Its folder may have been opened through a link.
    if (scheme === 'file' && !document.isClosed && (fsPath === path || (await realpath(fsPath).catch(() => fsPath)) === path)) {
      return document;
    }
  }
  return undefined;
}

/** Whether the document has this text. A document that has just changed on the disk may need a moment. */
async function becomes(document: vscode.TextDocument, text: string): Promise<boolean> {
  for (let waited = 0; !document.isDirty && !isSame(document.getText(), text) && waited < FOLLOWS_MS; waited += LOOK_MS) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return isSame(document.getText(), text);
}

/** VS Code holds a text without a byte order mark, and with one kind of line end. */
function isSame(one: string, other: string): boolean {
  return inLines(one) === inLines(other);
}

function inLines(text: string): string {
  return text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
}

/** Replace only what differs, so that cursors and folds elsewhere stay. */
async function replace(document: vscode.TextDocument, text: string): Promise<void> {
  const now = document.getText();
  const wanted = inLines(text).replaceAll('\n', document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n');
  const { start, end, piece } = difference(now, wanted);
  const edit = new vscode.WorkspaceEdit();
  edit.replace(document.uri, new vscode.Range(document.positionAt(start), document.positionAt(end)), piece);
  await apply(edit);
}

async function apply(edit: vscode.WorkspaceEdit): Promise<void> {
  if (!(await vscode.workspace.applyEdit(edit))) {
    throw new Error('VS Code did not apply the edit.');
  }
}

/** The part of a text that has to be replaced to get another one, never half a character or half a line end. */
export function difference(now: string, wanted: string): { start: number; end: number; piece: string } {
  const shortest = Math.min(now.length, wanted.length);
  let start = 0;
  while (start < shortest && now[start] === wanted[start]) {
    start++;
  }
  while (start > 0 && isInside(now, wanted, start, start)) {
    start--;
  }
  let same = 0;
  while (same < shortest - start && now.at(-1 - same) === wanted.at(-1 - same)) {
    same++;
  }
  while (same > 0 && isInside(now, wanted, now.length - same, wanted.length - same)) {
    same--;
  }
  return { start, end: now.length - same, piece: wanted.slice(start, wanted.length - same) };
}

/** Whether a cut at these places would divide something in one of the texts. */
function isInside(now: string, wanted: string, at: number, there: number): boolean {
  return [now.slice(at - 1, at + 1), wanted.slice(there - 1, there + 1)].some(
    (around) => around === '\r\n' || /^[\uD800-\uDBFF]/.test(around) && around.length === 2 && /[\uDC00-\uDFFF]$/.test(around),
  );
}
