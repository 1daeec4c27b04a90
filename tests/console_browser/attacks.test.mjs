// Attacks from the web and from other programs, while somebody is signed in. Each must leave the question as it was.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forAllTests } from '../browser/lifetime.mjs';
import { asking, curlJson } from './clients.mjs';
import { output, until } from './children.mjs';
import { Elsewhere, fetchPage, formPage } from './elsewhere.mjs';
import { withConsole } from './suite.mjs';

let browser;
let served;
let site;
const pages = {};

withConsole({ proxy: 'keep' }, (...started) => {
  [browser, served] = started;
});

const start = async () => {
  site = await Elsewhere.start(pages);
};

forAllTests(start, () => site?.stop());

const YES = { decision: 'allow', level: 'always' };

/** Somebody is signed in, at `url`, and a question waits; after `attack` it still does, and gets a no. */
async function unharmed(command, attack, url = served.url) {
  const person = await browser.person();
  const page = await person.paired({ url, code: () => served.code() }, 'victim');
  const answer = curlJson(served, asking(command));
  await page.waiting(command).waitFor();
  const [{ id }] = await page.questions();
  await attack({ person, page, path: `/console/api/questions/${id}/decision`, id });
  await page.waiting(command).getByRole('button', { name: 'Deny', exact: true }).click();
  assert.match(await answer, /the-reject_once/);
}

/** The statuses that the server answers to requests for this path, made in this context. */
function statuses(person, path) {
  const found = [];
  person.context.on('response', (response) => response.url().endsWith(path) && found.push(response.status()));
  return found;
}

const refused = (status) => assert.ok([400, 401, 403, 404, 405, 415, 421].includes(status), `status ${status}`);

test('CSRF: a form of another site decides nothing', async () => {
  await unharmed('echo csrf-form', async ({ person, path }) => {
    const found = statuses(person, path);
    pages['/form'] = formPage(`${served.url}${path}`, YES);
    await person.open(`http://evil.test:${site.port}/form`);
    await until('the answer', () => found.length > 0);
    found.forEach(refused);
  });
});

test('CSRF: a script of another site decides nothing', async () => {
  await unharmed('echo csrf-fetch', async ({ person, path }) => {
    const sent = [];
    person.context.on('request', (request) => request.url().endsWith(path) && request.method() === 'POST' && sent.push(request));
    const found = statuses(person, path);
    pages['/fetch'] = fetchPage(`${served.url}${path}`, YES);
    const evil = await person.open(`http://evil.test:${site.port}/fetch`);
    await evil.page.getByText('done').waitFor();
    assert.ok(sent.length > 0);
    // Refusals, too, are for the console's own pages only: the browser passes none on.
    sent.forEach((request) => assert.ok(request.failure(), request.method()));
    found.forEach(refused);
    assert.doesNotMatch(await evil.page.locator('#out').innerText(), / 200/);
  });
});

test('CSRF: a form and a script on another port of this machine, which get the cookie sent, decide nothing', async () => {
  await unharmed(
    'echo csrf-port',
    async ({ person, path }) => {
      const sent = [];
      person.context.on('request', (request) => request.url().endsWith(path) && request.method() === 'POST' && sent.push(request));
      const found = statuses(person, path);
      pages['/form'] = formPage(`${served.local}${path}`, YES);
      await person.open(`http://127.0.0.1:${site.port}/form`);
      await until('the answer', () => found.length > 0);
      pages['/fetch'] = fetchPage(`${served.local}${path}`, YES);
      const evil = await person.open(`http://127.0.0.1:${site.port}/fetch`);
      await evil.page.getByText('done').waitFor();
      found.forEach(refused);
      // The attack is a real one: SameSite does not hold it back.
      const headers = await Promise.all(sent.map((request) => request.allHeaders()));
      assert.ok(headers.some(({ cookie }) => cookie), 'the cookie was not sent');
    },
    served.local,
  );
});

test('clickjacking: no other page can frame the console', async () => {
  await unharmed('echo framed', async ({ person }) => {
    pages['/frame'] = `<iframe src="${served.url}/" width="800" height="600"></iframe>`;
    const evil = await person.open(`http://evil.test:${site.port}/frame`);
    const frame = await until('the frame', () => evil.page.frames()[1]);
    await frame.waitForLoadState();
    assert.match(frame.url(), /^chrome-error:/);
  });
});

