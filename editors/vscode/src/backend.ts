/**
 * The backend: the process `dragoman vscode`, which this class starts and restarts.
 *
 * It starts when it is first needed. When it dies, or does not start, its pending requests fail with a sentence, and it
 * is restarted. The pause before a restart grows, until a process stays alive. A request does not wait for the pause: it
 * starts the process at once.
 *
 * There is one process at a time. The next one starts when the last one has ended, and gets the requests made meanwhile.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { unlessAborted } from './cancellation';
import { CANCEL_GRACE_MS, ConnectionClosed, Peer, type RequestOptions } from './rpc';
import { PROTOCOL_VERSION } from './wire';

export interface Limits {
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
  /** A backend that has run this long started well: the next pause is a short one again. */
  readonly settledMs: number;
  /** The start of a Python program on a busy machine, and its imports. */
  readonly startMs: number;
  /** Between the end of its input and the kill. Agents get ten seconds to stop. */
  readonly endMs: number;
  /** Between the end of its output and its exit, which has the reason; and the other way round. */
  readonly lastWordsMs: number;
  /** For the answer to a cancelled request. */
  readonly graceMs: number;
}

const LIMITS: Limits = {
  firstPauseMs: 500,
  longestPauseMs: 60_000,
  settledMs: 30_000,
  startMs: 60_000,
  endMs: 12_000,
  lastWordsMs: 1_000,
  graceMs: CANCEL_GRACE_MS,
};

/** From the kill to the exit. Only a process that the kernel blocks takes longer, and nothing helps against that. */
const KILLED_MS = 5_000;

/** Characters from the end of its standard error, to explain why it ended. */
const LAST_WORDS = 1_500;

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

export interface Ready {
  readonly name: 'ready';
  readonly version: string;
  readonly pid: number | undefined;
  /** The path of its configuration file, which need not exist. */
  readonly configuration: string | undefined;
}

export type BackendState =
  | { readonly name: 'stopped' }
  | { readonly name: 'starting' }
  | Ready
  /** Dragoman is not installed yet. */
  | { readonly name: 'missing'; readonly reason: string }
  | { readonly name: 'failed'; readonly reason: string };

export interface BackendHost {
  /** Returns what to start; rejects with `NotInstalled` or with another sentence. Called before every start. */
  launch(): Promise<Launch>;
  /** The parameters of `initialize`, without the version. */
  introduction(): object;
  notification(method: string, params: unknown): void;
  changed(state: BackendState): void;
  log(level: 'error' | 'warning' | 'info' | 'debug' | 'trace', message: string): void;
}

/** The backend does not run. The message says why. */
export class BackendError extends Error {
  override readonly name = 'BackendError';
}

/** There is no Dragoman on this machine. */
export class NotInstalled extends Error {
  override readonly name = 'NotInstalled';
}

/** A failure that needs the user: the backend is not restarted automatically. */
class NothingToStart extends Error {
  constructor(readonly why: unknown) {
    super(messageOf(why));
  }
}

interface Running {
  readonly peer: Peer;
  readonly process: ChildProcess;
  readonly gone: Promise<void>;
  readonly ready: Ready;
}

/** One backend process, from the request to start it. */
interface Life {
  readonly itself: Promise<Running>;
  /** For waiting callers: if this process is abandoned, the next one. */
  readonly running: Promise<Running>;
  readonly abandoned: AbortController;
  /** False while it waits for the end of the previous process. */
  hasBegun: boolean;
}

export class Backend {
  readonly #host: BackendHost;
  readonly #limits: Limits;
  #state: BackendState = { name: 'stopped' };
  #current: Life | undefined;
  #ended: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #pause: number;
  #isDisposed = false;

  constructor(host: BackendHost, limits: Partial<Limits> = {}) {
    this.#host = host;
    this.#limits = { ...LIMITS, ...limits };
    this.#pause = this.#limits.firstPauseMs;
  }

  get state(): BackendState {
    return this.#state;
  }

