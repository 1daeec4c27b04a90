// One server, one Open WebUI and one browser, for the tests of all files. Open WebUI is on the server's machine; people use the
// console through TLS. What failed leaves pictures, and both logs.
import { afterEach } from 'node:test';
import { forAllTests } from '../browser/lifetime.mjs';
import { Browser } from '../console_browser/browser.mjs';
import { output } from '../console_browser/children.mjs';
import { Served } from '../console_browser/served.mjs';
import { ChatPage } from './chat.mjs';
import { WebUi } from './webui.mjs';

export let browser;
export let served;
export let webui;
let page;

const start = async () => {
  [browser, served] = await Promise.all([Browser.start(), Served.start({ proxy: 'keep', options: { lists: 'all' } })]);
  webui = await WebUi.start(served);
};

const stop = async () => {
  await browser?.close();
  await webui?.stop();
  await served?.stop();
};

forAllTests(start, stop);

afterEach(async (context) => {
  if (!context.passed) {
    await browser?.pictures(`openwebui-${context.name}`);
    console.log(`pictures: ${process.env.DRAGOMAN_IMAGES}\nthe server's terminal:\n${served?.screen.slice(-4_000)}`);
    console.log(`Open WebUI:\n${webui?.log.slice(-4_000)}\n${browser?.pages.flatMap((page) => page.problems).join('\n')}`);
  }
  // A page of Open WebUI takes seconds to load. One that a test has failed with is left to no other test.
  if (!context.passed) {
    page = undefined;
    await browser?.closePages();
  }
});

/** The two kinds of connection, and what the names of their models begin with. */
export const CONNECTIONS = [
  { name: 'chat completions', prefix: '' },
  { name: 'responses', prefix: 'responses.' },
];

/** A new chat with a model. */
export async function opened(model) {
  page ??= await ChatPage.open(browser, webui, `${served.url}/v1/files/`);
  return page.start(model);
}

/** The conversations in the state folder, as `dragoman conversations` lists them. */
export async function conversations() {
  const args = ['conversations', 'list', '--json', '--state-dir', served.at('state')];
  const lines = await output(process.env.DRAGOMAN, args, { env: { PATH: process.env.PATH, HOME: served.at('home') } });
  return lines.split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

/** The prompts that the fake agent was sent, each with its session and its last text. */
const prompts = () =>
  served.journal('session/prompt').map(({ params }) => ({ session: params.sessionId, text: params.prompt.at(-1).text }));

/** The prompts of a chat that have these words. Side requests quote them, and are not among these. */
export const prompted = (words) => prompts().filter(({ text }) => text.startsWith('[') && text.includes(words));

/** The side requests that quote these words. */
export const asides = (words) => prompts().filter(({ text }) => !text.startsWith('[') && text.includes(words));