test('clickjacking: another port of this machine cannot frame it either', async () => {
  await unharmed(
    'echo framed-local',
    async ({ person }) => {
      pages['/frame'] = `<iframe src="${served.local}/" width="800" height="600"></iframe>`;
      const evil = await person.open(`http://127.0.0.1:${site.port}/frame`);
      const frame = await until('the frame', () => evil.page.frames()[1]);
      await frame.waitForLoadState();
      assert.match(frame.url(), /^chrome-error:/);
    },
    served.local,
  );
});

test('a page that opened the console in a window cannot reach into it', async () => {
  await unharmed('echo opened', async ({ person }) => {
    pages['/open'] = `<script>globalThis.victim = open(${JSON.stringify(`${served.url}/`)})</script>`;
    const evil = await person.open(`http://evil.test:${site.port}/`);
    const [popup] = await Promise.all([evil.page.waitForEvent('popup'), evil.page.goto(`http://evil.test:${site.port}/open`)]);
    await popup.getByText('Connected', { exact: true }).waitFor();
    assert.equal(await popup.evaluate(() => globalThis.opener), null);
  });
});

test('DNS rebinding: under another host name there is no page, no API and no pairing', async () => {
  await unharmed('echo rebound', async ({ person, path }) => {
    const evil = await person.context.newPage();
    const url = `http://evil.test:${served.port}`;
    const opened = await evil.goto(`${url}/`);
    refused(opened.status());
    const code = await served.code();
    const found = await evil.evaluate(
      async ([where, given]) => {
        const headers = { 'content-type': 'application/json', 'x-dragoman-console': '1' };
        const post = async (to, body) => (await fetch(to, { method: 'POST', headers, body: JSON.stringify(body) })).status;
        const get = async (to) => (await fetch(to, { headers })).status;
        return [
          await post('/console/api/pair', { code: given, name: 'evil' }),
          await post(where, { decision: 'allow', level: 'once' }),
          await get('/console/api/events'),
          await get('/'),
        ];
      },
      [path, code],
    );
    found.forEach(refused);
    // The code is as good as before: the attack has not used it up.
    const friend = await (await browser.person()).open(served.url);
    await friend.pair(code, 'friend');
  });
});

test('a pairing code works once', async () => {
  const code = await served.code();
  const first = await (await browser.person()).open(served.url);
  await first.pair(code, 'first');
  const second = await (await browser.person()).open(served.url);
  const told = second.page.waitForResponse('**/pair');
  await second.page.getByLabel('Code').fill(code);
  await second.page.getByLabel('Name of this device').fill('second');
  await second.page.getByRole('button', { name: 'Pair', exact: true }).click();
  assert.equal((await told).status(), 403);
  await second.page.getByRole('alert').filter({ hasText: /code/ }).waitFor();
});

test('a decision that is sent again is refused with the first one, and the agent gets one answer', async () => {
  const page = await (await browser.person()).paired(served, 'first');
  const before = served.journal('outcome').length;
  const answer = curlJson(served, asking('echo replayed'));
  const sent = page.page.waitForRequest('**/decision');
  await page.allow('echo replayed');
  const request = await sent;
  await answer;
  const headers = Object.entries(await request.allHeaders()).filter(([name]) => !name.startsWith(':') && name !== 'content-length');
  for (const body of [request.postData(), JSON.stringify({ decision: 'deny' })]) {
    const again = await output('curl', [
      ...['-sSk', '--resolve', `dragoman.test:${served.proxy.port}:127.0.0.1`, '-o', '/dev/null', '-w', '%{http_code}', request.url()],
      ...headers.flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
      ...['--data-binary', body],
    ]);
    assert.equal(again, '409');
  }
  assert.deepEqual(served.journal('outcome').slice(before).map((note) => note.params.optionId), ['the-allow_once']);
});

test('session fixation: a cookie that was there before pairing is not adopted', async () => {
  const known = await (await (await browser.person()).paired(served, 'known')).session();
  const [{ name }] = known.cookies;
  const planted = 'A'.repeat(known.cookies[0].value.length);
  const person = await browser.person();
  await person.context.addCookies([{ name, value: planted, url: served.url, secure: true }]);
  const page = await person.paired(served, 'victim');
  const { cookies, token } = await page.session();
  assert.equal(cookies.length, 1);
  assert.notEqual(cookies[0].value, planted);
  assert.equal(await called(`${name}=${planted}`, token), '401');
  assert.equal(await called(`${name}=${cookies[0].value}`, token), '200');
});

