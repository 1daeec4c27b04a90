/** Errors as VS Code shows them: it prints the message and then the stack, so there is none to speak of. */
import * as vscode from 'vscode';
import { BackendError } from './backend';
import { ConnectionClosed, RpcError } from './rpc';

/** An empty one would be replaced by VS Code's own, which is a page long. */
const NO_STACK = ' ';
const NEXT_STEP = 'Run “Dragoman: Show Log” to see why, or “Dragoman: Check the Installation”.';

/** Cause and next step, as one would say them. */
export function sentence(error: unknown): string {
  if (error instanceof RpcError) {
    // One with a kind was made for a person, and ends with its own.
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

/** VS Code makes its own errors anew on the way, with a stack that the chat prints whole: only where a program reads the code. */
function ofKind(kind: RpcError['kind'], message: string): Error {
  switch (kind) {
    case 'not_found':
      return vscode.LanguageModelError.NotFound(message);
    case 'no_permissions':
      return vscode.LanguageModelError.NoPermissions(message);
    case 'blocked':
      return vscode.LanguageModelError.Blocked(message);
    default:
      return new Error(message);
  }
}

/** As it stands in an answer that had already begun. */
export function errorText(error: unknown): string {
  return `\n\n**Error:** ${sentence(error)}\n\n`;
}

/** Stop, whichever class it comes in: VS Code rejects with a `Canceled` that is no `CancellationError`. */
export function isCancellation(error: unknown): boolean {
  return (
    error instanceof vscode.CancellationError ||
    (error instanceof Error && (error.name === 'Canceled' || error.name === 'AbortError'))
  );
}
