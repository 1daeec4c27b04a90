/**
 * A JSON-RPC 2.0 peer on a pair of byte streams, one JSON value a line.
 *
 * Every request settles exactly once: with its result, with an error, with the reason why the connection closed, or, some
 * seconds after it was cancelled, with the signal's reason.
 * Lines are cut before they are decoded, so a character that arrives in two chunks stays whole.
 */
import type { Readable, Writable } from 'node:stream';
import type { Part } from './wire';

const NEWLINE = 0x0a;
/** No message of the protocol is nearly as long. A longer line does not come from our backend. */
const MAX_LINE_BYTES = 256 * 1024 * 1024;
const METHOD_NOT_FOUND = -32601;
/** After a cancellation, the time for the other side to answer the request. Then the request rejects. */
export const CANCEL_GRACE_MS = 5_000;

export type ErrorKind =
  | 'not_found'
  | 'no_permissions'
  | 'blocked'
  | 'rate_limited'
  | 'unavailable'
  | 'bad_request'
  | 'agent_failed'
  | 'auth_required'
  | 'timeout'
  | 'internal';

/** An error response of the other side. */
export class RpcError extends Error {
  constructor(
    message: string,
    readonly code: number,
    readonly kind: ErrorKind | undefined,
  ) {
    super(message);
    this.name = 'RpcError';
  }
}

/** The connection is closed. */
export class ConnectionClosed extends Error {
  constructor(
    readonly reason: string,
    /** Whether the other side may have received the request. False only if it was not written, or its write failed. */
    readonly mayBeTaken = true,
  ) {
    super(reason);
    this.name = 'ConnectionClosed';
  }
}

export interface RequestOptions {
  /**
   * Cancels the request at the other side. The request still settles with the answer, if that comes soon. Else it rejects
   * with the signal's reason. A timeout rejects at once.
   */
  readonly signal?: AbortSignal | undefined;
  /** Receives the parts of a response. All of them come before the result. */
  readonly onPart?: ((part: Part) => void) | undefined;
}

export interface Receiver {
  notification(method: string, params: unknown): void;
  /** The streams have ended. Until this resolves, the owner may close the peer with a better reason. */
  lost?(): Promise<void>;
  closed(reason: string): void;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
  onPart: ((part: Part) => void) | undefined;
  mayBeTaken: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

export class Peer {
  readonly #output: Writable;
  readonly #receiver: Receiver;
  readonly #pending = new Map<number, Pending>();
  #chunks: Buffer[] = [];
  #held = 0;
  #lastId = 0;
  #isRead = true;
  #closedBecause: string | undefined;
  readonly #graceMs: number;

  constructor(input: Readable, output: Writable, receiver: Receiver, graceMs = CANCEL_GRACE_MS) {
    this.#output = output;
    this.#receiver = receiver;
    this.#graceMs = graceMs;
    input.on('data', (chunk: Buffer) => this.#take(chunk));
    input.on('end', () => void this.#lost('it closed its output'));
    input.on('error', (error) => void this.#lost(error.message));
    output.on('error', (error) => void this.#lost(error.message));
  }

  request(method: string, params: unknown, options: RequestOptions = {}): Promise<unknown> {
    if (this.#closedBecause !== undefined) {
      return Promise.reject(new ConnectionClosed(this.#closedBecause, false));
    }
    const id = ++this.#lastId;
    const { signal, onPart } = options;
    let grace: NodeJS.Timeout | undefined;
    const cancel = () => {
      this.notify('lm/cancel', { requestId: id });
      const isLate = (signal?.reason as Error | undefined)?.name === 'TimeoutError';
      grace = setTimeout(() => this.#forget(id, signal?.reason as Error), isLate ? 0 : this.#graceMs);
    };
    const settled = new Promise<unknown>((resolve, reject) => {
      const pending: Pending = { resolve, reject, onPart, mayBeTaken: this.#isRead };
      this.#pending.set(id, pending);
      // Node joins buffered requests into one write. If that fails, some of them may have arrived.
      const isAlone = this.#output.writableLength === 0;
      this.#write({ jsonrpc: '2.0', id, method, params }, (error) => {
        pending.mayBeTaken = error == null || !isAlone;
      });
    });
    if (signal?.aborted === true) {
      cancel();
    } else {
      signal?.addEventListener('abort', cancel, { once: true });
    }
    return settled.finally(() => {
      clearTimeout(grace);
      signal?.removeEventListener('abort', cancel);
    });
  }

  notify(method: string, params: unknown): void {
    if (this.#closedBecause === undefined) {
      this.#write({ jsonrpc: '2.0', method, params });
    }
  }

  /** Stop writing: the other side does not read any more. New requests wait until the connection closes. */
  unread(): void {
    this.#isRead = false;
  }

  /** Settle all open requests, and stop reading. */
  close(reason: string): void {
    if (this.#closedBecause !== undefined) {
      return;
    }
    this.#closedBecause = reason;
    this.#chunks = [];
    for (const pending of this.#pending.values()) {
      pending.reject(new ConnectionClosed(reason, pending.mayBeTaken));
    }
    this.#pending.clear();
    this.#receiver.closed(reason);
  }

  async #lost(reason: string): Promise<void> {
    this.unread();
    await this.#receiver.lost?.();
    this.close(reason);
  }

  #forget(id: number, reason: Error): void {
    this.#pending.get(id)?.reject(reason);
    this.#pending.delete(id);
  }

  #write(message: object, written?: (error: Error | null | undefined) => void): void {
    if (this.#isRead) {
      this.#output.write(`${JSON.stringify(message)}\n`, written);
    }
  }

  #take(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(NEWLINE); end !== -1 && this.#closedBecause === undefined; end = rest.indexOf(NEWLINE)) {
      const line = Buffer.concat([...this.#chunks, rest.subarray(0, end)]);
      this.#chunks = [];
      this.#held = 0;
      rest = rest.subarray(end + 1);
      this.#line(line.toString('utf8'));
    }
    if (rest.length > 0 && this.#closedBecause === undefined) {
      this.#chunks.push(rest);
      this.#held += rest.length;
      if (this.#held > MAX_LINE_BYTES) {
        this.close('it sent a line without end');
      }
    }
  }

  #line(line: string): void {
    if (line.trim() === '') {
      return;
    }
    const message = parsed(line);
    if (message === undefined) {
      this.#receiver.notification('log', { level: 'warning', message: `not a message: ${line.slice(0, 200)}` });
    } else if (typeof message['method'] !== 'string') {
      this.#answer(message);
    } else if ('id' in message) {
      // The backend sends no requests to an editor.
      const error = { code: METHOD_NOT_FOUND, message: 'The editor is asked nothing.' };
      this.#write({ jsonrpc: '2.0', id: message['id'], error });
    } else if (message['method'] === 'lm/responsePart') {
      this.#part(message['params']);
    } else {
      this.#receiver.notification(message['method'], message['params']);
    }
  }

  #part(params: unknown): void {
    if (isFields(params) && isFields(params['part'])) {
      this.#pending.get(Number(params['requestId']))?.onPart?.(params['part'] as unknown as Part);
    }
  }

  #answer(message: Fields): void {
    const id = Number(message['id']);
    const pending = this.#pending.get(id);
    if (pending === undefined) {
      return;
    }
    this.#pending.delete(id);
    const error = message['error'];
    if (isFields(error)) {
      const data = error['data'];
      const kind = isFields(data) ? (data['kind'] as ErrorKind | undefined) : undefined;
      pending.reject(new RpcError(String(error['message']), Number(error['code']), kind));
    } else {
      pending.resolve(message['result']);
    }
  }
}

function parsed(line: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
