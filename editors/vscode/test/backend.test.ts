/** The backend, as a real process: a few lines of JavaScript that play it, and misbehave. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backend, BackendError, type BackendState, type Launch, type Limits, NotInstalled } from '../src/backend';
import { within } from '../src/cancellation';
import { ConnectionClosed } from '../src/rpc';

const PLAYED = `
  const lines = require('node:readline').createInterface({ input: process.stdin });
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
  const reply = (id, result) => say({ id, result });
  lines.on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (method === 'initialize' && process.env.DEAF) require('node:fs').closeSync(0);
    if (method === 'initialize') reply(id, { server: { version: '9.' + params.protocolVersion }, configuration: '/etc/dragoman.toml' });
    else if (method === 'pid') reply(id, process.pid);
    else if (method === 'die') { process.stderr.write('a long story\\nout of rope\\n'); process.exitCode = 3; lines.close(); process.stdin.destroy(); }
    else if (method === 'log') { process.stderr.write('2026-01-02 03:04:05,678 INFO dragoman.x: an agent has started\\n', () => reply(id, {})); }
    else if (method === 'leave an heir') {
      const stdio = ['inherit', 'inherit', 'ignore'];
      const heir = require('node:child_process').spawn(process.execPath, ['-e', 'setTimeout(() => undefined, 60000)'], { stdio });
      say({ method: 'heir', params: heir.pid });
      process.exit(3);
    }
    else if (method === 'end') process.exit(3);
    else if (method === 'hear') say({ method: 'heard', params });
    else if (method === 'be mute') require('node:fs').closeSync(1);
    else if (method === 'be deaf') { require('node:fs').closeSync(0); say({ method: 'deaf' }); }
    else if (method === 'shutdown' && process.env.SLOW) say({ method: 'ending' });
    else if (method === 'shutdown') reply(id, {});
  });
`;

type Told = [method: string, params: unknown];

function played(script = PLAYED, limits: Partial<Limits> = {}, launch: Partial<Launch> = {}) {
  const states: BackendState[] = [];
  const told: Told[] = [];
  const logged: string[] = [];
  const news: (() => void)[] = [];
  const tell = () => news.splice(0).forEach((wake) => wake());
  const backend = new Backend(
    {
      launch: async () => ({ command: process.execPath, args: ['-e', script], ...launch }),
      introduction: () => ({}),
      notification: (...one) => {
        told.push(one);
        tell();
      },
      changed: (state) => {
        states.push(state);
        tell();
      },
      log: (_level, message) => logged.push(message),
    },
    limits,
  );
  /** Waits for what a state or a notification brings. */
  const until = async (is: () => boolean) => {
    while (!is()) {
      await new Promise<void>((resolve) => news.push(resolve));
    }
  };
  const names = () => states.map(({ name }) => name);
  return { backend, states, told, logged, until, names };
}

function pauses(logged: readonly string[]): number[] {
  return logged.flatMap((line) => /again in (\d+) ms$/.exec(line)?.[1] ?? []).map(Number);
}

test('it starts with the first request, and only once', async () => {
  const { backend, states } = played();
  const [one, other] = await Promise.all([backend.request('pid', {}), backend.request('pid', {})]);
  assert.equal(one, other);
  assert.deepEqual(backend.state, { name: 'ready', version: '9.1', pid: one, configuration: '/etc/dragoman.toml' });
  assert.equal(await backend.ready(), backend.state);
  await backend.dispose();
  assert.deepEqual(
    states.map(({ name }) => name),
    ['starting', 'ready', 'stopped'],
  );
  await assert.rejects(backend.request('pid', {}), /shut down/);
});

test('a restart is no death', async () => {
  const { backend, states } = played();
  const first = await backend.request('pid', {});
  await backend.restart();
  assert.notEqual(await backend.request('pid', {}), first);
  await backend.dispose();
  assert.deepEqual(
    states.map(({ name }) => name),
    ['starting', 'ready', 'stopped', 'starting', 'ready', 'stopped'],
  );
});

test('when it dies, what was asked fails with its last words, and the next request has another', async () => {
  const { backend, states } = played();
  const first = await backend.request('pid', {});
  await assert.rejects(backend.request('die', {}), new ConnectionClosed('it ended with status 3: out of rope'));
  assert.equal(backend.state.name, 'failed');
  assert.notEqual(await backend.request('pid', {}), first);
  assert.equal(states.filter(({ name }) => name === 'ready').length, 2);
  await backend.dispose();
});

test('one that is killed is said to be, and a line of its log is not the reason', { timeout: 20_000 }, async () => {
  const { backend } = played();
  await backend.ready();
  await backend.request('log', {});
  const asked = backend.request('silence', {});
  process.kill(Number(await backend.request('pid', {})), 'SIGKILL');
  await assert.rejects(asked, new ConnectionClosed('it ended by SIGKILL'));
  await backend.request('log', {});
  await assert.rejects(backend.request('end', {}), new ConnectionClosed('it ended with status 3'));
  await backend.dispose();
});