  /**
   * Send a request, and start the backend if necessary.
   *
   * Rejects with `BackendError`, `ConnectionClosed`, `RpcError` or the signal's reason.
   */
  async request(method: string, params: unknown, options: RequestOptions = {}): Promise<unknown> {
    try {
      return await this.#ask(method, params, options);
    } catch (error) {
      // Retry once with the next process, but only if the dead one cannot have received the request.
      if (error instanceof ConnectionClosed && !error.mayBeTaken) {
        return this.#ask(method, params, options);
      }
      throw error;
    }
  }

  async #ask(method: string, params: unknown, options: RequestOptions): Promise<unknown> {
    options.signal?.throwIfAborted();
    const { peer } = await unlessAborted(this.#started(), options.signal);
    return peer.request(method, params, options);
  }

  /** Return the state of the running backend; start it if necessary. */
  async ready(): Promise<Ready> {
    return (await this.#started()).ready;
  }

  /** Send a notification, if the backend runs or starts. One that starts later gets the current state in `initialize`. */
  notify(method: string, params: unknown): void {
    this.#current?.running.then(
      ({ peer }) => peer.notify(method, params),
      () => undefined,
    );
  }

  async restart(): Promise<void> {
    this.#pause = this.#limits.firstPauseMs;
    if (this.#current?.hasBegun !== false) {
      void this.#stop();
    }
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
    this.#current ??= this.#life();
    return this.#current.running;
  }

