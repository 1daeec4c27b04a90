/** Limits of time, with real timers and a real garbage collection. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { after, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { unlessAborted, within } from '../src/cancellation';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const silence = (signal: AbortSignal) => unlessAborted(new Promise<never>(() => undefined), signal);
const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;
const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

// A limit that is forgotten leaves nothing that would end its test, or keep the process.
const deadline = { timeout: 10_000 };
const alive = setInterval(() => undefined, 1_000);
after(() => clearInterval(alive));

test('a limit holds although garbage is collected meanwhile', deadline, async () => {
  const stop = new AbortController();
  const limited = [within(30, stop.signal, silence), within(30, undefined, silence)];
  const late = limited.map((one) => assert.rejects(one, { name: 'TimeoutError' }));
  // What is held weakly is not let go of in the turn of the loop that made it.
  await new Promise(setImmediate);
  collectGarbage();
  await Promise.all(late);
});

test('Stop comes through with its reason although garbage is collected meanwhile', deadline, async () => {
  const stop = new AbortController();
  const stopped = assert.rejects(within(60_000, stop.signal, silence), { message: 'stopped' });
  await new Promise(setImmediate);
  collectGarbage();
  stop.abort(new Error('stopped'));
  await stopped;
  await assert.rejects(within(60_000, stop.signal, silence), { message: 'stopped' });
});

test('no limit leaves a timer or a listener behind, whichever way it ends', deadline, async () => {
  const stop = new AbortController();
  const before = timers();
  const seen: AbortSignal[] = [];
  const noting = <T>(does: (signal: AbortSignal) => Promise<T>) => (signal: AbortSignal) => {
    seen.push(signal);
    assert.deepEqual([timers(), listeners(stop.signal)], [before + 1, 1]);
    return does(signal);
  };
  const left = () => [timers() - before, listeners(stop.signal), ...seen.map(listeners)];

  assert.equal(await within(60_000, stop.signal, noting(async () => 'done')), 'done');
  assert.deepEqual(left(), [0, 0, 0]);
  await assert.rejects(within(60_000, stop.signal, noting(() => Promise.reject(new Error('broken')))), { message: 'broken' });
  assert.deepEqual(left(), [0, 0, 0, 0]);
  await assert.rejects(within(1, stop.signal, noting(silence)), { name: 'TimeoutError' });
  assert.deepEqual(left(), [0, 0, 0, 0, 0]);
  const stopped = within(60_000, stop.signal, noting(silence));
  stop.abort();
  await assert.rejects(stopped, { name: 'AbortError' });
  assert.deepEqual(left(), [0, 0, 0, 0, 0, 0]);
});
