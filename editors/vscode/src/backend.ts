/**
 * The backend: `dragoman vscode`, kept running.
 *
 * It starts when it is first needed. When it dies, whatever was asked of it fails with a sentence, and it is started
 * again: after a moment, then after longer and longer ones, until it has stayed. Someone who asks does not wait for
 * that: a request starts it at once.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { Peer, type RequestOptions } from './rpc';
import { PROTOCOL_VERSION } from './wire';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
/** A backend that has lived this long did not die of its start: the next pause is a short one again. */
const SETTLED_MS = 30_000;
/** The start of a Python program on a busy machine, and its imports. */
const START_MS = 60_000;
/** Between the polite end and the other one. Agents get ten seconds to stop. */
const END_MS = 12_000;
/** Of what it said last on standard error, as much as explains an end. */
const LAST_WORDS = 1_500;

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

export type BackendState =
  | { readonly name: 'stopped' }
  | { readonly name: 'starting' }
  | { readonly name: 'ready'; readonly version: string; readonly pid: number | undefined }
  | { readonly name: 'failed'; readonly reason: string };

export interface BackendHost {
  /** What to start; rejects with a sentence when there is nothing. Asked before every start. */
  launch(): Promise<Launch>;
  /** The parameters of `initialize`, without the version. */
  introduction(): object;
  notification(method: string, params: unknown): void;
  changed(state: BackendState): void;
  log(level: 'error' | 'warning' | 'info' | 'debug', message: string): void;
}

/** The backend is not there, and this is why. */
export class BackendError extends Error {
  override readonly name = 'BackendError';
}

interface Running {
  readonly peer: Peer;
  readonly process: ChildProcess;
  readonly exited: Promise<void>;
  /** From now on its end is no surprise. */
  dismiss(): void;
}

export class Backend {
  readonly #host: BackendHost;
  #state: BackendState = { name: 'stopped' };
  #running: Promise<Running> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE_MS;
  #isDisposed = false;

  constructor(host: BackendHost) {
    this.#host = host;
  }

  get state(): BackendState {
    return this.#state;
  }

  /** Ask it; start it if need be. Rejects with `BackendError`, `ConnectionClosed` or `RpcError`. */
  async request(method: string, params: unknown, options: RequestOptions = {}): Promise<unknown> {
    const { peer } = await this.#started();
    return peer.request(method, params, options);
  }

  /** Tell it, if it runs. One that starts later is introduced to things as they are then. */
  notify(method: string, params: unknown): void {
    if (this.#state.name === 'ready') {
      this.#running?.then(
        ({ peer }) => peer.notify(method, params),
        () => undefined,
      );
    }
  }

  async restart(): Promise<void> {
    await this.#stop();
    this.#pause = FIRST_PAUSE_MS;
    await this.#started();
  }

  async dispose(): Promise<void> {
    this.#isDisposed = true;
    await this.#stop();
  }

  #started(): Promise<Running> {
    if (this.#isDisposed) {
      return Promise.reject(new BackendError('Dragoman has been shut down.'));
    }
    clearTimeout(this.#timer);
    this.#running ??= this.#start().catch((error: unknown) => {
      this.#running = undefined;
      const reason = error instanceof Error ? error.message : String(error);
      this.#become({ name: 'failed', reason });
      throw new BackendError(reason);
    });
    return this.#running;
  }

  async #start(): Promise<Running> {
    this.#become({ name: 'starting' });
    const { command, args, cwd, env } = await this.#host.launch();
    this.#host.log('info', `starting ${[command, ...args].join(' ')}`);
    const process_ = spawn(command, args, { cwd, env, stdio: 'pipe' });
    let lastWords = '';
    process_.stderr.setEncoding('utf8').on('data', (text: string) => {
      lastWords = (lastWords + text).slice(-LAST_WORDS);
      this.#host.log('debug', text.trimEnd());
    });
    const began = Date.now();
    let isReady = false;
    const ended = (reason: string) => {
      if (!isReady) {
        return;
      }
      isReady = false;
      this.#died(reason, Date.now() - began);
    };
    const peer = new Peer(process_.stdout, process_.stdin, {
      notification: (method, params) => this.#host.notification(method, params),
      closed: ended,
    });
    const exited = new Promise<void>((resolve) => {
      process_.once('error', (error) => {
        peer.close(`${command} cannot be started: ${error.message}`);
        resolve();
      });
      // Its output has been read to the end by then.
      process_.once('close', (code, signal) => {
        const how = signal === null ? `with status ${code}` : `by ${signal}`;
        const words = lastWords.trim();
        peer.close(words === '' ? `it ended ${how}` : `it ended ${how}: ${words}`);
        resolve();
      });
    });
    try {
      const version = await this.#introduced(peer);
      isReady = true;
      this.#become({ name: 'ready', version, pid: process_.pid });
    } catch (error) {
      process_.kill();
      // What it said last may explain more than its silence does.
      await Promise.race([exited, pause(1_000)]);
      const words = lastWords.trim();
      throw words === '' ? error : new Error(`Dragoman did not start: ${words}`);
    }
    const dismiss = () => {
      isReady = false;
    };
    return { peer, process: process_, exited, dismiss };
  }

  async #introduced(peer: Peer): Promise<string> {
    const introduction = { protocolVersion: PROTOCOL_VERSION, ...this.#host.introduction() };
    const answer = (await Promise.race([
      peer.request('initialize', introduction),
      pause(START_MS).then(() => {
        throw new Error('Dragoman did not answer in time.');
      }),
    ])) as { server?: { version?: string } };
    return answer.server?.version ?? '';
  }

  #died(reason: string, lived: number): void {
    this.#running = undefined;
    this.#pause = lived > SETTLED_MS ? FIRST_PAUSE_MS : this.#pause;
    this.#host.log('error', `Dragoman is gone: ${reason}; starting again in ${this.#pause} ms`);
    this.#become({ name: 'failed', reason: `Dragoman is gone: ${reason}` });
    if (!this.#isDisposed) {
      this.#timer = setTimeout(() => void this.#started().catch(() => undefined), this.#pause);
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
    }
  }

  async #stop(): Promise<void> {
    clearTimeout(this.#timer);
    const running = await this.#running?.catch(() => undefined);
    this.#running = undefined;
    if (running !== undefined) {
      const { peer, process: process_, exited } = running;
      running.dismiss();
      const done = peer.request('shutdown', {}).catch(() => undefined);
      await Promise.race([done, pause(END_MS)]);
      process_.stdin?.end();
      await Promise.race([exited, pause(END_MS)]);
      process_.kill('SIGKILL');
    }
    this.#become({ name: 'stopped' });
  }

  #become(state: BackendState): void {
    this.#state = state;
    this.#host.changed(state);
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
