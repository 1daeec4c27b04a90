/**
 * The environments that this extension has made for Dragoman, and which of them is in use.
 *
 *     current                       a link to the one in use
 *     environment-4711-9f3a61c2/    one of them, made by the window with that process
 *
 * An environment is created at its final place, because a Python environment cannot be moved. No process uses it before
 * `current` points to it. The link changes in one step, so an incomplete environment is never in use. The previous one
 * stays for the processes that run from it, in any window. A window that starts later removes unused environments.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import * as path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const CURRENT = 'current';
const NAME = /^environment-(\d+)-[0-9a-f]+$/;
/** The limit of the output of `ps`: the command lines of all processes. */
const MAX_LISTED_BYTES = 64 * 1024 * 1024;

/** The environments that this window creates now. */
const making = new Set<string>();

export function programIn(environment: string): string {
  return path.join(environment, 'bin', 'dragoman');
}

/** The environment in use, by its own path: a process that runs from it is not affected when `current` changes. */
export async function currentIn(storage: string): Promise<string | undefined> {
  const name = await readlink(path.join(storage, CURRENT)).catch(() => undefined);
  return name === undefined ? undefined : path.join(storage, name);
}

/** Create an environment with `make` and switch to it. If that fails, remove it. */
export async function replaceIn(storage: string, make: (environment: string) => Promise<void>): Promise<void> {
  const name = `environment-${process.pid}-${randomBytes(4).toString('hex')}`;
  const environment = path.join(storage, name);
  making.add(name);
  try {
    await mkdir(environment, { recursive: true });
    await make(environment);
    const link = path.join(environment, CURRENT);
    await symlink(name, link);
    await rename(link, path.join(storage, CURRENT));
  } catch (error) {
    await rm(environment, { recursive: true, force: true });
    throw error;
  } finally {
    making.delete(name);
  }
}

/** Remove the environments that are not in use, not under construction, and that no process runs from. */
export async function sweep(storage: string, platform: NodeJS.Platform): Promise<void> {
  const names = (await readdir(storage).catch(() => [])).filter((name) => NAME.test(name) && !isBeingMade(name));
  // Read after the list: an environment that is complete by then is already the current one.
  const current = await currentIn(storage);
  const unused = names.filter((name) => path.join(storage, name) !== current);
  if (unused.length === 0) {
    return;
  }
  const running = await commandLines(platform);
  for (const name of unused.filter((one) => !running.includes(one))) {
    await rm(path.join(storage, name), { recursive: true, force: true });
  }
}

/** Whether the process that creates it still runs. Its id may be reused; then a later sweep removes the environment. */
function isBeingMade(name: string): boolean {
  const maker = Number(NAME.exec(name)?.[1]);
  return maker === process.pid ? making.has(name) : isAlive(maker);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** The command lines of all processes. A program of an environment is started by its path. */
async function commandLines(platform: NodeJS.Platform): Promise<string> {
  if (platform !== 'linux') {
    return (await run('ps', ['-axww', '-o', 'args='], { maxBuffer: MAX_LISTED_BYTES })).stdout;
  }
  // A small container has no `ps`.
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = processes.map((id) => readFile(path.join('/proc', id, 'cmdline'), 'utf8').catch(() => ''));
  return (await Promise.all(lines)).join('\n');
}
