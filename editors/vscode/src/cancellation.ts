import type * as vscode from 'vscode';

/** An abort signal that any of these cancellation tokens triggers. Dispose it with its request. */
export function signalOf(...tokens: vscode.CancellationToken[]): { signal: AbortSignal; dispose(): void } {
  const controller = new AbortController();
  if (tokens.some((token) => token.isCancellationRequested)) {
    controller.abort();
  }
  const subscriptions = tokens.map((token) => token.onCancellationRequested(() => controller.abort()));
  return { signal: controller.signal, dispose: () => subscriptions.forEach((one) => one.dispose()) };
}

/** Settles like the promise, or rejects with the signal's reason if that comes first. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) {
    return promise;
  }
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason as Error);
    if (signal.aborted) {
      stop();
    }
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/**
 * Run something under a signal that a timeout also triggers.
 *
 * It has its own timer: `AbortSignal.any` holds its sources weakly, so the garbage collection of an
 * `AbortSignal.timeout` would lose the timeout.
 */
export async function within<T>(
  milliseconds: number,
  signal: AbortSignal | undefined,
  does: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const stop = () => controller.abort(signal?.reason);
  if (signal?.aborted === true) {
    stop();
  }
  signal?.addEventListener('abort', stop, { once: true });
  const late = () => controller.abort(new DOMException(`no answer within ${milliseconds} ms`, 'TimeoutError'));
  const timer = setTimeout(late, milliseconds);
  try {
    return await does(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}
