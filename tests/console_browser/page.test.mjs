// The page itself: for people who use a keyboard or a screen reader, on small screens, in the dark, and with hostile texts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asking, curlJson, curlStream, steps } from './clients.mjs';
import { HOSTILE, hostileDiff, hostileQuestion } from './hostile.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({ proxy: 'keep' }, (...started) => {
  [browser, served] = started;
});

const VIEWS = ['Inbox', 'Conversations', 'Devices'];

/** Every view, with something in it. `look` is called on each. */
async function tour(page, look) {
  for (const view of VIEWS) {
    await page.go(view);
    await page.page.getByRole('heading', { name: view }).first().waitFor();
    await look(view);
  }
  await page.go('Conversations');
  await page.page.getByRole('main').getByRole('link').first().click();
  await page.page.getByText('All conversations').waitFor();
  await look('a conversation');
  await page.go('Inbox');
}

async function checked(dark) {
  const person = await browser.person({ phone: true, dark });
  const fresh = await person.open(served.url);
  assert.deepEqual(await fresh.violations(), [], 'pairing');
  await fresh.page.close();
  const page = await person.paired(served);
  assert.deepEqual(await page.violations(), [], 'an empty inbox');
  const answer = curlJson(served, asking('echo inspected'));
  await page.question('echo inspected').waitFor();
  await tour(page, async (view) => assert.deepEqual(await page.violations(), [], view));
  const card = page.waiting('echo inspected');
  await card.getByText('Deny with a reason').click();
  assert.deepEqual(await page.violations(), [], 'a reason');
  await card.getByText('Allow for longer').click();
  assert.deepEqual(await page.violations(), [], 'levels');
  await card.getByRole('button', { name: 'As a rule…' }).click();
  await page.page.getByRole('dialog').waitFor();
  assert.deepEqual(await page.violations(), [], 'a dialog');
  await page.page.keyboard.press('Escape');
  await page.allow('echo inspected');
  await answer;
  assert.deepEqual(page.problems, []);
}

test('axe-core finds nothing wrong in any view, in the light', async () => {
  await checked(false);
});

test('axe-core finds nothing wrong in any view, in the dark', async () => {
  await checked(true);
});

test('with the keyboard only a person pairs, reads a question and allows it', async () => {
  const { page } = await (await browser.person()).open(served.url);
  const tabTo = async (name) => {
    for (let presses = 0; presses < 40; presses += 1) {
      await page.keyboard.press('Tab');
      const focused = await page.evaluate(() => {
        const element = document.activeElement;
        return `${element.labels?.[0]?.textContent ?? ''} ${element.getAttribute('aria-label') ?? ''} ${element.textContent}`;
      });
      if (focused.includes(name)) {
        // A person must see where they are.
        assert.ok(await page.evaluate(() => document.activeElement.matches(':focus-visible')), name);
        return;
      }
    }
    assert.fail(`Tab does not reach ${name}`);
  };
  await page.getByLabel('Code').focus();
  await page.keyboard.type(await served.code());
  await tabTo('Name of this device');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('keys');
  await page.keyboard.press('Enter');
  await page.getByText('Connected', { exact: true }).waitFor();
  const answer = curlJson(served, asking('echo typed'));
  await page.getByRole('article').filter({ hasText: 'echo typed' }).waitFor();
  await tabTo('Allow once');
  // Buttons that have just appeared do not act at once.
  await page.getByRole('button', { name: 'Allow once', disabled: false }).waitFor();
  await page.keyboard.press('Enter');
  assert.match(await answer, /the-allow_once/);
});

test('no view is wider than a phone, with hostile texts in it', async () => {
  const page = await (await browser.person({ phone: true })).paired(served);
  assert.equal(await page.overflow(), 0, 'an empty inbox');
  const answer = curlStream(served, steps(['say', HOSTILE.wide], hostileQuestion(), hostileDiff(), ['say', HOSTILE.html]));
  await page.question('wide-mark').waitFor();
  await tour(page, async (view) => assert.equal(await page.overflow(), 0, view));
  await page.allow('wide-mark');
  await page.question('diff-mark').waitFor();
  assert.equal(await page.overflow(), 0, 'a diff');
  await page.question('diff-mark').getByRole('button', { name: 'Show all of it' }).click();
  await page.page.getByText('All of it is shown.').first().waitFor();
  assert.equal(await page.overflow(), 0, 'a whole diff');
  await page.allow('diff-mark');
  await answer;
});

test('hostile titles, diffs, reasons and answers run nothing and load nothing', async () => {
  const person = await browser.person();
  const elsewhere = [];
  person.context.on('request', (request) => {
    if (!request.url().startsWith(served.url) && !request.url().startsWith('data:')) {
      elsewhere.push(request.url());
    }
  });
  const page = await person.paired(served, '<img src=x onerror="canary=1">');
  page.page.on('dialog', (dialog) => {
    page.problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  const prompt = steps(['think', HOSTILE.html], ['say', HOSTILE.html], hostileQuestion(), hostileDiff(), ['say', HOSTILE.markdown]);
  const answer = curlStream(served, prompt);
  const card = page.question('wide-mark');
  await card.waitFor();
  await card.getByText('Deny with a reason').click();
  await card.getByLabel('Reason, for the agent').fill(HOSTILE.html);
  await card.getByRole('button', { name: 'Deny with this reason' }).click();
  await page.outcome('wide-mark', /Denied by/);
  await page.question('diff-mark').getByRole('button', { name: 'Show all of it' }).click();
  await page.page.getByText('All of it is shown.').first().waitFor();
  // The marks of the text's direction are shown, not obeyed.
  assert.equal(await page.page.evaluate(() => /[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)), false);
  await page.allow('diff-mark');
  await answer;
  await tour(page, async () => {});
  await page.page.getByText('Inbox').first().waitFor();
  assert.equal(await page.page.evaluate(() => globalThis.canary), undefined);
  assert.equal(await page.page.locator('main img, main script, main iframe, main a[href^="javascript:"]').count(), 0);
  assert.deepEqual(page.problems, []);
  assert.deepEqual(elsewhere, []);
});
