// The list of conversations and its filters; what a person does to a conversation; and notifications of the browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './children.mjs';
import { asking, curlJson, curlResponse, curlStream, fetched, run, steps } from './clients.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({}, (...started) => {
  [browser, served] = started;
});

const desk = async (name = 'desk') => (await browser.person()).paired(served, name);

/** Opens the conversation whose row has these words. */
async function opened(page, words) {
  await page.go('Conversations');
  await page.page.getByRole('main').getByRole('link', { name: words }).click();
  await page.page.getByRole('heading', { name: words }).waitFor();
}

/** Presses a button of the conversation, and the one that confirms it. */
async function press(page, name) {
  await page.page.getByRole('main').getByRole('button', { name, exact: true }).click();
  await page.page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
}

test('a turn is stopped in the page: the agent is cancelled, and the client gets the end', async () => {
  const page = await desk();
  const answer = curlStream(served, steps(['say', 'stop-mark'], ['hang']));
  await opened(page, /stop-mark/);
  const before = served.journal('session/cancel').length;
  await press(page, 'Stop the turn');
  await until('the cancellation', () => served.journal('session/cancel').length > before);
  assert.match(await answer, /stop-mark/);
  assert.deepEqual(page.problems, []);
});

test('an agent is parked in the page, and its conversation is deleted with what was stored', async () => {
  const page = await desk();
  const { id } = await curlResponse(served, steps(['say', 'park-mark']));
  await opened(page, /park-mark/);
  await page.page.getByText('Idle', { exact: true }).waitFor();
  await press(page, 'Park the agent');
  await page.page.getByText('Stored', { exact: true }).waitFor();
  await press(page, 'Delete');
  await page.page.getByRole('heading', { name: 'Conversations' }).waitFor();
  await page.page.getByRole('link', { name: /park-mark/ }).waitFor({ state: 'detached' });
  assert.equal((await fetched(served, id)).error.code, 'response_not_found');
  assert.deepEqual(page.problems, []);
});

test('a device that only watches has no buttons that change anything', async () => {
  const page = await desk('owner');
  await curlJson(served, steps(['say', 'watch-mark']));
  const { body } = await page.call('POST', 'pairing', { role: 'watch' });
  const watcher = await (await browser.person()).open(served.url);
  await watcher.pair(body.code, 'watcher');
  await opened(watcher, /watch-mark/);
  await watcher.page.getByText('Idle', { exact: true }).waitFor();
  assert.equal(await watcher.page.getByRole('main').getByRole('button').count(), 0);
});

test('the list shows what its filters choose', async () => {
  const page = await desk();
  await curlJson(served, steps(['say', 'filter-mark']));
  await curlJson(served, 'other-mark', { model: 'demo' });
  await page.go('Conversations');
  const row = (words) => page.page.getByRole('main').getByRole('link', { name: words });
  await row(/filter-mark/).waitFor();
  await row(/other-mark/).waitFor();
  await page.page.getByLabel('Model').selectOption('demo');
  await row(/filter-mark/).waitFor({ state: 'detached' });
  await row(/other-mark/).waitFor();
  await page.page.getByLabel('State').selectOption('Answering');
  await page.page.getByText('There is no such conversation.').waitFor();
});

test('a question that comes while the page is hidden is a notification, until it is decided', async () => {
  const person = await browser.person();
  await person.context.grantPermissions(['notifications'], { origin: served.url });
  // A page of a headless browser is always visible.
  await person.context.addInitScript(() => {
    Object.defineProperty(document, 'visibilityState', { get: () => globalThis.hides ?? 'visible' });
  });
  const page = await person.paired(served);
  const titles = () =>
    page.page.evaluate(async () => {
      const worker = await navigator.serviceWorker.getRegistration('/console/');
      return ((await worker?.getNotifications()) ?? []).map(({ title, body }) => [title, body]);
    });
  await until('the worker', () => page.page.evaluate(async () => (await navigator.serviceWorker.getRegistration('/console/'))?.active != null));
  const visible = curlJson(served, asking('echo in-sight'));
  await page.allow('echo in-sight');
  await visible;
  assert.deepEqual(await titles(), []);
  await page.page.evaluate(() => {
    globalThis.hides = 'hidden';
  });
  const answer = curlJson(served, steps(run('echo out-of-sight')));
  // Its title, and nothing of the command: others may see the screen.
  await until('the notification', async () => (await titles()).length === 1);
  assert.deepEqual(await titles(), [['agent wants to run a command', '']]);
  await page.page.evaluate(() => {
    globalThis.hides = 'visible';
  });
  await page.allow('echo out-of-sight');
  assert.match(await answer, /the-allow_once/);
  await until('the end of the notification', async () => (await titles()).length === 0);
});