/** The status of a call with these halves, from a program. */
function called(cookie, token, origin = served.url) {
  return output('curl', [
    ...['-sSk', '--resolve', `dragoman.test:${served.proxy.port}:127.0.0.1`, '-o', '/dev/null', '-w', '%{http_code}'],
    ...['-H', `cookie: ${cookie}`, '-H', `x-dragoman-console: ${token}`, '-H', `origin: ${origin}`, `${served.url}/console/api/sessions`],
  ]);
}

test('the cookie cannot be read by scripts, and goes to no other site and no plain connection', async () => {
  const page = await (await browser.person()).paired(served, 'phone');
  const { cookies } = await page.session();
  assert.deepEqual(
    cookies.map(({ httpOnly, secure, sameSite, domain }) => ({ httpOnly, secure, sameSite, domain })),
    [{ httpOnly: true, secure: true, sameSite: 'Strict', domain: 'dragoman.test' }],
  );
  assert.equal(await page.page.evaluate(() => document.cookie), '');
});

test('a program on another port is sent the cookie, and can do nothing with it', async () => {
  await unharmed(
    'echo other-port',
    async ({ person, path }) => {
      await person.open(`http://127.0.0.1:${site.port}/steal`);
      const { cookie } = site.requests.findLast((request) => request.path === '/steal');
      assert.notEqual(cookie, '', 'the cookie was not sent: the test shows nothing');
      const stolen = cookie.slice(cookie.indexOf('=') + 1);
      for (const token of ['', '1', stolen]) {
        const status = await output('curl', [
          ...['-sS', '-o', '/dev/null', '-w', '%{http_code}', `${served.local}${path}`, '-H', `origin: ${served.local}`],
          ...['-H', `cookie: ${cookie}`, '-H', `x-dragoman-console: ${token}`, '-H', 'content-type: application/json'],
          ...['-d', JSON.stringify(YES)],
        ]);
        refused(Number(status));
      }
    },
    served.local,
  );
});

test('a decision without Origin, or with that of another site, is refused even with both halves', async () => {
  await unharmed('echo origin', async ({ page, path }) => {
    const { cookie, token } = await page.session();
    for (const origin of [[], ['-H', 'origin: null'], ['-H', 'origin: https://evil.test'], ['-H', `origin: http://127.0.0.1:${site.port}`]]) {
      const status = await output('curl', [
        ...['-sSk', '--resolve', `dragoman.test:${served.proxy.port}:127.0.0.1`, '-o', '/dev/null', '-w', '%{http_code}', `${served.url}${path}`],
        ...['-H', `cookie: ${cookie}`, '-H', `x-dragoman-console: ${token}`, '-H', 'content-type: application/json', ...origin],
        ...['-d', JSON.stringify(YES)],
      ]);
      refused(Number(status));
    }
  });
});

test('a device that is revoked is signed out at once, and its session is worthless', async () => {
  const owner = await (await browser.person()).paired(served, 'owner');
  const lost = await (await browser.person({ phone: true })).paired(served, 'lost phone');
  const { cookie, token } = await lost.session();
  assert.equal(await called(cookie, token), '200');
  await owner.go('Devices');
  const row = owner.page.getByRole('listitem').filter({ hasText: 'lost phone' });
  await row.getByRole('button', { name: /Revoke/ }).click();
  await owner.page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  // Without a key press or a reload.
  await lost.page.getByText(/This device is no longer paired/).waitFor();
  assert.equal(await called(cookie, token), '401');
  assert.equal(await lost.page.evaluate(() => localStorage.length), 0);
});

test('a device that signs out leaves nothing that works', async () => {
  const page = await (await browser.person()).paired(served, 'leaving');
  const { cookie, token } = await page.session();
  await page.go('Devices');
  await page.page.getByRole('button', { name: 'Sign out' }).click();
  await page.page.getByRole('dialog').getByRole('button', { name: 'Sign out' }).click();
  await page.page.getByLabel('Code').waitFor();
  assert.equal(await called(cookie, token), '401');
});

test('the page is served with a policy that lets nothing of others in', async () => {
  const page = await browser.person();
  const opened = await (await page.context.newPage()).goto(served.url);
  const headers = opened.headers();
  const policy = headers['content-security-policy'];
  for (const part of ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"]) {
    assert.ok(policy.includes(part), `${part} in ${policy}`);
  }
  assert.doesNotMatch(policy, /unsafe-|\*|https?:/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['referrer-policy'], 'no-referrer');
  assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
  assert.equal(headers['access-control-allow-origin'], undefined);
});
