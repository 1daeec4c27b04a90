/**
 * The paired devices, and the code for another one.
 *
 * @import {Pairing, Session} from './types.js'
 */

import { call, now } from './api.js';
import { ask } from './dialogs.js';
import { ago, announce, button, focusOn, foreign, h, problem } from './dom.js';
import { mayDecide, store, subscribe } from './store.js';
import { texts } from './texts.js';

const words = texts.devices;
const SVG = 'http://www.w3.org/2000/svg';
// The empty border that readers of QR codes need, in modules.
const QUIET = 4;

/** @param {() => void} signedOut */
export function devicesView(signedOut) {
  let isOpen = true;
  const heading = h('h1', {}, texts.views.devices);
  const list = h('ul', { class: 'rows' });
  const error = problem();

  async function load() {
    try {
      /** @type {{sessions: Session[]}} */
      const { sessions } = await call('GET', 'sessions');
      if (!isOpen) return;
      error.textContent = '';
      const hadFocus = list.contains(document.activeElement);
      list.replaceChildren(...sessions.map(row));
      if (hadFocus) focusOn(heading);
    } catch (failure) {
      if (isOpen && failure instanceof Error) error.textContent = failure.message;
    }
  }

  /** @param {Session} session */
  function row(session) {
    const isSelf = session.is_self;
    const control = isSelf
      ? button(words.signOut, 'button', () => void signOut())
      : mayDecide() && button(words.revoke, 'button danger', () => void revoke(session));
    if (control && !isSelf) control.setAttribute('aria-label', `${words.revoke} ${session.name}`);
    return h(
      'li',
      { class: 'device' },
      h(
        'div',
        {},
        h('p', { class: 'row-title' }, foreign(session.name), isSelf && h('span', { class: 'chip self' }, words.self)),
        h(
          'p',
          { class: 'dots' },
          h('span', {}, words.roles[session.role] ?? session.role),
          h('span', {}, foreign(session.key ? words.oneKey(session.key) : words.allKeys)),
        ),
        h(
          'p',
          { class: 'hint dots' },
          h('span', {}, `${words.since('')}`, ago(session.paired_at)),
          h('span', {}, `${words.seen('')}`, ago(session.seen_at)),
        ),
      ),
      control,
    );
  }

  /** @param {Session} session */
  async function revoke(session) {
    const isDone = await ask({
      title: words.revokeTitle(session.name),
      body: [h('p', {}, words.revokeText)],
      confirm: words.revoke,
      isDangerous: true,
      act: () => call('DELETE', `sessions/${encodeURIComponent(session.id)}`),
    });
    if (!isDone) return;
    announce(words.revoked);
    void load();
  }

  async function signOut() {
    const isDone = await ask({
      title: words.signOutTitle,
      body: [h('p', {}, words.signOutText)],
      confirm: words.signOut,
      act: () => call('DELETE', 'sessions/self'),
    });
    if (isDone) signedOut();
  }

  const element = h('div', { class: 'view' }, heading, error, list);
  /** @type {ReturnType<typeof pairAnother> | null} */
  let another = null;
  // A page that begins with this view learns its role a little later.
  const greeted = () => {
    void load();
    if (another || !mayDecide()) return;
    another = pairAnother();
    element.append(another.element);
  };
  const ends = [subscribe('sessions', () => void load()), subscribe('hello', greeted)];
  greeted();
  const close = () => {
    isOpen = false;
    another?.close();
    for (const end of ends) end();
  };
  return { element, heading, close };
}

function pairAnother() {
  const error = problem();
  const result = h('div', { class: 'pairing' });
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;
  const role = h(
    'select',
    { id: 'new-role' },
    h('option', { value: 'decide' }, words.roleChoices.decide),
    h('option', { value: 'watch' }, words.roleChoices.watch),
  );
  const own = store.session?.key ?? null;
  const keys = own === null ? store.keys : [own];
  const key = h(
    'select',
    { id: 'new-key' },
    own === null ? h('option', { value: '' }, words.allKeys) : null,
    ...keys.map((each) => h('option', { value: each }, words.oneKey(each))),
  );
  const create = button(words.create, 'button primary', async () => {
    error.textContent = '';
    const wanted = key.value ? { role: role.value, key: key.value } : { role: role.value };
    try {
      show(/** @type {Pairing} */ (await call('POST', 'pairing', wanted)));
    } catch (failure) {
      if (failure instanceof Error) error.textContent = failure.message;
    }
  });

  /** @param {Pairing} pairing */
  function show({ code, url, qr, expires_at }) {
    const left = h('p', { class: 'left' });
    const caption = h('h3', {}, words.code);
    result.replaceChildren(
      // A phone that reads an address of this machine looks for the console on itself.
      url.startsWith('https:') ? h('div', { class: 'qr' }, qrCode(qr)) : h('p', { class: 'hint' }, words.noQr),
      h('div', {}, caption, h('p', { class: 'big-code' }, code), left, h('h3', {}, words.link), link(url)),
    );
    const tick = () => {
      const seconds = expires_at - now();
      left.textContent = texts.question.left(texts.span(seconds));
      if (seconds > 0) return;
      clearInterval(timer);
      result.replaceChildren(h('p', { class: 'notice' }, words.expired));
    };
    clearInterval(timer);
    timer = setInterval(tick, 1000);
    tick();
    focusOn(caption);
  }

  const element = h(
    'section',
    { class: 'card form', 'aria-labelledby': 'another' },
    h('h2', { id: 'another' }, words.another),
    h('p', { class: 'hint' }, words.anotherHint),
    h(
      'div',
      { class: 'filters' },
      h('div', {}, h('label', { for: 'new-role' }, words.role), role),
      keys.length ? h('div', {}, h('label', { for: 'new-key' }, words.key), key) : null,
    ),
    error,
    h('div', { class: 'buttons' }, create),
    result,
  );
  return { element, close: () => clearInterval(timer) };
}

/** @param {string} url */
function link(url) {
  // An address with another scheme would run in this page.
  return h('p', { class: 'path' }, /^https?:/.test(url) ? h('a', { href: url }, url) : foreign(url));
}

/** @param {string[]} rows   A module is 1 if it is dark. */
function qrCode(rows) {
  const quiet = rows[0]?.includes('1') ? QUIET : 0;
  const size = rows.length + 2 * quiet;
  const svg = shape('svg', { viewBox: `0 0 ${size} ${size}`, role: 'img', 'aria-label': words.qr });
  const parts = rows.flatMap((row, y) =>
    [...row.matchAll(/1+/g)].map((run) => `M${run.index + quiet} ${y + quiet}h${run[0].length}v1h-${run[0].length}z`),
  );
  // Readers need dark on light, also in a dark page.
  svg.append(
    shape('rect', { width: size, height: size, fill: '#fff' }),
    shape('path', { d: parts.join(''), fill: '#000', 'shape-rendering': 'crispEdges' }),
  );
  return svg;
}

/** @param {string} tag @param {Record<string, string | number>} attributes */
function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}
