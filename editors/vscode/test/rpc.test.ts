import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough, Writable } from 'node:stream';
import { test } from 'node:test';
import { ConnectionClosed, Peer, RpcError } from '../src/rpc';
import type { Part } from '../src/wire';

type Serve = (method: string, params: unknown, signal: AbortSignal) => Promise<unknown> | undefined;

function pair(lost?: () => Promise<void>, graceMs?: number, request?: Serve) {
  const input = new PassThrough();
  const output = new PassThrough();
  const told: [string, unknown][] = [];
  const closed: string[] = [];
  const peer = new Peer(input, output, {
    notification: (method, params) => told.push([method, params]),
    closed: (reason) => closed.push(reason),
    ...(lost === undefined ? {} : { lost }),
    ...(request === undefined ? {} : { request }),
  }, graceMs);
  const sent = () =>
    String(output.read() ?? '')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const give = (message: object) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  return { input, peer, told, closed, sent, give };
}

test('a request has its result, after all its parts', async () => {
  const { peer, sent, give } = pair();
  const parts: Part[] = [];
  const answer = peer.request('lm/x', { a: 1 }, { onPart: (part) => parts.push(part) });
  assert.deepEqual(sent(), [{ jsonrpc: '2.0', id: 1, method: 'lm/x', params: { a: 1 } }]);
  give({ method: 'lm/responsePart', params: { requestId: 1, part: { type: 'text', value: 'a' } } });
  give({ method: 'lm/responsePart', params: { requestId: 7, part: { type: 'text', value: 'for nobody' } } });
  give({ id: 1, result: { ok: true } });
  assert.deepEqual(await answer, { ok: true });
  assert.deepEqual(parts, [{ type: 'text', value: 'a' }]);
});

test('a character that comes in pieces stays whole, and so does a line', async () => {
  const { peer, input } = pair();
  const answer = peer.request('x', {});
  const bytes = Buffer.from('{"jsonrpc":"2.0","id":1,"result":"é – 漢字 – 🧭"}\n');
  for (const byte of bytes) {
    input.write(Buffer.from([byte]));
  }
  assert.equal(await answer, 'é – 漢字 – 🧭');
});

test('a request of the other side is served, refused or withdrawn, and answered once', async () => {
  const served: [string, unknown][] = [];
  const { sent, give } = pair(undefined, undefined, (method, params, signal) => {
    served.push([method, params]);
    const methods: Record<string, () => Promise<unknown>> = {
      read: () => Promise.resolve({ text: 'x' }),
      fail: () => Promise.reject(new Error('no')),
      wait: () => new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('withdrawn')))),
    };
    return methods[method]?.();
  });
  const answers = async (count: number) => {
    const all: Record<string, unknown>[] = [];
    while (all.length < count) {
      await new Promise((resolve) => setImmediate(resolve));
      all.push(...sent());
    }
    return all;
  };
  give({ id: 7, method: 'read', params: { path: '/a' } });
  give({ id: 8, method: 'fail' });
  give({ id: 9, method: 'unknown' });
  give({ id: 'w', method: 'wait' });
  assert.deepEqual((await answers(3)).toSorted((one, other) => Number(one['id']) - Number(other['id'])), [
    { jsonrpc: '2.0', id: 7, result: { text: 'x' } },
    { jsonrpc: '2.0', id: 8, error: { code: -32000, message: 'no' } },
    { jsonrpc: '2.0', id: 9, error: { code: -32601, message: 'The editor has no method unknown.' } },
  ]);
  give({ method: '$/cancel_request', params: { requestId: 'w' } });
  assert.deepEqual(await answers(1), [{ jsonrpc: '2.0', id: 'w', error: { code: -32000, message: 'withdrawn' } }]);
  assert.deepEqual(served[0], ['read', { path: '/a' }]);
});

test('several lines in one piece are several messages', async () => {
  const { peer, input } = pair();
  const answers = [peer.request('x', {}), peer.request('y', {})];
  input.write('{"jsonrpc":"2.0","id":2,"result":"b"}\n\n{"jsonrpc":"2.0","id":1,"result":"a"}\n');
  assert.deepEqual(await Promise.all(answers), ['a', 'b']);
});

test('an error has its kind', async () => {
  const { peer, give } = pair();
  const answer = peer.request('x', {});
  give({ id: 1, error: { code: -32000, message: 'No such model. Try another.', data: { kind: 'not_found' } } });
  await assert.rejects(answer, (error: RpcError) => {
    assert.equal(error.kind, 'not_found');
    assert.equal(error.message, 'No such model. Try another.');
    return true;
  });
});

