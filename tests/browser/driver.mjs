// The browser's driver, from the cache outside the clone, and how every suite starts the browser.
import { createRequire } from 'node:module';
import path from 'node:path';

const installed = createRequire(path.join(process.env.DRAGOMAN_BROWSER_CACHE, 'driver/'));

export const playwright = installed('playwright-core');

/** The source of axe-core, for `page.evaluate`. */
export const axeFile = () => installed.resolve('axe-core/axe.min.js');

/** Nothing leaves the machine: no updates, no synchronisation. Tests may run as root, where the sandbox refuses. */
export function launchOptions(...more) {
  return {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
      ...['--disable-component-update', '--disable-sync', ...more],
    ],
  };
}
