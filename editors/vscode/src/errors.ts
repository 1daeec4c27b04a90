/** Errors as VS Code shows them. It prints the message and then the stack, so the stack is nearly empty. */
import * as vscode from 'vscode';
import { BackendError } from './backend';
import { ConnectionClosed, RpcError } from './rpc';

/** VS Code replaces an empty stack by its own, which is a page long. */
const NO_STACK = ' ';
const NEXT_STEP = 'Run “Dragoman: Show Log” to see why, or “Dragoman: Check the Installation”.';

/** The cause and the next step, in sentences. */
export function sentence(error: unknown): string {
  if (error instanceof RpcError) {
    // An error with a kind was written for users, and contains the next step.
    if (error.kind === 'auth_required') {
      return `${ended(error.message)} Or run “Dragoman: Sign In…”.`;
    }
    return error.kind === undefined ? `${ended(error.message)} ${NEXT_STEP}` : error.message;
  }
  if (error instanceof ConnectionClosed) {
    return `Dragoman ended before it had answered: ${ended(error.reason)} It is started again with your next prompt.`;
  }
  if (error instanceof BackendError) {
    return `${ended(error.message)} ${NEXT_STEP}`;
  }
  if (error instanceof Error && error.name === 'TimeoutError') {
    return `Dragoman did not answer in time. ${NEXT_STEP}`;
  }
  return error instanceof Error ? error.message : String(error);
}

function ended(sentence_: string): string {
  return sentence_.replace(/[\s.]*$/, '.');
}

export function languageModelError(error: unknown): Error {
  const message = sentence(error);
  const kind = error instanceof RpcError ? error.kind : undefined;
  const shown = ofKind(kind, message);
  shown.stack = NO_STACK;
  return shown;
}

/**
 * An error with VS Code's code, for the kinds that it has one for and that programs check. All others are plain errors:
 * VS Code makes a coded error anew at its reader, with a stack that its chat prints, a page long. That is too much for what
 * only a person can act on, above all a login.
 */
function ofKind(kind: RpcError['kind'], message: string): Error {
  switch (kind) {
    case 'not_found':
      return vscode.LanguageModelError.NotFound(message);
    case 'no_permissions':
      return vscode.LanguageModelError.NoPermissions(message);
    case 'blocked':
    case 'rate_limited':
      return vscode.LanguageModelError.Blocked(message);
    default:
      return new Error(message);
  }
}

/** The text of an error in an answer that has already begun. */
export function errorText(error: unknown): string {
  return `\n\n**Error:** ${sentence(error)}\n\n`;
}

/** Whether an error means Stop. VS Code also rejects with a `Canceled` that is no `CancellationError`. */
export function isCancellation(error: unknown): boolean {
  return (
    error instanceof vscode.CancellationError ||
    (error instanceof Error && (error.name === 'Canceled' || error.name === 'AbortError'))
  );
}
