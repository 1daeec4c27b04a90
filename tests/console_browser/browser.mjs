// A real browser, and the console as a person uses it: by roles and names, as a screen reader tells them.
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { axeFile, launchOptions, playwright } from '../browser/driver.mjs';
import { DEADLINE, until } from './children.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESKTOP = { viewport: { width: 1280, height: 800 } };
// Names that lead to this machine, for the browser only: of the proxy, and of an attacker.
const NAMES = ['dragoman.test', 'evil.test'];

const TOKEN = 'dragoman-console-token';
// As people read it.
export const CODE = /\b[0-9A-Z]{4}-?[0-9A-Z]{4}\b/;

export class Browser {
  static async start() {
    const browser = new Browser();
    const rules = NAMES.map((name) => `MAP ${name} 127.0.0.1`).join(', ');
    browser.chromium = await playwright.chromium.launch(launchOptions(`--host-resolver-rules=${rules}`, '--ignore-certificate-errors'));
    return browser;
  }

  pages = [];

  /** Another person: with storage and cookies of their own. */
  async person({ phone = false, dark = false } = {}) {
    const context = await this.chromium.newContext({
      ...(phone ? PHONE : DESKTOP),
      colorScheme: dark ? 'dark' : 'light',
      ignoreHTTPSErrors: true,
    });
    context.setDefaultTimeout(DEADLINE);
    return new Person(this, context);
  }

  /** A picture of every page that is open, for those who read why a test failed. */
  async pictures(name) {
    const folder = process.env.DRAGOMAN_IMAGES;
    mkdirSync(folder, { recursive: true });
    for (const [index, { page }] of this.pages.entries()) {
      await page.screenshot({ path: path.join(folder, `${name.replace(/\W+/g, '-')}-${index}.png`), fullPage: true }).catch(() => {});
    }
  }

  async closePages() {
    for (const context of this.chromium.contexts()) {
      await context.close();
    }
    this.pages = [];
  }

  close() {
    return this.chromium.close();
  }
}

export class Person {
  constructor(browser, context) {
    this.browser = browser;
    this.context = context;
  }

  /** Opens the console of a server, and pairs with a code from its terminal. */
  async paired(served, name = 'phone') {
    const page = await this.open(served.url);
    await page.pair(await served.code(), name);
    page.served = served;
    return page;
  }

  async open(url) {
    const page = await this.context.newPage();
    const opened = new ConsolePage(page);
    this.browser.pages.push(opened);
    await page.goto(url);
    return opened;
  }
}

export class ConsolePage {
  /** What went wrong in the page: errors, and what its Content-Security-Policy refused. */
  problems = [];

  constructor(page) {
    this.page = page;
    page.on('pageerror', (error) => this.problems.push(`error: ${error.message}`));
    page.on('console', (message) => message.type() === 'error' && this.problems.push(`console: ${message.text()}`));
  }

  async pair(code, name) {
    await this.page.getByLabel('Code').fill(code);
    await this.page.getByLabel('Name of this device').fill(name);
    await this.page.getByRole('button', { name: 'Pair', exact: true }).click();
    await this.connected();
  }

  async connected() {
    await this.page.getByText('Connected', { exact: true }).waitFor();
  }

  /** The card of a question whose title or text has these words. */
  question(words) {
    return this.page.getByRole('article').filter({ hasText: words });
  }

  /** The same, if it still waits for a decision. */
  waiting(words) {
    return this.question(words).filter({ has: this.page.getByRole('button', { name: 'Allow once' }) });
  }

  /** Waits until the page says how this question ended: on its card, and later in the list of those decided. */
  async outcome(words, said) {
    await this.page.locator('main article, main li').filter({ hasText: words }).filter({ hasText: said }).first().waitFor();
  }

  async allow(words) {
    await this.waiting(words).getByRole('button', { name: 'Allow once' }).click();
  }

  async go(view) {
    await this.page.getByRole('link', { name: view }).first().click();
  }

  /** The code that the page shows for another device. */
  async shownCode() {
    const main = this.page.getByRole('main');
    return until('a code', async () => CODE.exec(await main.innerText())?.[0]);
  }

  /** The two halves of the session: `cookie` as it is sent, and the token. */
  async session() {
    const cookies = await this.page.context().cookies(this.page.url());
    const token = await this.page.evaluate((name) => localStorage.getItem(name), TOKEN);
    return { cookies, cookie: cookies.map(({ name, value }) => `${name}=${value}`).join('; '), token };
  }

  /** A call of the API with the page's session. */
  call(method, path, body) {
    return this.page.evaluate(
      async ([verb, where, sent, name]) => {
        const headers = { 'x-dragoman-console': localStorage.getItem(name), 'content-type': 'application/json' };
        const answer = await fetch(`/console/api/${where}`, { method: verb, headers, body: sent && JSON.stringify(sent) });
        const text = await answer.text();
        return { status: answer.status, body: text && JSON.parse(text) };
      },
      [method, path, body, TOKEN],
    );
  }

  /** The questions that wait, as the server tells them. */
  questions() {
    return this.page.evaluate(async (name) => {
      const stop = new AbortController();
      const answer = await fetch('/console/api/events', { headers: { 'x-dragoman-console': localStorage.getItem(name) }, signal: stop.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      while (!/event: hello[^]*\n\n/.test(text)) {
        text += (await reader.read()).value;
      }
      stop.abort();
      return JSON.parse(/^data: (.*)$/m.exec(text.slice(text.indexOf('event: hello')))[1]).snapshot.questions;
    }, TOKEN);
  }

  /** What axe-core finds wrong. It is evaluated by the driver, so the page's policy does not stop it. */
  async violations() {
    // What is still fading in has no contrast yet.
    await this.page.evaluate(() => Promise.all(document.getAnimations().map((each) => each.finished)));
    await this.page.evaluate(`${readFileSync(axeFile(), 'utf8')}; undefined`);
    const { violations } = await this.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`);
  }

  /** By how many pixels the page is wider than the window. */
  overflow() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }
}
