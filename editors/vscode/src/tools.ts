/**
 * The permission tools, one for each class of risk. VS Code shows their dialog; Python writes it and gives out the token.
 *
 * VS Code skips the dialog in a chat that is set to “Allow all” (Bypass Approvals) or “Autopilot”, and does not
 * report it to the tool. A sensitive action is therefore asked about a second time, with a modal dialog in `invoke`. Only
 * an answer to that dialog makes this extension send `confirmed`, without which Python returns no token. The same dialog
 * asks about every action if a setting that the user did not set (`imposed.ts`) may have skipped the chat's dialog.
 *
 * If the backend cannot be reached, VS Code shows a dialog all the same, and nothing is allowed.
 */
import * as vscode from 'vscode';
import { nonceOf, type PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { signalOf, within } from './cancellation';
import { fromWire } from './convert';
import { sentence } from './errors';
import { imposedSetting } from './imposed';
import { fitsModal, MODAL_COLUMNS, MODAL_ROWS, rowsOf } from './modal';
import { openQuestion, SHOW_QUESTION } from './questions';
import { SHOW_CHANGES } from './review';
import { type Part, PERMISSION_PREFIX, type PreparedInvocation, RISK_CLASSES } from './wire';

/** The backend answers from memory, but may have to start first. The chat is blocked meanwhile. */
const ANSWER_MS = 20_000;

/** VS Code's own words for Skip. Python reads them as the user's refusal (backends/agent/dialect.py). */
export const REFUSED = 'The user chose to skip the tool call, they want to proceed without running it';

/** The dialog of VS Code 1.139 shows so many pixels of its message, and a scroll bar only under the mouse. */
const IN_SIGHT = 190;
/** The height of a row, and what a paragraph and a code block add, in pixels. In a narrow chat a row has few columns. */
const ROW = 19;
const PARAGRAPH = 10;
const CODE_BLOCK = 20;
const COLUMNS = 40;

export const ALLOW_ONCE = 'Allow Once';
export const SHOW_ALL = 'Show All';
export const REFUSE = 'Refuse';

export class PermissionTool implements vscode.LanguageModelTool<object> {
  readonly name: string;
  readonly #backend: Pick<Backend, 'request'>;
  readonly #approvals: PendingApprovals;

  constructor(name: string, backend: Pick<Backend, 'request'>, approvals: PendingApprovals) {
    this.name = name;
    this.#backend = backend;
    this.#approvals = approvals;
  }

  async prepareInvocation(
    { input }: vscode.LanguageModelToolInvocationPrepareOptions<object>,
    token: vscode.CancellationToken,
  ): Promise<vscode.PreparedToolInvocation> {
    try {
      const prepared = await this.#prepared(input, token);
      const { invocationMessage, confirmationMessages } = prepared;
      const message = questionOf(prepared, nonceOf(input));
      return { invocationMessage, confirmationMessages: { title: confirmationMessages.title, message } };
    } catch (error) {
      const message = sentence(error);
      const confirmationMessages = { title: 'Nothing can be allowed now', message: new vscode.MarkdownString(message) };
      return { invocationMessage: message, confirmationMessages };
    }
  }

  async invoke(
    { input }: vscode.LanguageModelToolInvocationOptions<object>,
    token: vscode.CancellationToken,
  ): Promise<vscode.LanguageModelToolResult> {
    try {
      // Prepare it again: the input may have changed, and VS Code may have skipped the preparation.
      const prepared = await this.#prepared(input, token);
      const imposed = imposedSetting(this.name);
      const needsModal = prepared.isSensitive || imposed !== undefined;
      if (needsModal && !(await this.#isConfirmed(prepared, imposed, nonceOf(input), token))) {
        return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart(REFUSED)]);
      }
      const confirmed = needsModal ? { confirmed: true } : {};
      const { content } = (await this.#asked('tools/invoke', { input, ...confirmed }, token)) as { content: Part[] };
      return new vscode.LanguageModelToolResult(
        content.flatMap((part) => fromWire(part) ?? []) as vscode.LanguageModelTextPart[],
      );
    } finally {
      this.#approvals.invoked(input);
    }
  }

  /** Ask the user with a modal dialog. Everything but “Allow Once” is a refusal, and so is Stop meanwhile. */
  async #isConfirmed(
    prepared: PreparedInvocation,
    imposed: string | undefined,
    nonce: string,
    token: vscode.CancellationToken,
  ): Promise<boolean> {
    const { message } = prepared.modal;
    const whole = imposed === undefined ? prepared.modal.detail : `${prepared.modal.detail}\n\n${whyAsked(imposed)}`;
    const detail = fromBothEnds(whole);
    // What is not shown here cannot be allowed here.
    const buttons = detail === whole ? [SHOW_ALL, ALLOW_ONCE] : [SHOW_ALL];
    // The first button has the focus: an Enter that was meant for the chat must not allow anything.
    let answer: string | undefined = await vscode.window.showWarningMessage(message, { modal: true, detail }, ...buttons);
    if (answer === SHOW_ALL && !token.isCancellationRequested) {
      await openQuestion(this.#backend, nonce);
      answer = await askBesideDocument(message);
    }
    return answer === ALLOW_ONCE && !token.isCancellationRequested;
  }

  #prepared(input: object, token: vscode.CancellationToken): Promise<PreparedInvocation> {
    return this.#asked('tools/prepareInvocation', { input }, token) as Promise<PreparedInvocation>;
  }

  async #asked(method: string, params: object, token: vscode.CancellationToken): Promise<unknown> {
    const { signal, dispose } = signalOf(token);
    const ask = (bounded: AbortSignal) =>
      this.#backend.request(method, { name: this.name, ...params }, { signal: bounded });
    try {
      return await within(ANSWER_MS, signal, ask);
    } finally {
      dispose();
    }
  }
}

