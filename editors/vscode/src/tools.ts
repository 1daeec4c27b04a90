/**
 * The permission tools, one for each class of risk. VS Code shows their dialog; Python writes it and gives out the token.
 *
 * VS Code skips the dialog in a chat that is set to “Allow all” (Bypass Approvals) or “Autopilot”, and tells the tool
 * nothing about it. A sensitive action is therefore asked about a second time, with a modal dialog in `invoke`. Only
 * an answer to that dialog makes this extension send `confirmed`, without which Python returns no token.
 *
 * If the backend cannot be reached, VS Code shows a dialog all the same, and nothing is allowed.
 */
import * as vscode from 'vscode';
import { nonceOf, type PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { signalOf, within } from './cancellation';
import { fromWire } from './convert';
import { sentence } from './errors';
import { openQuestion, SHOW_QUESTION } from './questions';
import { type Part, PERMISSION_PREFIX, type PreparedInvocation, RISK_CLASSES } from './wire';

/** The backend answers from memory; a start comes on top where it has just died. Meanwhile a chat stands still. */
const ANSWER_MS = 20_000;

/** VS Code's own words for Skip. Python reads them as a person's refusal (backends/agent/dialect.py). */
export const REFUSED = 'The user chose to skip the tool call, they want to proceed without running it';

/** The dialog of VS Code 1.139 shows 200 pixels of its message, and no scroll bar: about this many lines. */
const LINES_IN_SIGHT = 8;

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
      // Prepared anew: the input may have changed since, and VS Code need not have prepared it at all.
      const prepared = await this.#prepared(input, token);
      if (prepared.isSensitive && !(await this.#isConfirmed(prepared, nonceOf(input), token))) {
        return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart(REFUSED)]);
      }
      const confirmed = prepared.isSensitive ? { confirmed: true } : {};
      const { content } = (await this.#asked('tools/invoke', { input, ...confirmed }, token)) as { content: Part[] };
      return new vscode.LanguageModelToolResult(
        content.flatMap((part) => fromWire(part) ?? []) as vscode.LanguageModelTextPart[],
      );
    } finally {
      this.#approvals.invoked(input);
    }
  }

  /** Asks the person with a modal dialog. Everything but “Allow Once” is a refusal, and so is Stop meanwhile. */
  async #isConfirmed(prepared: PreparedInvocation, nonce: string, token: vscode.CancellationToken): Promise<boolean> {
    const { message, detail } = prepared.modal;
    // The first button has the focus: an Enter that was meant for the chat must not allow anything.
    let answer: string | undefined = await vscode.window.showWarningMessage(message, { modal: true, detail }, SHOW_ALL, ALLOW_ONCE);
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

/** A modal dialog would cover the document and keep it from being scrolled; a list stays above it. */
async function askBesideDocument(title: string): Promise<string | undefined> {
  const items = [
    { label: REFUSE, description: 'Do not let the agent do this' },
    { label: ALLOW_ONCE, description: 'Let the agent do this, once' },
  ];
  const options = { title, placeHolder: 'Read the document below, then decide', ignoreFocusOut: true };
  return (await vscode.window.showQuickPick(items, options))?.label;
}

/** The dialog's text. Python escapes what the agent wrote; the only command that a link in it can run is ours. */
function questionOf({ confirmationMessages, isCut }: PreparedInvocation, nonce: string): vscode.MarkdownString {
  const { message } = confirmationMessages;
  if (!isCut && isInSight(message)) {
    return new vscode.MarkdownString(message);
  }
  // At the top, because the end of a long question is out of sight; with an arrow, because VS Code draws this link as text.
  const values = encodeURIComponent(JSON.stringify([nonce])).replace(/[()]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
  const question = new vscode.MarkdownString(`**[↗ Show the whole question](command:${SHOW_QUESTION}?${values})**\n\n${message}`);
  question.isTrusted = { enabledCommands: [SHOW_QUESTION] };
  return question;
}

/** A line of code that does not wrap is cut off at the dialog's edge. The extension's default is that it wraps. */
function isInSight(message: string): boolean {
  const wrap = vscode.workspace.getConfiguration('chat').get('editor.wordWrap', 'on');
  return wrap === 'on' && message.trim().split('\n').length <= LINES_IN_SIGHT;
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
