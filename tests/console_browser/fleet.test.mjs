// The console of a gateway: conversations and questions of the agents on workers, and on which machine each is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './children.mjs';
import { asking, curlJson, curlStream, steps } from './clients.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({ workers: ['worker-1', 'worker-2'] }, (...started) => {
  [browser, served] = started;
});

const desk = async () => (await browser.person()).paired(served, 'desk');
const WORKER = /^worker-[12]$/;

/** What stands beside "Machine" in this part of the page. */
const machine = async (part) => (await part.locator('dt', { hasText: 'Machine' }).locator('xpath=following-sibling::dd[1]').innerText()).trim();

test('questions of agents on workers are decided here, and each names its machine', async () => {
  const page = await desk();
  const yes = curlJson(served, asking('echo harbour'));
  await page.waiting('echo harbour').waitFor();
  assert.match(await machine(page.question('echo harbour')), WORKER);
  await page.allow('echo harbour');
  assert.match(await yes, /the-allow_once.*After/s);
  const no = curlJson(served, asking('echo jetty'));
  await page.waiting('echo jetty').getByRole('button', { name: 'Deny', exact: true }).click();
  assert.match(await no, /the-reject_once/);
  assert.deepEqual(page.problems, []);
});

test('conversations of all workers are listed with their machine, and a turn on a worker is stopped here', async () => {
  const page = await desk();
  const marks = ['north-mark', 'south-mark'];
  const rows = marks.map((mark) => page.page.getByRole('main').getByRole('listitem').filter({ hasText: mark }));
  const answers = [];
  await page.go('Conversations');
  for (const [number, row] of rows.entries()) {
    answers.push(curlStream(served, steps(['say', marks[number]], ['hang'])));
    // A conversation that is under way counts: the second goes to the other worker.
    await row.filter({ hasText: 'Answering' }).waitFor();
  }
  const texts = await Promise.all(rows.map((row) => row.innerText()));
  assert.deepEqual(texts.map((text) => /worker-[12]/.exec(text)?.[0]).sort(), ['worker-1', 'worker-2']);
  const before = served.journal('session/cancel').length;
  for (const mark of marks) {
    await page.go('Conversations');
    await page.page.getByRole('main').getByRole('link', { name: new RegExp(mark) }).click();
    await page.page.getByRole('heading', { name: new RegExp(mark) }).waitFor();
    assert.match(await machine(page.page.getByRole('main')), WORKER);
    await page.page.getByRole('main').getByRole('button', { name: 'Stop the turn', exact: true }).click();
    await page.page.getByRole('dialog').getByRole('button', { name: 'Stop the turn', exact: true }).click();
  }
  await until('both cancellations', () => served.journal('session/cancel').length === before + 2);
  for (const [number, answer] of answers.entries()) {
    assert.match(await answer, new RegExp(marks[number]));
  }
  assert.deepEqual(page.problems, []);
});