/** As much of a text as a modal dialog can show. Python writes `⟨` and `⟩` of an agent's as codes, so the mark is ours. */
function fromBothEnds(text: string): string {
  if (fitsModal(text)) {
    return text;
  }
  const lines = text.split('\n');
  const head = lines.slice(0, longest(lines));
  const rest = lines.slice(head.length);
  const tail = rest.slice(rest.length - longest(rest.toReversed()));
  const leftOut = rest.length - tail.length;
  return [...head, `⟨${leftOut} lines left out: press “${SHOW_ALL}” to read and decide⟩`, ...tail].join('\n');
}

/** How many of the first lines fit into half a modal dialog. */
function longest(lines: string[]): number {
  const past = lines.findIndex((_, index) => rowsOf(lines.slice(0, index + 1), MODAL_COLUMNS) > MODAL_ROWS / 2);
  return past === -1 ? lines.length : past;
}

function whyAsked(setting: string): string {
  return `Asked here, because ${setting} is set by this workspace (or by a policy or an extension) and lets the chat skip its own dialog. If you want that, set it in your user settings.`;
}

/** A modal dialog would cover the document and keep it from being scrolled; a list stays above it. */
async function askBesideDocument(title: string): Promise<string | undefined> {
  const items = [
    { label: REFUSE, description: 'Do not let the agent do this' },
    { label: ALLOW_ONCE, description: 'Let the agent do this, once' },
  ];
  const options = { title, placeHolder: 'Read the document below, then decide', ignoreFocusOut: true };
  return (await vscode.window.showQuickPick(items, options))?.label;
}

/** The dialog's text. Python escapes what the agent wrote; the only commands that a link in it can run are ours. */
function questionOf({ confirmationMessages, isCut, hasChanges }: PreparedInvocation, nonce: string): vscode.MarkdownString {
  const { message } = confirmationMessages;
  const links = [
    ...(isCut || !isInSight(message) ? [{ words: 'Show the whole question', command: SHOW_QUESTION }] : []),
    ...(hasChanges === true ? [{ words: 'Open the change as a diff', command: SHOW_CHANGES }] : []),
  ];
  if (links.length === 0) {
    return new vscode.MarkdownString(message);
  }
  // At the top, because the end of a long question is out of sight; with an arrow, because VS Code draws this link as text.
  const values = encodeURIComponent(JSON.stringify([nonce])).replace(/[()]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
  const shown = links.map(({ words, command }) => `**[↗ ${words}](command:${command}?${values})**`).join(' · ');
  const question = new vscode.MarkdownString(`${shown}\n\n${message}`);
  question.isTrusted = { enabledCommands: links.map(({ command }) => command) };
  return question;
}

/** A line of code that does not wrap is cut off at the dialog's edge. The extension's default is that it wraps. */
function isInSight(message: string): boolean {
  const wrap = vscode.workspace.getConfiguration('chat').get('editor.wordWrap', 'on');
  return wrap === 'on' && heightOf(message) <= IN_SIGHT;
}

/** About as high as the dialog draws it. Python writes a question as paragraphs and fenced code blocks. */
function heightOf(message: string): number {
  let height = 0;
  let fence: string | undefined;
  for (const line of message.trim().split('\n')) {
    const rows = rowsOf([line], COLUMNS) * ROW;
    if (fence !== undefined) {
      height += line === fence ? 0 : rows;
      fence = line === fence ? undefined : fence;
    } else if ((fence = /^(`{3,}|~{3,})/.exec(line)?.[1]) !== undefined) {
      height += CODE_BLOCK;
    } else if (line !== '') {
      height += rows + PARAGRAPH;
    }
  }
  return height;
}

export function registerPermissionTools(
  backend: Pick<Backend, 'request'>,
  approvals: PendingApprovals,
): vscode.Disposable {
  return vscode.Disposable.from(
    ...RISK_CLASSES.map((risk) => {
      const tool = new PermissionTool(`${PERMISSION_PREFIX}${risk}`, backend, approvals);
      return vscode.lm.registerTool(tool.name, tool);
    }),
  );
}
