/** Pairing: a code from the terminal makes this browser a device of the console. */

import { ApiError, call, storeToken } from './api.js';
import { button, foreign, h, problem } from './dom.js';
import { texts } from './texts.js';

const words = texts.pair;

/** A name that a person would give this device. */
function deviceName() {
  const agent = navigator.userAgent;
  const first = (/** @type {string[]} */ ...names) => names.find((name) => agent.includes(name));
  // Others call themselves Chrome and Safari, too, so those come last.
  const browser = first('Firefox', 'Edg', 'Chrome', 'Safari')?.replace('Edg', 'Edge');
  const system = first('iPhone', 'iPad', 'Android', 'Windows', 'Macintosh', 'Linux')?.replace('Macintosh', 'Mac');
  return browser && system ? `${browser} on ${system}` : (system ?? '');
}

/**
 * @param {object} options
 * @param {string} options.code   A code from the address, or nothing.
 * @param {boolean} options.hasEnded   This device was paired before.
 * @param {() => void} options.paired
 */
export function pairView({ code, hasEnded, paired }) {
  const heading = h('h1', {}, texts.views.pair);
  const codeInput = h('input', {
    id: 'code',
    class: 'code',
    value: code,
    required: true,
    maxlength: 20,
    autocomplete: 'off',
    autocapitalize: 'characters',
    autocorrect: 'off',
    spellcheck: 'false',
    'aria-describedby': 'code-hint',
  });
  const nameInput = h('input', {
    id: 'name',
    value: deviceName(),
    required: true,
    maxlength: 60,
    autocomplete: 'off',
    dir: 'auto',
    'aria-describedby': 'name-hint',
  });
  const error = problem();
  const go = button(words.button, 'button primary', () => {});
  go.type = 'submit';
  let isBusy = false;

  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (isBusy) return;
    error.textContent = '';
    isBusy = true;
    go.textContent = words.busy;
    try {
      const { token } = await call('POST', 'pair', { code: codeInput.value.trim(), name: nameInput.value.trim() });
      if (storeToken(token)) paired();
      else error.textContent = words.storage;
    } catch (failure) {
      error.append(foreign(explained(failure)));
      codeInput.focus();
    }
    isBusy = false;
    go.textContent = words.button;
  };

  const [before = '', command = '', between = '', key = '', after = ''] = words.where;
  const element = h(
    'div',
    { class: 'view narrow' },
    heading,
    hasEnded ? h('p', { class: 'notice' }, words.ended) : null,
    window.isSecureContext ? null : h('p', { class: 'caution' }, words.insecure),
    code ? null : h('p', {}, before, h('code', {}, command), between, h('kbd', {}, key), after),
    h(
      'form',
      { class: 'card form', submit },
      h('label', { for: 'code' }, words.code),
      codeInput,
      h('p', { class: 'hint', id: 'code-hint' }, code ? words.filled : words.valid),
      h('label', { for: 'name' }, words.device),
      nameInput,
      h('p', { class: 'hint', id: 'name-hint' }, words.deviceHint),
      error,
      h('div', { class: 'buttons' }, go),
    ),
  );
  return { element, heading, close: () => {} };
}

/** @param {unknown} failure */
function explained(failure) {
  // The server's own words know more: a wrong host has the same status as a wrong code.
  if (failure instanceof ApiError) {
    return failure.message === texts.strange ? (words.errors[failure.status] ?? failure.message) : failure.message;
  }
  return failure instanceof Error ? failure.message : String(failure);
}
