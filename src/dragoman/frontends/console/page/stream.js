/**
 * The event stream: one connection that is opened again when it breaks.
 *
 * `EventSource` cannot send a header, so this reads the stream with `fetch`.
 */

import { openEvents } from './api.js';

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 10_000;
// The server sends a beat every ten seconds. A stream without a byte for so long is broken.
const SILENCE_MS = 25_000;
// A page that was frozen in the background: its stream may be dead although no error has come yet.
const DOUBTFUL_MS = 12_000;

/** @typedef {{id: string | null, event: string, data: string}} ServerEvent */

/** Takes the text of an event stream in pieces, and gives its events. */
export class EventParser {
  #rest = '';
  /** @type {string[]} */
  #data = [];
  #event = '';
  /** @type {string | null} */
  #id = null;

  /** @param {string} piece @returns {ServerEvent[]} */
  push(piece) {
    const text = this.#rest + piece;
    // A carriage return at the end may be half of a line's end.
    const usable = text.endsWith('\r') ? text.slice(0, -1) : text;
    const lines = usable.split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '') + text.slice(usable.length);
    /** @type {ServerEvent[]} */
    const events = [];
    for (const line of lines) {
      if (line !== '') this.#take(line);
      else {
        if (this.#data.length) {
          events.push({ id: this.#id, event: this.#event || 'message', data: this.#data.join('\n') });
        }
        this.#data = [];
        this.#event = '';
      }
    }
    return events;
  }

  /** @param {string} line */
  #take(line) {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#event = value;
    else if (name === 'id') this.#id = value;
  }
}

export class EventStream {
  /** @type {string | null} */
  #lastId = null;
  #delay = FIRST_DELAY_MS;
  #isWanted = false;
  #heardAt = 0;
  /** @type {AbortController | null} */
  #connection = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {object} listeners
   * @param {(name: string, data: any) => void} listeners.event
   * @param {(isConnected: boolean, isCrowded?: boolean) => void} listeners.state
   * @param {() => void} listeners.refused   The server does not know this session.
   */
  constructor(listeners) {
    this.listeners = listeners;
    const nudge = () => this.#nudge();
    addEventListener('online', nudge);
    addEventListener('pageshow', nudge);
    document.addEventListener('visibilitychange', nudge);
  }

  start() {
    this.stop();
    this.#isWanted = true;
    this.#lastId = null;
    this.#delay = FIRST_DELAY_MS;
    void this.#connect();
  }

  stop() {
    this.#isWanted = false;
    clearTimeout(this.#timer);
    this.#connection?.abort();
    this.#connection = null;
  }

  /** Tries at once, if the stream is down or may be. */
  #nudge() {
    if (!this.#isWanted || document.visibilityState === 'hidden') return;
    if (this.#connection && Date.now() - this.#heardAt < DOUBTFUL_MS) return;
    this.#connection?.abort();
    this.#connection = null;
    clearTimeout(this.#timer);
    this.#delay = FIRST_DELAY_MS;
    void this.#connect();
  }

  async #connect() {
    const connection = new AbortController();
    this.#connection = connection;
    this.#heardAt = Date.now();
    const watch = setInterval(() => {
      if (Date.now() - this.#heardAt > SILENCE_MS) connection.abort();
    }, 1000);
    let isRefused = false;
    let isCrowded = false;
    try {
      const response = await openEvents(this.#lastId, connection.signal);
      isRefused = response.status === 401;
      isCrowded = response.status === 429;
      if (response.ok && response.body) await this.#read(response.body, connection);
    } catch {
      // A broken connection and an end look the same here: both are followed by another attempt.
    } finally {
      clearInterval(watch);
      connection.abort();
    }
    if (this.#connection !== connection || !this.#isWanted) return;
    this.#connection = null;
    if (isRefused) {
      this.stop();
      this.listeners.refused();
      return;
    }
    this.listeners.state(false, isCrowded);
    this.#timer = setTimeout(() => void this.#connect(), this.#delay * (0.75 + Math.random() / 2));
    this.#delay = Math.min(this.#delay * 2, LONGEST_DELAY_MS);
  }

  /**
   * @param {ReadableStream<Uint8Array>} body
   * @param {AbortController} connection
   */
  async #read(body, connection) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    this.listeners.state(true);
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#connection !== connection) return;
      this.#heardAt = Date.now();
      for (const { id, event, data } of parser.push(decoder.decode(value, { stream: true }))) {
        this.#delay = FIRST_DELAY_MS;
        if (id !== null) this.#lastId = id;
        try {
          this.listeners.event(event, JSON.parse(data));
        } catch (error) {
          // Another attempt would meet the same event again.
          console.error(event, error);
        }
        if (this.#connection !== connection) return;
      }
    }
  }
}
