/**
 * Calls of the console's API.
 *
 * The session has two halves. The browser sends the cookie by itself; the token is in this origin's storage and goes
 * with every call as a header.
 */

import { texts } from './texts.js';

const TOKEN = 'dragoman-console-token';
const HEADER = 'x-dragoman-console';
const ROOT = '/console/api/';
// A decision waits until the owner of the turn has it: usually some milliseconds.
const TIMEOUT_MS = 30_000;

/** An error that the server answered with. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {any} body
   */
  constructor(status, body) {
    const error = body?.error;
    super(typeof error?.message === 'string' ? error.message : texts.strange);
    this.status = status;
    this.code = typeof error?.code === 'string' ? error.code : '';
    this.body = body;
  }
}

/** No answer came. What the call did is not known. */
export class Unreachable extends Error {
  constructor() {
    super(texts.unreachable);
  }
}

/** How far the server's clock is ahead of this one, in seconds. */
let ahead = 0;

/** The server's time, in seconds since 1970. */
export const now = () => Date.now() / 1000 + ahead;

/** @param {Response} response */
export function readClock(response) {
  const date = Date.parse(response.headers.get('date') ?? '');
  // The header has whole seconds; less than two of difference are no difference.
  if (!Number.isNaN(date)) ahead = Math.abs(date - Date.now()) < 2000 ? 0 : (date - Date.now()) / 1000;
}

/** @type {() => void} */
let signedOut = () => {};

/** @param {() => void} listener   Runs when the server no longer knows this session. */
export function onSignedOut(listener) {
  signedOut = listener;
}

/** @returns {string | null} */
export function token() {
  try {
    return localStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

/**
 * Stores the token, or removes it. Returns whether the browser did it.
 *
 * @param {string | null} value
 */
export function storeToken(value) {
  try {
    if (value === null) localStorage.removeItem(TOKEN);
    else localStorage.setItem(TOKEN, value);
    return true;
  } catch {
    return false;
  }
}

/** @param {(isPaired: boolean) => void} listener   Runs when another tab pairs or signs out. */
export function onOtherTab(listener) {
  addEventListener('storage', (event) => {
    if (event.key === TOKEN || event.key === null) listener(token() !== null);
  });
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function call(method, path, body) {
  const used = token();
  /** @type {Record<string, string>} */
  const headers = { [HEADER]: used ?? 'pair' };
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response, answer;
  try {
    response = await fetch(ROOT + path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      cache: 'no-store',
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    readClock(response);
    answer = await response.text();
  } catch {
    throw new Unreachable();
  }
  const value = parsed(answer);
  if (response.ok) return value;
  if (response.status === 401 && used !== null && used === token()) signedOut();
  throw new ApiError(response.status, value);
}

/**
 * Opens the event stream.
 *
 * @param {string | null} lastId
 * @param {AbortSignal} signal
 */
export async function openEvents(lastId, signal) {
  /** @type {Record<string, string>} */
  const headers = { [HEADER]: token() ?? '', accept: 'text/event-stream' };
  if (lastId !== null) headers['last-event-id'] = lastId;
  const response = await fetch(`${ROOT}events`, { headers, cache: 'no-store', redirect: 'error', signal });
  readClock(response);
  return response;
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}
