/**
 * The permission tools, one for each class of risk, because VS Code approves by tool and a session at a time.
 *
 * Python makes the dialog from what it holds, and gives out the proof; nothing is decided here. If it is not there to
 * be asked, there is a dialog all the same, and nothing is allowed.
 */
import * as vscode from 'vscode';
import type { PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { signalOf, within } from './cancellation';
import { fromWire } from './convert';
import { sentence } from './errors';
import { type Part, PERMISSION_PREFIX, RISK_CLASSES } from './wire';

/** What it holds is in its memory; a start comes on top where it has just died. Meanwhile a chat stands still. */
const ANSWER_MS = 20_000;

interface Prepared {
  invocationMessage: string;
  confirmationMessages: { title: string; message: string };
}

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
    const { invocationMessage, confirmationMessages } = await this.#prepared(input, token);
    // Markdown that is not trusted: no command links, and HTML is shown as it stands.
    const message = new vscode.MarkdownString(confirmationMessages.message);
    return { invocationMessage, confirmationMessages: { title: confirmationMessages.title, message } };
  }

  async invoke(
    { input }: vscode.LanguageModelToolInvocationOptions<object>,
    token: vscode.CancellationToken,
  ): Promise<vscode.LanguageModelToolResult> {
    this.#approvals.invoked(input);
    const { content } = (await this.#asked('tools/invoke', input, token)) as { content: Part[] };
    return new vscode.LanguageModelToolResult(
      content.flatMap((part) => fromWire(part) ?? []) as vscode.LanguageModelTextPart[],
    );
  }

  async #prepared(input: object, token: vscode.CancellationToken): Promise<Prepared> {
    try {
      return (await this.#asked('tools/prepareInvocation', input, token)) as Prepared;
    } catch (error) {
      const message = sentence(error);
      return { invocationMessage: message, confirmationMessages: { title: 'Nothing can be allowed now', message } };
    }
  }

  async #asked(method: string, input: object, token: vscode.CancellationToken): Promise<unknown> {
    const { signal, dispose } = signalOf(token);
    const ask = (bounded: AbortSignal) => this.#backend.request(method, { name: this.name, input }, { signal: bounded });
    try {
      return await within(ANSWER_MS, signal, ask);
    } finally {
      dispose();
    }
  }
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
