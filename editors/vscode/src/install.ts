/** Installs the Dragoman of this extension: into a new environment, which is tested before it is used. */
import { execFile, spawn } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import * as path from 'node:path';
import { promisify } from 'node:util';
import { within } from './cancellation';
import { programIn, replaceIn } from './environments';
import { onPath, type Places, refuseWindows } from './locate';

const run = promisify(execFile);
/** A Python that does not report its version in this time is skipped. */
const ASK_MS = 10_000;
/** The first start of a Python program, which compiles what it imports, on a busy machine. */
const TRY_MS = 60_000;
/** Characters from the end of a step's standard error, to explain its failure. */
const LAST_WORDS = 1_500;
const PYTHONS = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python'];
const IS_NEW_ENOUGH = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))';

/** Install Dragoman into a new environment. Calls `told` with the name of each step. */
export async function install(places: Places, signal: AbortSignal, told: (step: string) => void): Promise<void> {
  refuseWindows(places);
  told('looking for Python');
  const python = await findPython(places, signal);
  signal.throwIfAborted();
  if (python === undefined) {
    throw new Error('There is no Python 3.11 or newer with `venv` on the PATH. Install one, then try again.');
  }
  const wheel = (await readdir(places.bundled)).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) {
    throw new Error('This build of the extension brings no Dragoman. Install it yourself, and name it in `dragoman.command`.');
  }
  await replaceIn(places.storage, async (environment) => {
    const pip = (...args: string[]) => {
      const words = ['-m', 'pip', '--disable-pip-version-check', 'install', ...args];
      return step(path.join(environment, 'bin', 'python'), words, signal);
    };
    told('making an environment');
    await step(python, ['-m', 'venv', environment], signal);
    told('installing what it runs on');
    await pip('--require-hashes', '-r', path.join(places.bundled, 'requirements.txt'));
    told('installing Dragoman');
    await pip('--no-deps', path.join(places.bundled, wheel));
    told('trying it');
    await within(TRY_MS, signal, (bounded) => step(programIn(environment), ['--version'], bounded));
  });
}

async function findPython(places: Places, signal: AbortSignal): Promise<string | undefined> {
  for (const name of PYTHONS) {
    const python = await onPath(name, places.path);
    if (python === undefined) {
      continue;
    }
    try {
      await run(python, ['-c', IS_NEW_ENOUGH], { timeout: ASK_MS, signal });
      return python;
    } catch {
      // Try the next one.
    }
  }
  return undefined;
}

/** Run a process to its end. An abort kills its whole process group: pip and venv start other processes. */
async function step(command: string, args: readonly string[], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const process_ = spawn(command, args, { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
  const stop = () => process_.pid !== undefined && killGroup(process_.pid);
  signal.addEventListener('abort', stop, { once: true });
  let lastWords = '';
  try {
    const status = await new Promise<number | null>((resolve, reject) => {
      process_.once('error', reject).once('close', resolve);
      process_.stderr.setEncoding('utf8').on('data', (text: string) => {
        lastWords = (lastWords + text).slice(-LAST_WORDS);
      });
    });
    signal.throwIfAborted();
    if (status !== 0) {
      throw new Error(lastWords.trim().split('\n').at(-1) || `${path.basename(command)} ended with status ${status}.`);
    }
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch {
    // The process has ended already.
  }
}
