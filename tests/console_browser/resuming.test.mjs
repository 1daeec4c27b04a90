// The connection of the page breaks, and nothing is lost: the proxy drops connections, as phones and networks do.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asking, curlJson } from './clients.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({ proxy: 'keep' }, (...started) => {
  [browser, served] = started;
});

/** Somebody is there all the time, without the proxy; so questions wait. */
async function two() {
  const direct = { ...served, url: served.local, code: () => served.code() };
  const desk = await (await browser.person()).paired(direct, 'desk');
  const phone = await (await browser.person({ phone: true })).paired(served, 'phone');
  return { desk, phone };
}

test('after its connection was cut the page resumes its stream, without a reload', async () => {
  const { phone } = await two();
  const resumed = phone.page.waitForRequest((request) => request.url().endsWith('/events') && request.headers()['last-event-id'] !== undefined);
  served.proxy.cut();
  await resumed;
  await phone.connected();
  const answer = curlJson(served, asking('echo resumed'));
  await phone.allow('echo resumed');
  assert.match(await answer, /the-allow_once/);
});

test('a question that came while the page was not connected is shown when it is again', async () => {
  const { phone } = await two();
  served.proxy.refuse();
  await phone.page.getByText(/Not connected/).first().waitFor();
  const answer = curlJson(served, asking('echo meanwhile'));
  served.proxy.accept();
  await phone.allow('echo meanwhile');
  assert.match(await answer, /the-allow_once/);
});

test('a question that was decided while the page was not connected is shown as decided', async () => {
  const { desk, phone } = await two();
  const answer = curlJson(served, asking('echo behind'));
  await phone.question('echo behind').waitFor();
  served.proxy.refuse();
  await phone.page.getByText(/Not connected/).first().waitFor();
  await desk.allow('echo behind');
  await answer;
  served.proxy.accept();
  await phone.outcome('echo behind', /Allowed once by desk/);
});

test('a decision that does not arrive is not shown as made, and can be made again', async () => {
  const { phone } = await two();
  const answer = curlJson(served, asking('echo lost'));
  await phone.question('echo lost').waitFor();
  served.proxy.refuse();
  await phone.allow('echo lost');
  await phone.question('echo lost').getByText(/not known whether this decision arrived|Not decided/).waitFor();
  assert.equal(await phone.question('echo lost').getByText(/Allowed/).count(), 0);
  served.proxy.accept();
  await phone.connected();
  await phone.allow('echo lost');
  assert.match(await answer, /the-allow_once/);
  await phone.outcome('echo lost', /Allowed once by phone/);
});

test('a reload shows the questions that wait', async () => {
  const { desk, phone } = await two();
  const answer = curlJson(served, asking('echo again'));
  await phone.question('echo again').waitFor();
  await phone.page.reload();
  await phone.question('echo again').waitFor();
  await desk.allow('echo again');
  assert.match(await answer, /the-allow_once/);
});

test('the session of a server that was started again is over, and the page says so', async () => {
  const { phone } = await two();
  await served.restart();
  await phone.page.getByText(/This device is no longer paired/).waitFor();
});
