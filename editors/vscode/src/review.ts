/**
 * An agent's changes in VS Code's diff editor: those that a question asks about, and those that a turn has made; and
 * taking the latter back. Python knows the texts and decides what can be undone; all documents here are read-only.
 */
import * as path from 'node:path';
import * as vscode from 'vscode';
import type { PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { within } from './cancellation';
import { sentence } from './errors';
import { pendingNonce } from './questions';
import { RpcError } from './rpc';
import { EDITS, type EditedFile, type EditTurn, type Part, type PlannedChange, type UndoOutcome } from './wire';

export const CHANGE_SCHEME = 'dragoman-change';
export const SHOW_CHANGES = 'dragoman.showChanges';
export const REVIEW_EDITS = 'dragoman.reviewEdits';
export const UNDO_EDITS = 'dragoman.undoEdits';

const ANSWER_MS = 20_000;
/** Saving a file in the editor may run formatters. */
const UNDO_MS = 120_000;
/** Texts that stay available to diff editors that are open. The oldest are dropped first. */
const KEPT_TEXTS = 2_000;
/** The query of the empty document in the place of a file that does not exist. */
const NO_FILE = 'none';
const DROPPED = 'This text is not kept any more.';
const NO_CHANGES = 'This question shows no change of a file.';
const ONLY_A_PASSAGE = 'only the passage that the agent sent';
const NOT_WHOLE = 'Not every file can be shown as a whole.';
const NO_EDITS = 'No agent has changed a file since Dragoman was started.';
/** The most files that a dialog names. */
const NAMED_FILES = 20;

type Asked = Pick<Backend, 'request'>;

interface FileDiff {
  readonly path: string;
  /** Absent: there is no file. */
  readonly before: vscode.Uri | undefined;
  readonly after: vscode.Uri | undefined;
  /** What is special about it, for its title. */
  readonly note: string;
}

/** The texts of diffs, as read-only documents. */
class Texts implements vscode.TextDocumentContentProvider {
  readonly #texts = new Map<string, string>();
  #last = 0;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return uri.query === NO_FILE ? '' : (this.#texts.get(uri.query) ?? DROPPED);
  }

  /** A document with this text. It has the file's path, so that VS Code highlights it as it does the file. */
  add(file: string, text: string): vscode.Uri {
    const id = String(++this.#last);
    this.#texts.set(id, text);
    const [oldest] = this.#texts.keys();
    if (oldest !== undefined && this.#texts.size > KEPT_TEXTS) {
      this.#texts.delete(oldest);
    }
    return vscode.Uri.from({ scheme: CHANGE_SCHEME, path: file, query: id });
  }
}

export function registerReview(backend: Asked, approvals: PendingApprovals): vscode.Disposable {
  const texts = new Texts();
  const commands: Record<string, (value: unknown) => Promise<void>> = {
    [SHOW_CHANGES]: (nonce) => showChanges(backend, approvals, texts, nonce),
    [REVIEW_EDITS]: (turn) => reviewEdits(backend, texts, turn),
    [UNDO_EDITS]: (turn) => undoEdits(backend, turn),
  };
  return vscode.Disposable.from(
    vscode.workspace.registerTextDocumentContentProvider(CHANGE_SCHEME, texts),
    ...Object.entries(commands).map(([name, does]) =>
      vscode.commands.registerCommand(name, (value: unknown) => does(value).catch(tell)),
    ),
  );
}

/** The buttons of an answer stay when its edits were undone, or are not kept any more: to press one is no error. */
async function tell(error: unknown): Promise<void> {
  if (error instanceof RpcError && error.kind === 'not_found') {
    await vscode.window.showInformationMessage(error.message);
  } else {
    await vscode.window.showErrorMessage(sentence(error));
  }
}

/** Show the files of a pending question as they are and as they would be. */
async function showChanges(backend: Asked, approvals: PendingApprovals, texts: Texts, nonce: unknown): Promise<void> {
  const chosen = typeof nonce === 'string' ? nonce : await pendingNonce(backend, approvals);
  if (chosen === undefined) {
    return;
  }
  const { files } = (await ask(backend, 'permissions/changes', { nonce: chosen })) as { files: PlannedChange[] };
  if (files.length === 0) {
    await vscode.window.showInformationMessage(NO_CHANGES);
    return;
  }
  const diffs = files.map(({ path: file, before, after, isWhole, why }) => ({
    path: file,
    before: before === null ? undefined : texts.add(file, before),
    after: texts.add(file, after),
    note: isWhole ? (before === null ? 'new file' : 'proposed change') : ONLY_A_PASSAGE,
    why,
  }));
  await showDiffs(diffs, 'Proposed Changes');
  const why = diffs.flatMap(({ path: file, why: reason }) => (reason === null ? [] : [`${file}: ${reason}`]));
  if (why.length > 0) {
    await vscode.window.showWarningMessage(NOT_WHOLE, { modal: true, detail: listed(why) });
  }
}

/** Show what a turn has changed; without a turn, the last one that has. */
async function reviewEdits(backend: Asked, texts: Texts, turn: unknown): Promise<void> {
  const found = await editsOf(backend, turn);
  if (found === undefined) {
    await vscode.window.showInformationMessage(NO_EDITS);
    return;
  }
  const text = async (file: string, side: 'before' | 'after') =>
    ((await ask(backend, 'edits/text', { turn: found.turn, path: file, side })) as { text: string }).text;
  const diffs = await Promise.all(
    found.files.map(async ({ path: file, change }) => ({
      path: file,
      before: change === 'created' ? undefined : texts.add(file, await text(file, 'before')),
      after: change === 'deleted' ? undefined : texts.add(file, await text(file, 'after')),
      note: change,
    })),
  );
  await showDiffs(diffs, `Edits of ${found.agent}`);
}

/** Undo what a turn has changed; without a turn, the last one that has, after a question. */
async function undoEdits(backend: Asked, turn: unknown): Promise<void> {
  const found = await editsOf(backend, turn);
  if (found === undefined) {
    await vscode.window.showInformationMessage(NO_EDITS);
    return;
  }
  if (typeof turn !== 'string') {
    const undo = 'Undo These Edits';
    const detail = listed(found.files.map(({ path: file, change }) => `${file} (${change})`));
    const question = `Undo the last edits of ${found.agent}?`;
    if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, undo)) !== undo) {
      return;
    }
  }
  const { undone, left } = (await ask(backend, 'edits/undo', { turn: found.turn }, UNDO_MS)) as UndoOutcome;
  const said = undone.length === 0 ? 'Nothing was undone.' : `The edits of ${counted(undone.length)} were undone.`;
  if (left.length === 0) {
    // Without the names: a notification turns link syntax into links.
    await vscode.window.showInformationMessage(said);
  } else {
    const detail = listed(left.map(({ path: file, why }) => `${file}: ${why}`));
    await vscode.window.showWarningMessage(`${said} ${counted(left.length)} ${left.length === 1 ? 'was left as it is' : 'were left as they are'}:`, { modal: true, detail });
  }
}

