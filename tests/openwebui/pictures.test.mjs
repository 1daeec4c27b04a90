// The picture of the documents: `make pictures-openwebui` takes it anew. In every other run it goes to the cache, so that it
// is known that it can be taken.
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { browser, opened, served } from './suite.mjs';

const LARGEST = 150_000;

test('a picture of a chat with an agent that thinks, and asks before it acts', async () => {
  const desk = await (await browser.person()).paired(served, 'Desk');
  const chat = await opened('demo');
  await chat.ask('Think about it.');
  await chat.send('Run `echo hello`.');
  await desk.allow('echo hello');
  await chat.answer();
  const before = chat.page.viewportSize();
  await chat.page.setViewportSize({ width: 960, height: 680 });
  const file = path.join(process.env.DRAGOMAN_IMAGES, 'openwebui.png');
  await chat.page.screenshot({ path: file, animations: 'disabled' });
  await chat.page.setViewportSize(before);
  await desk.page.close();
  const { size } = statSync(file);
  assert.ok(size > 10_000 && size < LARGEST, `${size} bytes`);
});
