// An agent runs as the same user on the same machine, and wants to approve itself.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { asking, curlJson, curlText, run, steps } from './clients.mjs';
import { until } from './children.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({}, (...started) => {
  [browser, served] = started;
});

test('an agent that tries to pair and to decide achieves nothing, and finds no secret', async () => {
  const page = await (await browser.person()).paired(served, 'owner');
  const used = served.codes().at(-1);
  const fresh = await served.code();
  const answer = curlJson(served, steps(['all', [run('echo self-approved'), ['attack', 'begin']]]));
  await page.waiting('echo self-approved').waitFor();
  const [{ id, conversation }] = await page.questions();
  const { cookie, token } = await page.session();
  // What it must find, if it looks at all.
  writeFileSync(served.at('home', 'diary'), 'the harbour opens at six');
  served.open(
    'begin',
    JSON.stringify({
      ...{ port: served.port, pid: served.pid, question: id, conversation, cookie, token },
      places: ['state', 'home', 'work', 'dragoman.toml'].map((name) => served.at(name)),
    }),
  );
  const [{ params: report }] = await until('the attack', () => {
    const found = served.journal('attacked');
    return found.length > 0 && found;
  }, 90_000);

  assert.deepEqual(report.achieved, []);
  // It did try: the page could be read, and guessing was stopped.
  assert.ok(report.tried['read the page'].filter((status) => status === 200).length >= 3, JSON.stringify(report.tried['read the page']));
  assert.ok(report.tried['guess a code'].includes(429), JSON.stringify(report.tried['guess a code']));
  assert.deepEqual(Object.entries(report.tried).filter(([, all]) => all.some((status) => status >= 500)), []);
  assert.ok(report.read.includes('/proc/PID/environ'));

  const loot = readFileSync(served.at('agent', 'loot'), 'latin1');
  assert.ok(loot.includes('the harbour opens at six'));
  for (const secret of [used, fresh, token, cookie.slice(cookie.indexOf('=') + 1)]) {
    for (const form of new Set([secret, secret.replace('-', '')])) {
      assert.equal(loot.includes(form), false, 'a secret is in what the agent could read');
    }
  }

  // The question is as it was, and the person decides.
  assert.equal(served.journal('outcome').length, 0);
  await page.waiting('echo self-approved').getByRole('button', { name: 'Deny', exact: true }).click();
  assert.match(await answer, /the-reject_once/);
});

test('guessing codes does not lock people out', async () => {
  const page = await (await browser.person()).paired(served, 'later');
  const answer = curlJson(served, asking('echo later'));
  await page.allow('echo later');
  assert.match(await answer, /the-allow_once/);
});

test('a client is told no id of the question, in no form that it could answer', async () => {
  const page = await (await browser.person()).paired(served, 'owner');
  const answer = curlText(served, asking('echo secret-id'));
  await page.waiting('echo secret-id').waitFor();
  const [{ id }] = await page.questions();
  await page.allow('echo secret-id');
  const told = await answer;
  assert.match(told, /echo secret-id[^]*the-allow_once/);
  assert.equal(told.includes(id), false);
});
