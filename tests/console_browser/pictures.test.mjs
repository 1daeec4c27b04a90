// The pictures of the documents: `make pictures-console` takes them anew. In every other run they go to the cache, so that
// it is known that they can be taken.
import assert from 'node:assert/strict';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { curlChat, steps } from './clients.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;

withConsole({ proxy: 'keep', options: { name: 'Claude' }, model: 'name = "Claude"' }, (...started) => {
  [browser, served] = started;
});

const KINDS = ['allow_once', 'reject_once'];
const OLD = 'def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n    return result\n';
const NEW = 'def total(prices, tax=0.0):\n    """The sum of all prices, with tax."""\n    return sum(prices) * (1 + tax)\n';

const TESTS = { title: 'Run the tests', kind: 'execute', rawInput: { command: 'python -m pytest tests/test_shop.py -q' } };

/** A change to a file, which the agent asks about. */
function edit() {
  const file = path.join(served.at('work'), 'shop.py');
  const content = [{ type: 'diff', path: file, oldText: OLD, newText: NEW }];
  return ['ask', { toolCallId: 'edit', title: 'Edit shop.py', kind: 'edit', locations: [{ path: file }], content }, KINDS];
}

const tests = (id) => ['ask', { toolCallId: id, ...TESTS }, KINDS];

/** The picture of a page, in the folder of pictures. */
async function taken(page, name) {
  await page.page.evaluate(() => Promise.all(document.getAnimations().map((each) => each.finished)));
  const folder = process.env.DRAGOMAN_IMAGES;
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, name);
  await page.page.screenshot({ path: file });
  assert.ok(statSync(file).size > 10_000, `${name} is empty`);
}

/** Until a person can press the buttons: they do nothing in the first moment. */
const ready = (card) => card.locator('button:not([aria-disabled])', { hasText: 'Allow once' }).waitFor();

test('pictures of the inbox, on a phone and on a desk', async () => {
  writeFileSync(path.join(served.at('work'), 'shop.py'), OLD);
  const phone = await (await browser.person({ phone: true })).paired(served, 'Phone');
  const first = curlChat(served, steps(tests('first'), ['say', ' All tests pass.']));
  await ready(phone.waiting('pytest'));
  await taken(phone, 'console-phone.png');
  await phone.allow('pytest');
  assert.match(await first, /All tests pass/);
  const desk = await (await browser.person()).paired(served, 'Desk');
  const second = curlChat(served, steps(['all', [edit(), tests('second')]], ['say', ' All tests pass.']));
  await ready(desk.waiting('change files'));
  await ready(desk.waiting('pytest'));
  await taken(desk, 'console-inbox.png');
  await desk.allow('change files');
  await desk.allow('pytest');
  assert.match(await second, /All tests pass/);
});
