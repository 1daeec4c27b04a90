/** The backend, as a real process: a few lines of JavaScript that play it, and misbehave. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backend, type BackendState } from '../src/backend';

const PLAYED = `
  const lines = require('node:readline').createInterface({ input: process.stdin });
  const reply = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
  lines.on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (method === 'initialize') reply(id, { server: { version: '9.' + params.protocolVersion } });
    else if (method === 'pid') reply(id, process.pid);
    else if (method === 'die') { process.stderr.write('out of rope\\n'); process.exitCode = 3; lines.close(); process.stdin.destroy(); }
    else if (method === 'shutdown') reply(id, {});
  });
`;

function played(script = PLAYED) {
  const states: BackendState[] = [];
  const backend = new Backend({
    launch: async () => ({ command: process.execPath, args: ['-e', script] }),
    introduction: () => ({}),
    notification: () => undefined,
    changed: (state) => states.push(state),
    log: () => undefined,
  });
  return { backend, states };
}

test('it starts with the first request, and only once', async () => {
  const { backend, states } = played();
  const [one, other] = await Promise.all([backend.request('pid', {}), backend.request('pid', {})]);
  assert.equal(one, other);
  assert.deepEqual(backend.state, { name: 'ready', version: '9.1', pid: one });
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
  await assert.rejects(backend.request('die', {}), /status 3|closed its output/);
  assert.equal(backend.state.name, 'failed');
  assert.notEqual(await backend.request('pid', {}), first);
  assert.equal(states.filter(({ name }) => name === 'ready').length, 2);
  await backend.dispose();
});

test('when it dies, it is started again without being asked', async () => {
  const { backend, states } = played();
  await backend.request('pid', {});
  await assert.rejects(backend.request('die', {}));
  const deadline = Date.now() + 20_000;
  while (states.filter(({ name }) => name === 'ready').length < 2) {
    assert(Date.now() < deadline, 'it was not started again');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await backend.dispose();
});

test('one that cannot start says what it said', async () => {
  const { backend } = played(`process.stderr.write('dragoman.toml, line 3: no such key'); process.exit(2);`);
  await assert.rejects(backend.request('pid', {}), /line 3: no such key/);
  assert.equal(backend.state.name, 'failed');
  await backend.dispose();
});

test('a program that is not there is said to be missing', async () => {
  const { backend } = played();
  const missing = new Backend({
    launch: async () => ({ command: '/no/such/dragoman', args: [] }),
    introduction: () => ({}),
    notification: () => undefined,
    changed: () => undefined,
    log: () => undefined,
  });
  await assert.rejects(missing.request('pid', {}), /\/no\/such\/dragoman cannot be started/);
  await missing.dispose();
  await backend.dispose();
});
