/** Building elements. Text from outside only ever becomes a text node or an attribute's value. */

import { now } from './api.js';
import { texts } from './texts.js';

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Properties */

/**
 * An element. A property that is a function is a listener; `true` is an attribute without a value.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...present(children));
  return element;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
export function present(children) {
  /** @type {(Node | string)[]} */
  const found = [];
  for (const child of children) if (child) found.push(child);
  return found;
}

/**
 * A text from outside. It sets its own direction, and cannot reorder what stands around it.
 *
 * @param {string} text
 * @param {string} [className]
 */
export function foreign(text, className = '') {
  const element = h('bdi', { dir: 'auto', class: className || null });
  element.textContent = text;
  return element;
}

/**
 * A text from outside, in which what stands between two backquotes is code. With more backquotes it is shown as it is.
 *
 * @param {string} text
 */
export function withCode(text) {
  const parts = text.split('`');
  if (parts.length !== 3) return foreign(text);
  const [before = '', code = '', after = ''] = parts;
  return h('bdi', { dir: 'auto' }, before, h('code', {}, foreign(code)), after);
}

/**
 * @param {string} label
 * @param {string} className
 * @param {(event: MouseEvent) => void} click
 */
export function button(label, className, click) {
  return h('button', { type: 'button', class: className, click }, label);
}

/**
 * A moment, in words; the exact time is its title. `refreshTimes` brings the words up to date.
 *
 * @param {number} at
 */
export function ago(at) {
  const date = new Date(at * 1000);
  return h(
    'time',
    { datetime: date.toISOString(), title: date.toLocaleString(), 'data-at': at },
    texts.ago(now() - at),
  );
}

export function refreshTimes() {
  for (const element of document.querySelectorAll('time[data-at]')) {
    const words = texts.ago(now() - Number(element.getAttribute('data-at')));
    if (element.textContent !== words) element.textContent = words;
  }
}

/**
 * Says something to people who do not see the page.
 *
 * @param {string} text
 */
export function announce(text) {
  const region = byId('announcer');
  const line = h('p', {}, text);
  region.append(line);
  // Long enough for every screen reader to notice it.
  setTimeout(() => line.remove(), 8000);
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element;
}

/**
 * Gives an element the focus that is not usually in the order of the tab key: a heading, an outcome.
 *
 * @param {HTMLElement} element
 */
export function focusOn(element) {
  element.setAttribute('tabindex', '-1');
  element.focus();
}

/**
 * Whether a button may act. A button that cannot act keeps the focus, so it is marked, not disabled.
 *
 * @param {HTMLElement} element
 * @param {boolean} isEnabled
 */
export function enable(element, isEnabled) {
  if (isEnabled) element.removeAttribute('aria-disabled');
  else element.setAttribute('aria-disabled', 'true');
}

/** @param {Element} element */
export const isEnabled = (element) => element.getAttribute('aria-disabled') !== 'true';

/**
 * A message below a form or a button: an error that a screen reader says at once.
 *
 * @returns {HTMLParagraphElement}
 */
export const problem = () => h('p', { class: 'problem', role: 'alert' });
