// What a person can decide, and what becomes of it: every level, a reason, and two people at once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { until } from './children.mjs';
import { asking, curlJson, openai, run, steps } from './clients.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({}, (...started) => {
  [browser, served] = started;
});

const desk = async (name = 'desk') => (await browser.person()).paired(served, name);

/** Opens what is offered beside a plain yes, and chooses a level. */
async function allowFor(page, command, level) {
  const card = page.question(command);
  await card.getByText('Allow for longer').click();
  await card.getByRole('button', { name: level }).click();
}

test('allowed for the session: the same action is not asked about again, another one is', async () => {
  const page = await desk();
  const answer = curlJson(served, steps(run('echo tide'), run('echo tide'), run('echo ebb')));
  await allowFor(page, 'echo tide', 'For the session');
  await page.question('echo ebb').getByRole('button', { name: 'Deny', exact: true }).click();
  assert.match(await answer, /the-allow_once.*the-allow_once.*the-reject_once/s);
  await page.outcome('echo tide', /Allowed for the session by desk/);
});

test('allowed for the session: another conversation asks again', async () => {
  const page = await desk();
  const first = curlJson(served, asking('echo lantern'));
  await allowFor(page, 'echo lantern', 'For the session');
  assert.match(await first, /the-allow_once/);
  const second = curlJson(served, asking('echo lantern'));
  await page.waiting('echo lantern').getByRole('button', { name: 'Deny', exact: true }).click();
  assert.match(await second, /the-reject_once/);
});

test('allowed for the workspace: another conversation in this folder does not ask', async () => {
  const page = await desk();
  const first = curlJson(served, asking('echo mooring'));
  await allowFor(page, 'echo mooring', 'For the workspace');
  assert.match(await first, /the-allow_once/);
  assert.match(await curlJson(served, asking('echo mooring')), /the-allow_once/);
});

test('allowed always: another conversation does not ask, with no page open', async () => {
  const page = await desk();
  const first = curlJson(served, asking('echo compass'));
  await allowFor(page, 'echo compass', 'Always');
  assert.match(await first, /the-allow_once/);
  await page.page.close();
  assert.match(await curlJson(served, asking('echo compass')), /the-allow_once/);
});

test('allowed as a rule: the rule is in the file, and holds from then on', async () => {
  const page = await desk();
  const first = curlJson(served, asking('git log --oneline'));
  await allowFor(page, 'git log --oneline', 'As a rule…');
  const dialog = page.page.getByRole('dialog', { name: 'Allow as a rule' });
  await dialog.getByRole('radio').first().check();
  const shown = await dialog.getByText('[[policy]]').first().innerText();
  await dialog.getByRole('button', { name: 'Add the rule and allow' }).click();
  assert.match(await first, /the-allow_once/);
  assert.ok(readFileSync(served.at('dragoman.toml'), 'utf8').includes(shown.trim()), shown);
  assert.match(await curlJson(served, asking('git log --oneline')), /the-allow_once/);
});

test('denied with a reason: the agent gets the reason', async () => {
  const page = await desk();
  const answer = curlJson(served, asking('echo storm'));
  const card = page.question('echo storm');
  await card.getByText('Deny with a reason').click();
  await card.getByLabel('Reason, for the agent').fill('The harbour is closed: use the "other" one.');
  await card.getByRole('button', { name: 'Deny with this reason' }).click();
  assert.match(await answer, /the-reject_once/);
  assert.deepEqual(served.journal('remark').at(-1).params.dragoman, { reason: 'The harbour is closed: use the "other" one.' });
  await page.outcome('echo storm', /Denied by desk/);
});

test('two people at once: the first decision counts, and the second person sees who made it', async () => {
  const [first, second] = [await desk('first'), await desk('second')];
  const answer = curlJson(served, asking('echo race'));
  await second.question('echo race').waitFor();
  // The second one is slow: its request is held until the first one has decided.
  let go;
  const decided = new Promise((resolve) => {
    go = resolve;
  });
  await second.page.route('**/decision', async (route) => {
    await decided;
    await route.continue();
  });
  const told = second.page.waitForResponse('**/decision');
  await second.question('echo race').getByRole('button', { name: 'Deny', exact: true }).click();
  await first.allow('echo race');
  assert.match(await answer, /the-allow_once/);
  go();
  assert.equal((await told).status(), 409);
  await second.outcome('echo race', /Allowed once by first/);
  assert.equal(served.journal('outcome').at(-1).params.optionId, 'the-allow_once');
});

test('a decision on one page is seen on the other', async () => {
  const [first, second] = [await desk('first'), await desk('second')];
  const answer = curlJson(served, asking('echo beacon'));
  await second.question('echo beacon').waitFor();
  await first.allow('echo beacon');
  await second.outcome('echo beacon', /Allowed once by first/);
  await answer;
});

test('the demo agent of the openai client writes a file after a yes, and nothing after a no', async () => {
  const page = await desk();
  for (const [button, isThere] of [['Allow once', true], ['Deny', false]]) {
    const name = `${isThere ? 'yes' : 'no'}.txt`;
    const answer = openai(served, 'responses', `!write ${name} fog over the bay`, { model: 'demo' });
    await page.question(name).getByText('fog over the bay').first().waitFor();
    await page.question(name).getByRole('button', { name: button, exact: true }).click();
    await answer;
    let content = '';
    try {
      content = readFileSync(served.at('work', name), 'utf8');
    } catch {}
    assert.equal(content.includes('fog over the bay'), isThere, name);
  }
});

test('a question that the agent withdraws is shown as ended, and cannot be decided', async () => {
  const page = await desk();
  const answer = curlJson(served, steps(['until', 'withdrawn', run('echo never')], ['say', 'Gone on.']));
  await page.question('echo never').waitFor();
  served.open('withdrawn');
  assert.match(await answer, /Gone on\./);
  await page.outcome('echo never', 'Ended without a decision');
  await until('no button', async () => (await page.question('echo never').getByRole('button', { name: 'Allow once' }).count()) === 0);
});

test('a device that may only watch sees questions, and cannot decide', async () => {
  const page = await desk();
  const watcher = await watching(page);
  const answer = curlJson(served, asking('echo fog'));
  await watcher.question('echo fog').waitFor();
  assert.equal(await watcher.question('echo fog').getByRole('button', { name: 'Allow once' }).count(), 0);
  const [{ id }] = await watcher.questions();
  assert.equal((await watcher.call('POST', `questions/${id}/decision`, { decision: 'allow', level: 'once' })).status, 403);
  await page.allow('echo fog');
  assert.match(await answer, /the-allow_once/);
});

test('a device that may only watch makes no one reachable', async () => {
  const page = await desk();
  const watcher = await watching(page);
  await page.page.close();
  await until('a refusal', async () => /the-reject_once/.test(await curlJson(served, asking('echo only-watched'))));
  await watcher.connected();
});

/** Pairs another device with a code that the page makes, as a person does. */
async function watching(page) {
  await page.go('Devices');
  await page.page.getByLabel('The device may').selectOption({ label: 'only watch' });
  await page.page.getByRole('button', { name: 'Show a code' }).click();
  const code = await page.shownCode();
  await page.go('Inbox');
  const watcher = await (await browser.person()).open(served.url);
  await watcher.pair(code, 'tower');
  return watcher;
}
