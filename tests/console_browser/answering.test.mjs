// A question of an agent whose client cannot be asked is answered on a phone, through TLS, under another host name.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asking, curlChat, curlJson, curlResponse, curlStream, fetched, openai } from './clients.mjs';
import { until } from './children.mjs';
import { Served } from './served.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

// Clients that do not stream are held for so long.
withConsole({ proxy: 'keep', console: 'decide_seconds = 4' }, (...started) => {
  [browser, served] = started;
});

const phone = async (name = 'phone') => (await browser.person({ phone: true })).paired(served, name);

/** Allows it on the phone: the agent gets its answer, and the client the rest. */
async function answered(command, client) {
  const page = await phone();
  const answer = client(asking(command));
  await page.allow(command);
  assert.match(await answer, /Before\. .*the-allow_once> After\.$/s);
  await page.outcome(command, /Allowed once by phone/);
  assert.deepEqual(page.problems, []);
}

test('curl, JSON: answered on a phone through TLS, and the answer goes on', async () => {
  await answered('echo harbour-json', (input) => curlJson(served, input));
});

test('curl, a stream: answered on a phone through TLS, and the answer goes on', async () => {
  await answered('echo harbour-stream', (input) => curlStream(served, input));
});

test('the openai client: answered on a phone through TLS, and the answer goes on', async () => {
  await answered('echo harbour-openai', (input) => openai(served, 'responses', input, { stream: true }));
});

test('chat completions with a stream: answered on a phone through TLS, and the answer goes on', async () => {
  await answered('echo harbour-chat', (input) => openai(served, 'chat', input, { stream: true }));
});

test('chat completions without a stream: answered in time, the answer goes on', async () => {
  await answered('echo harbour-plain', (input) => curlChat(served, input));
});

test('behind a proxy that changes Host as nginx does, a question is answered', async () => {
  const other = await Served.start({ proxy: 'rewrite' });
  try {
    const page = await (await browser.person({ phone: true })).paired(other);
    const answer = curlJson(other, asking('echo rewritten'));
    await page.allow('echo rewritten');
    assert.match(await answer, /the-allow_once> After\.$/);
  } finally {
    await other.stop();
  }
});

test('a stored JSON response that waits too long becomes a background response', async () => {
  const page = await phone();
  const response = await curlResponse(served, asking('echo patience'));
  assert.deepEqual([response.status, response.background], ['in_progress', true]);
  await page.allow('echo patience');
  const done = await until('its end', async () => {
    const found = await fetched(served, response.id);
    return found.status === 'completed' && found;
  });
  assert.match(JSON.stringify(done.output), /the-allow_once/);
});

test('a chat completion that waits too long ends, and the turn goes on', async () => {
  const page = await phone();
  const said = await curlChat(served, asking('echo tired'));
  assert.match(said, new RegExp(served.url.replaceAll('.', '\\.')));
  assert.doesNotMatch(said, /After\./);
  const before = served.journal('outcome').length;
  await page.allow('echo tired');
  await until('the answer', () => served.journal('outcome').length > before);
  assert.equal(served.journal('outcome').at(-1).params.optionId, 'the-allow_once');
});

test('while no one is reachable a question is refused at once, with the address of the console', async () => {
  // The server hears of the last page's end a moment later. A question that is held ends as a background response, without a refusal.
  const said = await until('the end of the stream before', async () => {
    const answer = await curlJson(served, asking('echo alone'));
    return /the-reject_once/.test(answer) && answer;
  });
  assert.ok(said.includes(served.url), said);
});

test('a page that is closed makes no one reachable', async () => {
  const page = await phone();
  await page.page.close();
  await until('the end of the stream', async () => /the-reject_once/.test(await curlJson(served, asking('echo closed'))));
});
