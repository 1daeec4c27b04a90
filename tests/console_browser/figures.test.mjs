// What the console costs, in numbers that are printed. Only the size has a limit: a busy machine does not change it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { asking, curlJson, curlResponse, curlStream, steps } from './clients.mjs';
import { until } from './children.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({}, (...started) => {
  [browser, served] = started;
});

const MOST_BYTES = 100_000;
const DECISIONS = 5;
const ROUNDS = 3;
// Enough for a clock that ticks a hundred times a second.
const PARTS = 12_000;
// Of /proc, on Linux.
const TICKS_PER_SECOND = 100;

const median = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];

test('the first view is small', async (context) => {
  const person = await browser.person({ phone: true });
  const page = await person.context.newPage();
  const network = await person.context.newCDPSession(page);
  await network.send('Network.enable');
  let bytes = 0;
  let files = 0;
  network.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
    files += 1;
  });
  await page.goto(served.url);
  await page.getByLabel('Code').waitFor();
  await page.waitForLoadState('networkidle');
  context.diagnostic(`first view: ${bytes} bytes in ${files} files, headers included`);
  assert.ok(bytes > 1_000 && bytes < MOST_BYTES, `${bytes} bytes`);
});

test('a decision is with the agent at once', async (context) => {
  const page = await (await browser.person()).paired(served, 'desk');
  const [clicked, posted] = [[], []];
  const outcomes = () => served.journal('outcome').length;
  const decided = async (took, decide) => {
    const before = outcomes();
    const answer = curlJson(served, asking(`echo decision-${before}`));
    await page.waiting(`echo decision-${before}`).waitFor();
    // The buttons of a new card wait for a moment; a person does not feel it, the figure would.
    await page.waiting(`echo decision-${before}`).getByRole('button', { name: 'Allow once', disabled: false }).waitFor();
    const began = await decide(`echo decision-${before}`);
    await until('the agent', () => outcomes() > before);
    took.push(served.journal('outcome').at(-1).at * 1_000 - began);
    await answer;
  };
  for (let round = 0; round < DECISIONS; round += 1) {
    await decided(clicked, async (command) => {
      const began = Date.now();
      await page.allow(command);
      return began;
    });
    await decided(posted, async () => {
      const [{ id }] = await page.questions();
      const began = Date.now();
      await page.call('POST', `questions/${id}/decision`, { decision: 'allow', level: 'once' });
      return began;
    });
  }
  context.diagnostic(`from the click to the agent: median ${median(clicked).toFixed(0)} ms; from the POST: ${median(posted).toFixed(0)} ms`);
});

/** CPU time of the server's process so far, in milliseconds. */
function cpu() {
  const fields = readFileSync(`/proc/${served.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / TICKS_PER_SECOND;
}

test('an open page costs the server little while an answer streams', async (context) => {
  const spent = { none: 0, inbox: 0, conversation: 0 };
  const streamed = async (name, more) => {
    const before = cpu();
    const told = await curlStream(served, steps(['flood', PARTS]), more);
    spent[name] += cpu() - before;
    assert.ok(told.endsWith(`${PARTS - 1} `));
  };
  await curlStream(served, steps(['flood', PARTS]));
  for (let round = 0; round < ROUNDS; round += 1) {
    await streamed('none');
    const page = await (await browser.person()).paired(served, 'desk');
    await streamed('inbox');
    // The page shows the conversation that goes on.
    const { id } = await curlResponse(served, steps(['say', 'First.']));
    await page.go('Conversations');
    await page.page.getByRole('main').getByRole('link').first().click();
    await page.page.getByText('First.', { exact: true }).waitFor();
    await streamed('conversation', { previous_response_id: id });
    await browser.closePages();
  }
  const perPart = (name) => `${((spent[name] / ROUNDS / PARTS) * 1_000).toFixed(0)} µs`;
  context.diagnostic(`CPU for each streamed part: ${perPart('none')} without a page, ${perPart('inbox')} with the inbox open, ${perPart('conversation')} with a conversation open`);
});