test('a signal cancels by the id of its request, and the request settles by its own answer', async () => {
  const { peer, sent, give } = pair();
  const controller = new AbortController();
  const answer = peer.request('x', {}, { signal: controller.signal });
  controller.abort();
  assert.deepEqual(sent()[1], { jsonrpc: '2.0', method: 'lm/cancel', params: { requestId: 1 } });
  give({ id: 1, result: {} });
  assert.deepEqual(await answer, {});
  const cancelled = peer.request('y', {}, { signal: controller.signal });
  assert.deepEqual(
    sent().map(({ method }) => method),
    ['y', 'lm/cancel'],
  );
  give({ id: 2, result: {} });
  await cancelled;
});

test('when the other end is gone, everything that is open settles, and what comes later too', async () => {
  const { peer, input, closed } = pair();
  const open = [peer.request('x', {}), peer.request('y', {})];
  input.end();
  for (const answer of open) {
    await assert.rejects(answer, ConnectionClosed);
  }
  await assert.rejects(peer.request('z', {}), ConnectionClosed);
  assert.equal(closed.length, 1);
});

test('an answer that comes too long after its cancellation is for nobody', async () => {
  const { peer, give, sent } = pair(undefined, 1);
  const controller = new AbortController();
  const answer = peer.request('x', {}, { signal: controller.signal });
  controller.abort();
  await assert.rejects(answer, { name: 'AbortError' });
  give({ id: 1, result: {} });
  const next = peer.request('y', {});
  give({ id: 2, result: 'its own' });
  assert.equal(await next, 'its own');
  assert.deepEqual(
    sent().map(({ method }) => method),
    ['x', 'lm/cancel', 'y'],
  );
});

test('whoever knows why the streams are gone may say so first', async () => {
  const { peer, input, closed } = pair(async () => peer.close('it ended with status 3'));
  const open = peer.request('x', {});
  input.end();
  await assert.rejects(open, new ConnectionClosed('it ended with status 3'));
  assert.deepEqual(closed, ['it ended with status 3']);
});

test('what is asked after the loss is not written, and known not to have been taken', async () => {
  let say = () => undefined as void;
  const { peer, input, sent } = pair(() => new Promise((resolve) => (say = resolve)));
  const before = peer.request('x', {});
  const isLost = once(input, 'end');
  input.end();
  await isLost;
  const after = peer.request('y', {});
  say();
  await assert.rejects(before, new ConnectionClosed('it closed its output', true));
  await assert.rejects(after, new ConnectionClosed('it closed its output', false));
  await assert.rejects(peer.request('z', {}), new ConnectionClosed('it closed its output', false));
  assert.deepEqual(sent().map(({ method }) => method), ['x']);
});

test('what could not be written was not taken; of what stood behind it nobody knows', async () => {
  const failing = (whenIsIt: (fail: () => void) => void) => {
    const write = (_chunk: unknown, _encoding: unknown, done: (error: Error) => void) => whenIsIt(() => done(new Error('EPIPE')));
    return new Peer(new PassThrough(), new Writable({ write }), { notification: () => undefined, closed: () => undefined });
  };
  await assert.rejects(failing((fail) => fail()).request('x', {}), new ConnectionClosed('EPIPE', false));
  let fail = () => undefined as void;
  const peer = failing((does) => (fail = does));
  const open = [peer.request('x', {}), peer.request('y', {})];
  fail();
  await assert.rejects(open[0] ?? assert.fail(), new ConnectionClosed('EPIPE', false));
  await assert.rejects(open[1] ?? assert.fail(), new ConnectionClosed('EPIPE', true));
});

test('what is no message is told, and the next line is read', async () => {
  const { peer, input, told, give, sent } = pair();
  const answer = peer.request('x', {});
  input.write('Traceback (most recent call last):\n[1, 2]\n');
  give({ id: 9, method: 'ask', params: {} });
  give({ method: 'log', params: { level: 'info', message: 'm' } });
  give({ id: 1, result: 1 });
  assert.equal(await answer, 1);
  assert.deepEqual(
    told.map(([method]) => method),
    ['log', 'log', 'log'],
  );
  assert.equal((sent()[1]?.['error'] as { code: number }).code, -32601);
});
