/**
 * What the server has said, and who wants to know of changes.
 *
 * @import {ElsewhereQuestion, Outcome, Question, Session} from './types.js'
 */

/**
 * @typedef {object} Changes
 * @property {null} hello
 * @property {Question} question
 * @property {{id: string, outcome: Outcome | null}} closed
 * @property {null} elsewhere
 * @property {{id: string, sequence: number}} conversation
 * @property {null} sessions
 */

export const store = {
  /** @type {Session | null} */
  session: null,
  address: '',
  /** @type {string[]} */
  models: [],
  /** @type {string[]} */
  keys: [],
  /** Questions that wait, in the order in which they were asked. @type {Map<string, Question>} */
  questions: new Map(),
  /** @type {ElsewhereQuestion[]} */
  elsewhere: [],
};

export const mayDecide = () => store.session?.role === 'decide';

/** Forgets everything that the session saw. */
export function forget() {
  Object.assign(store, { session: null, address: '', models: [], keys: [], questions: new Map(), elsewhere: [] });
}

/** @type {Map<string, Set<(detail: any) => void>>} */
const listeners = new Map();

/**
 * Returns a function that ends the subscription.
 *
 * @template {keyof Changes} Name
 * @param {Name} name
 * @param {(detail: Changes[Name]) => void} listener
 */
export function subscribe(name, listener) {
  const found = listeners.get(name) ?? new Set();
  listeners.set(name, found.add(listener));
  return () => void found.delete(listener);
}

/**
 * @template {keyof Changes} Name
 * @param {Name} name
 * @param {Changes[Name]} detail
 */
export function changed(name, detail) {
  for (const listener of listeners.get(name) ?? []) listener(detail);
}
