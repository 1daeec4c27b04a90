// One browser and one server for the tests of a file. What failed leaves pictures, and the terminal of the server.
import { afterEach } from 'node:test';
import { forAllTests } from '../browser/lifetime.mjs';
import { Browser } from './browser.mjs';
import { Served } from './served.mjs';

/** Calls `ready` with both before the first test. */
export function withConsole(options, ready) {
  let browser;
  let served;

  const start = async () => {
    [browser, served] = await Promise.all([Browser.start(), Served.start(options)]);
    ready(browser, served);
  };

  const stop = async () => {
    await browser?.close();
    await served?.stop();
  };

  forAllTests(start, stop);

  afterEach(async (context) => {
    if (!context.passed) {
      await browser.pictures(context.name);
      console.log(`pictures: ${process.env.DRAGOMAN_IMAGES}\nthe server's terminal:\n${served.screen.slice(-4_000)}`);
      console.log(browser.pages.flatMap((page) => page.problems).join('\n'));
    }
    await browser.closePages();
  });
}