test('where nothing is installed, that is no failure', async () => {
  const states: BackendState[] = [];
  const nothing = () => undefined;
  const launch = () => Promise.reject(new NotInstalled('Not set up yet.'));
  const backend = new Backend({ launch, introduction: () => ({}), notification: nothing, changed: (state) => states.push(state), log: nothing });
  await assert.rejects(backend.ready(), new BackendError('Not set up yet.'));
  assert.deepEqual(states, [{ name: 'starting' }, { name: 'missing', reason: 'Not set up yet.' }]);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** The one of that process is lost: the next one starts at once when it is asked, and not before that one is no more. */
async function isReplaced({ backend, names, until }: ReturnType<typeof played>, pid: number): Promise<void> {
  const asked = backend.request('pid', {});
  await until(() => names().filter((name) => name === 'starting').length === 2);
  assert(!isAlive(pid));
  assert.notEqual(await asked, pid);
  await backend.dispose();
}

test('one that closes its output and lives on is asked to end, and ends before the next one starts', async () => {
  const mute = played(`${PLAYED} lines.on('close', () => process.stderr.write('no more input'));`, { lastWordsMs: 10 });
  const pid = Number(await mute.backend.request('pid', {}));
  await assert.rejects(mute.backend.request('be mute', {}), new ConnectionClosed('it closed its output'));
  await isReplaced(mute, pid);
  assert(mute.logged.includes('no more input'));
});

const STUBBORN = `${PLAYED} setInterval(() => undefined, 1000);`;

test('one that closes its output and does not end with its input either is killed before the next one starts', async () => {
  const mute = played(STUBBORN, { lastWordsMs: 10, endMs: 10 });
  const pid = Number(await mute.backend.request('pid', {}));
  await assert.rejects(mute.backend.request('be mute', {}), new ConnectionClosed('it closed its output'));
  await isReplaced(mute, pid);
});

test('one that reads no more and lives on is killed before the next one starts', async () => {
  const deaf = played(STUBBORN, { lastWordsMs: 10, endMs: 10 });
  const pid = Number(await deaf.backend.request('pid', {}));
  deaf.backend.notify('be deaf', {});
  await deaf.until(() => deaf.told.some(([method]) => method === 'deaf'));
  await isReplaced(deaf, pid);
});

test('what was asked when it had already ended is asked of the next one', { timeout: 20_000 }, async () => {
  const { backend, names, told } = played(PLAYED, { lastWordsMs: 200 });
  const first = Number(await backend.request('pid', {}));
  const before = assert.rejects(backend.request('leave an heir', {}), new ConnectionClosed('it ended with status 3'));
  // More than a pipe holds: that nobody reads it is not seen by what is written after it.
  backend.notify('hear', 'x'.repeat(10_000_000));
  while (isAlive(first)) {
    await new Promise(setImmediate);
  }
  assert.equal(backend.state.name, 'ready');
  assert.notEqual(await backend.request('pid', {}), first);
  await before;
  assert.deepEqual(names(), ['starting', 'ready', 'failed', 'starting', 'ready']);
  const [, heir] = told.find(([method]) => method === 'heir') ?? [];
  process.kill(Number(heir), 'SIGKILL');
  await backend.dispose();
});

test('what it may have taken fails with it, and is not asked again', { timeout: 20_000 }, async () => {
  const { backend } = played();
  const first = Number(await backend.request('pid', {}));
  process.kill(first, 'SIGSTOP');
  const asked = backend.request('pid', {});
  await new Promise(setImmediate);
  process.kill(first, 'SIGKILL');
  await assert.rejects(asked, new ConnectionClosed('it ended by SIGKILL'));
  await backend.dispose();
});

test('what none of two could take fails: it is asked again once', { timeout: 20_000 }, async () => {
  const { backend, names } = played(STUBBORN, { lastWordsMs: 10, endMs: 10 }, { env: { DEAF: 'yes' } });
  await assert.rejects(backend.request('pid', {}), { name: 'ConnectionClosed', message: /EPIPE/ });
  assert.equal(names().filter((name) => name === 'ready').length, 2);
  await backend.dispose();
});

test('one that ends has ended, although what it started still holds its output', { timeout: 20_000 }, async () => {
  const { backend, told } = played(PLAYED, { lastWordsMs: 200 });
  await assert.rejects(backend.request('leave an heir', {}), new ConnectionClosed('it ended with status 3'));
  const [, heir] = told.find(([method]) => method === 'heir') ?? [];
  process.kill(Number(heir), 'SIGKILL');
  await backend.dispose();
});

test('one that is just starting is told, too; for one that is not there nothing is started', { timeout: 20_000 }, async () => {
  const { backend, told, until, names } = played();
  backend.notify('hear', 'nobody');
  assert.deepEqual(names(), []);
  const ready = backend.ready();
  await until(() => names().includes('starting'));
  backend.notify('hear', 'one');
  await until(() => told.length > 0);
  assert.deepEqual(told, [['heard', 'one']]);
  await ready;
  await backend.dispose();
});

test('who shuts down waits for the end of one that was lost', async () => {
  const { backend } = played(STUBBORN, { lastWordsMs: 10, endMs: 10 });
  const pid = Number(await backend.request('pid', {}));
  await assert.rejects(backend.request('be mute', {}), ConnectionClosed);
  await backend.dispose();
  assert(!isAlive(pid));
});

test('when it dies, it is started again without being asked, after pauses that grow', async () => {
  const { backend, logged, names, until } = played(PLAYED, { firstPauseMs: 5 });
  await backend.ready();
  for (const lives of [1, 2, 3]) {
    await until(() => names().filter((name) => name === 'ready').length === lives);
    await assert.rejects(backend.request('die', {}));
  }
  assert.deepEqual(pauses(logged), [5, 10, 20]);
  await backend.dispose();
});

test('when it does not start, that is tried again, too', async () => {
  const { backend, logged, names, until } = played('process.exit(2)', { firstPauseMs: 5, longestPauseMs: 10 });
  await assert.rejects(backend.request('pid', {}), BackendError);
  await until(() => names().filter((name) => name === 'failed').length === 3);
  assert.deepEqual(pauses(logged), [5, 10, 10]);
  await backend.dispose();
});

test('where there is nothing to start, nothing is tried again', async () => {
  const { backend, logged, names } = played();
  const missing = new Backend(
    {
      launch: () => Promise.reject(new Error('Dragoman is not installed.')),
      introduction: () => ({}),
      notification: () => undefined,
      changed: () => undefined,
      log: (_level, message) => logged.push(message),
    },
    { firstPauseMs: 0 },
  );
  await assert.rejects(missing.request('pid', {}), new BackendError('Dragoman is not installed.'));
  // As long as another takes to start.
  await backend.request('pid', {});
  assert.deepEqual(pauses(logged), []);
  assert.deepEqual(names(), ['starting', 'ready']);
  await backend.dispose();
  await missing.dispose();
});

test('what is asked during a restart is asked of the next one, which starts when the last has ended', async () => {
  const { backend, told, until, names } = played(PLAYED, {}, { env: { SLOW: 'yes' } });
  const first = Number(await backend.request('pid', {}));
  const restarted = backend.restart();
  const asked = backend.request('pid', {});
  const again = backend.restart();
  await until(() => told.some(([method]) => method === 'ending'));
  assert.deepEqual(names(), ['starting', 'ready', 'stopped']);
  process.kill(first, 'SIGKILL');
  const [second] = await Promise.all([asked, restarted, again]);
  assert.notEqual(second, first);
  assert.deepEqual(names(), ['starting', 'ready', 'stopped', 'starting', 'ready']);
  process.kill(Number(second), 'SIGKILL');
  await backend.dispose();
});

test('a restart while it starts: who waits has the next one', async () => {
  const { backend, names, until } = played();
  const asked = backend.request('pid', {});
  await until(() => names().includes('starting'));
  await Promise.all([backend.restart(), asked]);
  assert.deepEqual(names(), ['starting', 'stopped', 'starting', 'ready']);
  assert.equal(await backend.request('pid', {}), await asked);
  await backend.dispose();
});

test('one that does not answer is left alone some moments after Stop', async () => {
  const { backend, states } = played(PLAYED, { graceMs: 10 });
  await backend.ready();
  const controller = new AbortController();
  const asked = backend.request('silence', {}, { signal: controller.signal });
  controller.abort();
  await assert.rejects(asked, { name: 'AbortError' });
  const late = within(1, undefined, (signal) => backend.request('silence', {}, { signal }));
  await assert.rejects(late, { name: 'TimeoutError' });
  assert.equal(states.at(-1)?.name, 'ready');
  await backend.dispose();
});

test('Stop while it starts waits for nothing, and neither does its end', async () => {
  const { backend, names } = played('setInterval(() => undefined, 1000)');
  const controller = new AbortController();
  const asked = backend.request('pid', {}, { signal: controller.signal });
  const other = backend.request('pid', {});
  controller.abort();
  await assert.rejects(asked, { name: 'AbortError' });
  await assert.rejects(backend.request('pid', {}, { signal: controller.signal }), { name: 'AbortError' });
  await Promise.all([assert.rejects(other, ConnectionClosed), backend.dispose()]);
  assert.deepEqual(names(), ['starting', 'stopped']);
});

test('one that cannot start says what it said', async () => {
  const { backend } = played(`process.stderr.write('dragoman.toml, line 3: no such key'); process.exit(2);`);
  await assert.rejects(backend.request('pid', {}), /line 3: no such key/);
  assert.equal(backend.state.name, 'failed');
  await backend.dispose();
});

test('a program that is not there is said to be missing, and so is a folder', async () => {
  const missing = played(PLAYED, {}, { command: '/no/such/dragoman' }).backend;
  await assert.rejects(missing.request('pid', {}), /\/no\/such\/dragoman cannot be started: .*ENOENT/);
  await missing.dispose();
  const nowhere = played(PLAYED, {}, { cwd: '/no/such/folder' }).backend;
  await assert.rejects(nowhere.request('pid', {}), /cannot be started: the folder \/no\/such\/folder is not there any more/);
  await nowhere.dispose();
});