/** The edits of a turn by its id; without an id, those of the last turn that has any. */
async function editsOf(backend: Asked, turn: unknown): Promise<EditTurn | undefined> {
  const wanted = typeof turn === 'string' ? { turn } : {};
  const { turns } = (await ask(backend, 'edits/list', wanted)) as { turns: EditTurn[] };
  return turns[0];
}

/** One file in the diff editor, several in the editor for many, or in a list where VS Code has no such editor. */
async function showDiffs(diffs: readonly FileDiff[], title: string): Promise<void> {
  const [only] = diffs;
  if (diffs.length === 1 && only !== undefined) {
    await openDiff(only);
    return;
  }
  // Only the single diff has room for the note.
  const partial = diffs.filter(({ note }) => note === ONLY_A_PASSAGE);
  const named = partial.length === 0 ? title : `${title} (${partial.length} only as a passage)`;
  try {
    const resources = diffs.map(({ path: file, before, after }) => [vscode.Uri.file(file), before, after]);
    await vscode.commands.executeCommand('vscode.changes', named, resources);
  } catch {
    const items = diffs.map((diff) => ({
      label: withoutIcons(path.basename(diff.path)),
      description: withoutIcons(diff.note),
      detail: withoutIcons(diff.path),
      diff,
    }));
    const chosen = await vscode.window.showQuickPick(items, { title: named });
    if (chosen !== undefined) {
      await openDiff(chosen.diff);
    }
  }
}

async function openDiff({ path: file, before, after, note }: FileDiff): Promise<void> {
  const empty = vscode.Uri.from({ scheme: CHANGE_SCHEME, path: file, query: NO_FILE });
  await vscode.commands.executeCommand('vscode.diff', before ?? empty, after ?? empty, `${path.basename(file)} (${note})`);
}

/** The edits in a data part at the end of a response, if it is one. */
export function editsIn(part: Part): { turn: string; files: EditedFile[] } | undefined {
  if (part.type !== 'data' || part.mimeType !== EDITS) {
    return undefined;
  }
  return JSON.parse(Buffer.from(part.data, 'base64').toString()) as { turn: string; files: EditedFile[] };
}

/** The buttons at the end of an answer with edits. */
export function offerReview(stream: vscode.ChatResponseStream, turn: string): void {
  stream.button({ command: REVIEW_EDITS, title: 'Review', arguments: [turn] });
  stream.button({ command: UNDO_EDITS, title: 'Undo These Edits', arguments: [turn] });
}

function ask(backend: Asked, method: string, params: object, limit = ANSWER_MS): Promise<unknown> {
  return within(limit, undefined, (signal) => backend.request(method, params, { signal }));
}

function counted(files: number): string {
  return files === 1 ? '1 file' : `${files} files`;
}

function listed(lines: readonly string[]): string {
  const more = lines.length - NAMED_FILES;
  return [...lines.slice(0, NAMED_FILES), ...(more > 0 ? [`and ${more} more`] : [])].join('\n');
}

function withoutIcons(text: string): string {
  return text.replaceAll('$(', '\\$(');
}
