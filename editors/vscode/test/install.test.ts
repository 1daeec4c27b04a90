/** The installation, by a Python that is played: its wheel is the program it installs, its requirements are what it does. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { test } from 'node:test';
import { PendingApprovals } from '../src/approvals';
import { registerCommands } from '../src/commands';
import { sweep } from '../src/environments';
import { install } from '../src/install';
import { locate, type Places } from '../src/locate';
import * as vscode from './vscode';

const PYTHON = `#!/bin/sh
for last; do :; done
environment=\${0%/bin/python}
case "$1 $2 $last" in
  "-m venv "*) mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
  "-m pip "*.whl) cp "$last" "$environment/bin/dragoman" ;;
  "-m pip "*) . "$last" ;;
esac
`;
const WORKS = `#!/bin/sh
[ "$1" = --version ] || read until_its_input_ends
`;
/** Its child goes on writing into the environment, for as long as there is that machine. */
const BUSY = `
  sh -c 'while [ -e "$0/../../python3" ]; do mkdir -p "$0/lib/$((n = n + 1))"; done' "$environment" &
  wait
`;

const folder = mkdtempSync(path.join(tmpdir(), 'dragoman-install-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

function machine(name: string) {
  const at = (...names: string[]) => path.join(folder, name, ...names);
  mkdirSync(at('bundled'), { recursive: true });
  writeFileSync(at('python3'), PYTHON, { mode: 0o755 });
  const places: Places = {
    command: [],
    storage: at('storage'),
    bundled: at('bundled'),
    path: `${at()}${path.delimiter}${process.env['PATH'] ?? ''}`,
    platform: process.platform,
  };
  const brings = (wheel: string, requirements = '') => {
    writeFileSync(at('bundled', 'dragoman.whl'), wheel, { mode: 0o755 });
    writeFileSync(at('bundled', 'requirements.txt'), requirements);
  };
  brings(WORKS);
  const installed = async (signal = new AbortController().signal) => {
    await install(places, signal, () => undefined);
    return found();
  };
  const found = async () => {
    const [command = '', ...rest] = (await locate({ ...places, path: '' })) ?? [];
    assert.deepEqual(rest, []);
    return command;
  };
  const environments = () => readdirSync(places.storage).filter((one) => one !== 'current');
  return { places, brings, installed, found, environments };
}

async function until(is: () => boolean): Promise<void> {
  while (!is()) {
    await new Promise(setImmediate);
  }
}

function environmentOf(command: string): string {
  return path.basename(path.dirname(path.dirname(command)));
}

async function end(process_: ChildProcess): Promise<void> {
  const isGone = once(process_, 'exit');
  process_.stdin?.end();
  await isGone;
}

test('one is installed, found and replaced; what runs from the one before keeps it until it has ended', { timeout: 20_000 }, async () => {
  const { places, installed, found, environments } = machine('replaced');
  const first = await installed();
  const backend = spawn(first, ['vscode']);
  await once(backend, 'spawn');
  const second = await installed();
  assert.notEqual(second, first);
  execFileSync(second, ['--version']);
  await sweep(places.storage, places.platform);
  assert.deepEqual(environments().toSorted(), [first, second].map(environmentOf).toSorted());
  execFileSync(first, ['--version']);
  await end(backend);
  await sweep(places.storage, places.platform);
  assert.deepEqual(environments(), [environmentOf(second)]);
  assert.equal(await found(), second);
});

const FAILURES: Record<string, [wheel: string, requirements: string, says: RegExp]> = {
  'what it runs on cannot be had': [WORKS, 'echo "a long story\nno network" >&2; exit 1', /^no network$/],
  'the new one does not start': ['#!/bin/sh\necho "No module named rope" >&2; exit 1', '', /^No module named rope$/],
  'the new one is no program': ['', 'rm "$environment/bin/python"', /ENOENT/],
};

for (const [name, [wheel, requirements, says]] of Object.entries(FAILURES)) {
  test(`${name}: the one before works on, and nothing else is left`, { timeout: 20_000 }, async () => {
    const { brings, installed, found, environments } = machine(name);
    const before = await installed();
    brings(wheel, requirements);
    await assert.rejects(installed(), { message: says });
    assert.equal(await found(), before);
    execFileSync(before, ['--version']);
    assert.deepEqual(environments(), [environmentOf(before)]);
  });
}

test('the first one fails: there is none', { timeout: 20_000 }, async () => {
  const { brings, installed, places, environments } = machine('none');
  brings(WORKS, 'exit 1');
  await assert.rejects(installed(), /status 1/);
  assert.deepEqual([await locate({ ...places, path: '' }), environments()], [undefined, []]);
});

test('given up before it began, it leaves the one that is there', { timeout: 20_000 }, async () => {
  const { installed, found, environments } = machine('not begun');
  const before = await installed();
  await assert.rejects(installed(AbortSignal.abort()), { name: 'AbortError' });
  assert.deepEqual([await found(), environments()], [before, [environmentOf(before)]]);
});

test('given up in the midst of it, it leaves the one that is there, and nothing that writes on', { timeout: 20_000 }, async () => {
  const { places, brings, installed, found, environments } = machine('given up');
  const before = await installed();
  brings(WORKS, BUSY);
  const controller = new AbortController();
  const given = assert.rejects(installed(controller.signal), { name: 'AbortError' });
  const half = () => environments().find((one) => one !== environmentOf(before)) ?? '';
  await until(() => half() !== '' && existsSync(path.join(places.storage, half(), 'lib', '1')));
  controller.abort();
  await given;
  assert.deepEqual([await found(), environments()], [before, [environmentOf(before)]]);
});

test('two windows at once: each makes its own, and one is in use', { timeout: 20_000 }, async () => {
  const { places, installed, found, environments } = machine('two');
  const both = await Promise.all([installed(), installed()]);
  assert.equal(environments().length, 2);
  assert(both.includes(await found()));
  execFileSync(await found(), ['--version']);
  await sweep(places.storage, places.platform);
  assert.deepEqual(environments(), [environmentOf(await found())]);
});

test('one that is being made is nobody’s to remove; one that a window left half made is', { timeout: 20_000 }, async () => {
  const { places, brings, installed, found, environments } = machine('half');
  const before = await installed();
  const [left, elsewhere] = [spawnSync('true').pid, process.ppid].map((pid) => `environment-${pid}-00c0ffee`);
  for (const name of [left, elsewhere]) {
    mkdirSync(path.join(places.storage, name ?? '', 'bin'), { recursive: true });
  }
  brings(WORKS, BUSY);
  const controller = new AbortController();
  const making = assert.rejects(installed(controller.signal), { name: 'AbortError' });
  await until(() => environments().length === 4);
  await sweep(places.storage, places.platform);
  assert.equal(environments().length, 3);
  assert(!environments().includes(left ?? ''));
  controller.abort();
  await making;
  assert.deepEqual(environments().toSorted(), [environmentOf(before), elsewhere].toSorted());
  assert.equal(await found(), before);
});

test('a window that closes gives up what it installs, and says nothing', { timeout: 20_000 }, async () => {
  const { places, brings, environments } = machine('closing');
  brings(WORKS, BUSY);
  const editor = vscode.anotherEditor();
  const restarts: string[] = [];
  const backend = { restart: async () => void restarts.push('restart') };
  const commands = registerCommands({ backend: backend as never, agents: { loginWanted: undefined }, approvals: new PendingApprovals(() => undefined), log: { show: () => undefined }, places: () => places });
  const done = editor.commands.get('dragoman.install')?.();
  await until(() => existsSync(places.storage) && environments().length === 1);
  commands.dispose();
  await done;
  assert.deepEqual([environments(), restarts, editor.messages], [[], [], []]);
});

test('without a Python that is new enough nothing is made', { timeout: 20_000 }, async () => {
  const { places } = machine('old');
  const old = path.join(folder, 'old', 'bin');
  mkdirSync(old);
  writeFileSync(path.join(old, 'python3'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  const asked = install({ ...places, path: old }, new AbortController().signal, () => undefined);
  await assert.rejects(asked, /no Python 3\.11 or newer/);
  assert(!existsSync(places.storage));
});
