/**
 * The text of a question: what the agent wants to do, to the letter.
 *
 * @import {Section} from './types.js'
 */

import { foreign, h } from './dom.js';
import { texts } from './texts.js';

/**
 * A list of labels and short texts.
 *
 * @param {{label: string, value: Node | string, note?: string}[]} rows
 */
export function facts(rows) {
  return h(
    'dl',
    { class: 'facts' },
    ...rows.map(({ label, value, note }) =>
      h(
        'div',
        {},
        h('dt', {}, label),
        h('dd', {}, typeof value === 'string' ? foreign(value) : value, note ? h('span', { class: 'note' }, ` ${note}`) : null),
      ),
    ),
  );
}

/** @param {Section[]} sections @returns {HTMLElement[]} */
export function sectionElements(sections) {
  /** @type {HTMLElement[]} */
  const elements = [];
  /** @type {Section[]} */
  let run = [];
  const endRun = () => {
    if (run.length) elements.push(facts(run.map(({ label, text, note }) => ({ label, value: text, note }))));
    run = [];
  };
  /** @type {Section | undefined} */
  let before;
  for (const section of sections) {
    if (section.inline) run.push(section);
    else {
      endRun();
      elements.push(block(section, section.label || before?.label || texts.question.text));
    }
    before = section;
  }
  endRun();
  return elements;
}

/** @param {Section} section @param {string} name */
function block(section, name) {
  const { label, text, language, note } = section;
  return h(
    'div',
    { class: 'section' },
    label ? h('h3', {}, label) : null,
    note ? h('p', { class: 'note' }, note) : null,
    ...(text ? scrollable(text, name, language) : []),
  );
}

/**
 * A text in a box that scrolls when it is long, and the line that says so.
 *
 * @param {string} text
 * @param {string} name
 * @param {string} language
 */
export function scrollable(text, name, language) {
  const lines = text.split('\n').length;
  const box = h('pre', { dir: language === 'text' ? 'auto' : 'ltr', class: language === 'diff' ? 'diff' : null });
  if (language === 'diff') box.append(...diffRuns(text));
  else box.textContent = text;
  box.dataset['label'] = texts.question.region(name, lines);
  const hint = h('p', { class: 'hint', hidden: true }, texts.question.scroll(lines));
  overflow.observe(box);
  return [box, hint];
}

// A box that scrolls must be reachable with the keyboard; one that does not would only be in the way.
const overflow = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (!(target instanceof HTMLElement)) continue;
    const isLong = target.scrollHeight > target.clientHeight + 1;
    const hint = target.nextElementSibling;
    if (hint instanceof HTMLElement) hint.hidden = !isLong;
    if (isLong) {
      target.tabIndex = 0;
      target.setAttribute('role', 'group');
      target.setAttribute('aria-label', target.dataset['label'] ?? '');
    } else for (const name of ['tabindex', 'role', 'aria-label']) target.removeAttribute(name);
  }
});

/**
 * Lines of the same kind that follow each other are one element, so that a long change has few.
 *
 * @param {string} text
 */
function* diffRuns(text) {
  let kind = '';
  let run = '';
  for (const line of text.split('\n')) {
    const next = line.startsWith('+') ? 'add' : line.startsWith('-') ? 'del' : line.startsWith('@@') ? 'hunk' : 'same';
    if (next !== kind && run) {
      yield diffRun(kind, run);
      run = '';
    }
    kind = next;
    run += `${line}\n`;
  }
  yield diffRun(kind, run);
}

/** @param {string} kind @param {string} run */
function diffRun(kind, run) {
  const element = h('span', { class: kind });
  element.textContent = run;
  return element;
}