  #life(): Life {
    const itself = this.#ended.then(() => {
      life.hasBegun = true;
      return this.#start(life);
    });
    const running = itself.catch((error: unknown) => this.#failed(life, error));
    const life: Life = { itself, running, abandoned: new AbortController(), hasBegun: false };
    return life;
  }

  async #start(life: Life): Promise<Running> {
    const { signal } = life.abandoned;
    signal.throwIfAborted();
    this.#become({ name: 'starting' });
    const launch = await unlessAborted(this.#host.launch(), signal).catch((error: unknown) => {
      throw new NothingToStart(error);
    });
    this.#host.log('info', `starting ${[launch.command, ...launch.args].join(' ')}`);
    const { command, args, cwd, env } = launch;
    const process_ = spawn(command, args, { cwd, env, stdio: 'pipe' });
    if ((process_.stdout as Readable | undefined) === undefined) {
      // The system has no free file descriptor for its streams.
      const [error] = (await once(process_, 'error')) as [Error];
      throw new Error(cannotStart(launch, error));
    }
    let lastWords = '';
    process_.stderr.setEncoding('utf8').on('data', (text: string) => {
      lastWords = (lastWords + text).slice(-LAST_WORDS);
      // The same records come as `log` notifications, so these are for those who debug the start itself.
      this.#host.log('trace', text.trimEnd());
    });
    const began = Date.now();
    let isReady = false;
    const peer: Peer = new Peer(
      process_.stdout,
      process_.stdin,
      {
        notification: (method, params) => this.#host.notification(method, params),
        lost: () => Promise.race([exited, pause(this.#limits.lastWordsMs)]),
        closed: (reason) => {
          if (isReady && this.#current === life) {
            // The process may still run: it has closed its output, or does not read its input.
            this.#ended = this.#ended.then(() => this.#endProcess(process_, gone));
            this.#died(reason, Date.now() - began);
          }
        },
      },
      this.#limits.graceMs,
    );
    const gone = new Promise<void>((resolve) => {
      process_.on('error', () => resolve()).once('exit', () => resolve());
    });
    const exited = new Promise<void>((resolve) => {
      process_.once('error', (error) => {
        peer.close(cannotStart(launch, error));
        resolve();
      });
      const ended = (code: number | null, signalName: NodeJS.Signals | null) => {
        const how = signalName === null ? `with status ${code}` : `by ${signalName}`;
        // A process that was killed said nothing about it.
        const words = signalName === null ? lastLine(lastWords) : '';
        peer.close(words === '' ? `it ended ${how}` : `it ended ${how}: ${words}`);
        resolve();
      };
      // `close` comes after the end of its output. That does not come if a child process has inherited the output.
      process_.once('close', ended);
      process_.once('exit', (...how) => {
        peer.unread();
        void pause(this.#limits.lastWordsMs).then(() => ended(...how));
      });
    });
    try {
      const { version, configuration } = await unlessAborted(this.#introduced(peer), signal);
      signal.throwIfAborted();
      const ready: Ready = { name: 'ready', version, pid: process_.pid, configuration };
      isReady = true;
      this.#become(ready);
      return { peer, process: process_, gone, ready };
    } catch (error) {
      process_.kill();
      // The end of its standard error may explain more than the timeout does.
      await Promise.race([exited, pause(this.#limits.lastWordsMs)]);
      await kill(process_, gone);
      const words = unlogged(lastWords).join('\n') || lastWords.trim();
      throw words === '' ? error : new Error(`Dragoman did not start: ${words}`);
    }
  }

  async #introduced(peer: Peer): Promise<{ version: string; configuration: string | undefined }> {
    const introduction = { protocolVersion: PROTOCOL_VERSION, ...this.#host.introduction() };
    const answer = (await Promise.race([
      peer.request('initialize', introduction),
      pause(this.#limits.startMs).then(() => {
        throw new Error('Dragoman did not answer in time.');
      }),
    ])) as { server?: { version?: string }; configuration?: string | null };
    return { version: answer.server?.version ?? '', configuration: answer.configuration ?? undefined };
  }

  #failed(life: Life, error: unknown): Promise<Running> {
    if (this.#current !== undefined && this.#current !== life) {
      return this.#current.running;
    }
    const reason = messageOf(error);
    if (this.#current === undefined) {
      throw new ConnectionClosed('it was stopped while it started');
    }
    this.#current = undefined;
    const isMissing = error instanceof NothingToStart && error.why instanceof NotInstalled;
    this.#become({ name: isMissing ? 'missing' : 'failed', reason });
    if (!(error instanceof NothingToStart)) {
      this.#startAgain(reason);
    }
    throw new BackendError(reason);
  }

  #died(reason: string, lived: number): void {
    this.#current = undefined;
    this.#pause = lived > this.#limits.settledMs ? this.#limits.firstPauseMs : this.#pause;
    const told = `Dragoman is gone: ${reason}`;
    this.#become({ name: 'failed', reason: told });
    this.#startAgain(told);
  }

  #startAgain(reason: string): void {
    this.#host.log('error', `${reason}; starting again in ${this.#pause} ms`);
    this.#timer = setTimeout(() => void this.#started().catch(() => undefined), this.#pause);
    this.#pause = Math.min(this.#pause * 2, this.#limits.longestPauseMs);
  }

  #stop(): Promise<void> {
    clearTimeout(this.#timer);
    const life = this.#current;
    this.#current = undefined;
    if (life !== undefined) {
      life.abandoned.abort();
      this.#ended = this.#ended.then(() => this.#end(life));
    }
    if (this.#state.name !== 'stopped') {
      this.#become({ name: 'stopped' });
    }
    return this.#ended;
  }

  async #end(life: Life): Promise<void> {
    const running = await life.itself.catch(() => undefined);
    if (running === undefined) {
      return;
    }
    const { peer, process: process_, gone } = running;
    const done = peer.request('shutdown', {}).catch(() => undefined);
    await Promise.race([done, pause(this.#limits.endMs)]);
    await this.#endProcess(process_, gone);
  }

  /** Close its input, which ends it. Kill it if it does not end. */
  async #endProcess(process_: ChildProcess, gone: Promise<void>): Promise<void> {
    process_.stdin?.end();
    await Promise.race([gone, pause(this.#limits.endMs)]);
    await kill(process_, gone);
  }

  #become(state: BackendState): void {
    this.#state = state;
    this.#host.changed(state);
  }
}

/** The same error code means a missing program or a missing folder. */
function cannotStart({ command, cwd }: Launch, error: Error): string {
  return cwd !== undefined && !existsSync(cwd)
    ? `${command} cannot be started: the folder ${cwd} is not there any more`
    : `${command} cannot be started: ${error.message}`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A record of Python's log, which says what happened before and not why the process ended. */
const LOG_RECORD = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ /;

function unlogged(text: string): string[] {
  return text.split('\n').filter((line) => line.trim() !== '' && !LOG_RECORD.test(line));
}

function lastLine(text: string): string {
  return unlogged(text).at(-1)?.trim() ?? '';
}

async function kill(process_: ChildProcess, gone: Promise<void>): Promise<void> {
  process_.kill('SIGKILL');
  await Promise.race([gone, pause(KILLED_MS)]);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
