/** Where Dragoman is: what the settings say, what is on the PATH, or what this extension has installed itself. */
import { execFile } from 'node:child_process';
import { access, constants, mkdir, readdir, rm } from 'node:fs/promises';
import * as path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
/** A Python that does not say its version in this time is not one to rely on. */
const ASK_MS = 10_000;
const PYTHONS = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python'];
const IS_NEW_ENOUGH = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))';

export interface Places {
  /** The words of the setting; none if it is not set. */
  readonly command: readonly string[];
  /** Where this extension may keep things. */
  readonly storage: string;
  /** What came with this extension: a wheel, and what it needs. */
  readonly bundled: string;
  /** Where programs are looked for. */
  readonly path: string;
  readonly platform: NodeJS.Platform;
}

/** The words that start Dragoman; undefined if it is nowhere. Rejects where it cannot be. */
export async function locate(places: Places): Promise<readonly string[] | undefined> {
  if (places.command.length > 0) {
    return places.command;
  }
  refuseWindows(places);
  const own = ownCommand(places.storage);
  if (await isExecutable(own)) {
    return [own];
  }
  const found = await onPath('dragoman', places.path);
  return found === undefined ? undefined : [found];
}

/** Put the Dragoman that came with this extension into an environment of its own. */
export async function install(places: Places, signal: AbortSignal, told: (step: string) => void): Promise<void> {
  refuseWindows(places);
  told('looking for Python');
  const python = await findPython();
  if (python === undefined) {
    throw new Error('There is no Python 3.11 or newer with `venv` on the PATH. Install one, then try again.');
  }
  const wheel = (await readdir(places.bundled)).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) {
    throw new Error('This build of the extension brings no Dragoman. Install it yourself, and name it in `dragoman.command`.');
  }
  const environment = environmentIn(places.storage);
  await mkdir(places.storage, { recursive: true });
  try {
    told('making an environment');
    await run(python, ['-m', 'venv', '--clear', environment], { signal });
    const pip = (...args: string[]) =>
      run(path.join(environment, 'bin', 'python'), ['-m', 'pip', '--disable-pip-version-check', 'install', ...args], {
        signal,
      });
    told('installing what it runs on');
    await pip('--require-hashes', '-r', path.join(places.bundled, 'requirements.txt'));
    told('installing Dragoman');
    await pip('--no-deps', path.join(places.bundled, wheel));
  } catch (error) {
    // Half an installation would be found, and would not start.
    await rm(environment, { recursive: true, force: true });
    const { stderr } = error as { stderr?: string };
    throw stderr === undefined || stderr.trim() === '' ? error : new Error(lastLine(stderr));
  }
}

function refuseWindows({ platform }: Places): void {
  if (platform === 'win32') {
    throw new Error('Dragoman runs on Linux and macOS. On Windows, open the folder in WSL: “WSL: Reopen Folder in WSL”.');
  }
}

export function ownCommand(storage: string): string {
  return path.join(environmentIn(storage), 'bin', 'dragoman');
}

function environmentIn(storage: string): string {
  return path.join(storage, 'environment');
}

async function findPython(): Promise<string | undefined> {
  for (const python of PYTHONS) {
    try {
      await run(python, ['-c', IS_NEW_ENOUGH], { timeout: ASK_MS });
      return python;
    } catch {
      // The next one, then.
    }
  }
  return undefined;
}

async function onPath(name: string, searched: string): Promise<string | undefined> {
  for (const folder of searched.split(path.delimiter).filter(path.isAbsolute)) {
    const file = path.join(folder, name);
    if (await isExecutable(file)) {
      return file;
    }
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? text;
}
