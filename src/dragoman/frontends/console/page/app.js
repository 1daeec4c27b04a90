/**
 * The page: which view is shown, and what the event stream changes.
 *
 * @import {Hello} from './types.js'
 */

import { call, onOtherTab, onSignedOut, storeToken, token } from './api.js';
import { announce, button, byId, focusOn, h, refreshTimes } from './dom.js';
import { Inbox } from './inbox.js';
import { startNotifications } from './notify.js';
import { pairView } from './pair.js';
import { EventStream } from './stream.js';
import { changed, forget, store, subscribe } from './store.js';
import { texts } from './texts.js';

/** @typedef {{element: HTMLElement, heading: HTMLElement, close: () => void}} View */

const REFRESH_TIMES_MS = 20_000;

const main = byId('main');
const header = byId('header');
const banner = byId('banner');
const state = byId('state');
const count = byId('count');

const inbox = new Inbox([header, banner]);
/** @type {View} */
const inboxView = { element: inbox.element, heading: inbox.heading, close: () => {} };

/** @type {View | null} */
let view = null;
// The address of the view, so that the same address twice changes nothing.
/** @type {string | null} */
let route = null;
let hasEnded = false;
let pairingCode = '';
const bannerText = h('p', {}, texts.connection.banner);
/** null: there was no connection yet. @type {boolean | null} */
let isConnected = null;

// Views.

/** @param {boolean} isFirst */
async function show(isFirst) {
  takeCode();
  const isPaired = token() !== null;
  const wanted = isPaired ? location.hash.replace(/^#\/?/, '') : 'pair';
  if (wanted === route) return;
  route = wanted;
  const next = isPaired ? await viewOf(wanted) : pairing();
  if (wanted !== route) {
    next.close();
    return;
  }
  view?.close();
  view = next;
  main.replaceChildren(view.element);
  if (view === inboxView) inbox.shown();
  // A view that was away has the words of that time.
  refreshTimes();
  byId('nav').hidden = !isPaired;
  state.hidden = !isPaired;
  showBanner();
  for (const link of byId('nav').querySelectorAll('a')) {
    const target = link.hash.replace(/^#\/?/, '');
    if (wanted === target || (target && wanted.startsWith(`${target}/`))) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  showCount();
  scrollTo({ top: 0, behavior: 'instant' });
  // A page that has just been loaded begins at its beginning.
  if (!isFirst) focusOn(view.heading);
}

/**
 * The inbox is there at once; the other views are loaded when they are first shown.
 *
 * @param {string} wanted
 * @returns {Promise<View>}
 */
async function viewOf(wanted) {
  const [name, id] = wanted.split('/');
  try {
    if (name === 'conversations') {
      if (!id) return (await import('./conversations.js')).conversationsView();
      return (await import('./conversation.js')).conversationView(decoded(id));
    }
    if (name === 'devices') return (await import('./devices.js')).devicesView(end);
  } catch (error) {
    console.error(error);
    return notLoaded();
  }
  return inboxView;
}

/** @returns {View} */
function notLoaded() {
  const heading = h('h1', {}, texts.unreachable);
  const again = button(texts.again, 'button', () => location.reload());
  return { element: h('div', { class: 'view' }, heading, h('div', { class: 'buttons' }, again)), heading, close: () => {} };
}

function pairing() {
  return pairView({ code: pairingCode, hasEnded, paired: begin });
}

/** A code in the address fills the form; it must not stay in the history, and pairs nothing by itself. */
function takeCode() {
  const found = /^#pair=(.+)$/.exec(location.hash)?.[1];
  if (found === undefined) return;
  pairingCode = decoded(found);
  history.replaceState(null, '', location.pathname);
  // The form is there already: it is built anew with the code.
  if (route === 'pair') route = null;
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The session.

function begin() {
  hasEnded = false;
  pairingCode = '';
  stream.start();
  void show(false);
}

/** The session is over: signed out here, revoked, or unknown to the server. */
function end() {
  stream.stop();
  storeToken(null);
  forget();
  inbox.clear();
  hasEnded = true;
  isConnected = null;
  void show(false);
}

// The stream.

/** @param {boolean} isUp */
function connection(isUp, isCrowded = false) {
  bannerText.textContent = isCrowded ? texts.connection.crowded : texts.connection.banner;
  if (isConnected !== null && isUp !== isConnected) announce(isUp ? texts.connection.back : texts.connection.lost);
  isConnected = isUp;
  state.textContent = isUp ? texts.connection.connected : texts.connection.lost;
  state.className = isUp ? 'up' : 'down';
  showBanner();
}

function showBanner() {
  const isHidden = token() === null || isConnected !== false;
  if (isHidden !== banner.hidden) inbox.moving(() => (banner.hidden = isHidden));
}

/** @param {Hello} hello */
function greet({ session, address, models, keys, snapshot }) {
  Object.assign(store, { session, address, models, keys, elsewhere: snapshot.elsewhere });
  store.questions = new Map(snapshot.questions.map((question) => [question.id, question]));
  changed('hello', null);
}

/** @type {Record<string, (data: any) => void>} */
const handlers = {
  hello: greet,
  question: (question) => {
    store.questions.set(question.id, question);
    changed('question', question);
  },
  closed: ({ id, outcome }) => {
    store.questions.delete(id);
    changed('closed', { id, outcome });
  },
  elsewhere: ({ questions }) => {
    store.elsewhere = questions;
    changed('elsewhere', null);
  },
  conversation: (detail) => changed('conversation', detail),
  sessions: () => changed('sessions', null),
  // If it does not arrive, the next one may.
  beat: ({ stream: id }) => void call('POST', 'seen', { stream: id }).catch(() => {}),
  signed_out: end,
};

const stream = new EventStream({
  event: (name, data) => {
    handlers[name]?.(data);
    showCount();
  },
  state: connection,
  refused: end,
});

/** How many questions wait, in the title of the window and beside the inbox. */
function showCount() {
  const waiting = store.questions.size;
  document.title = waiting ? `(${waiting}) ${texts.name}` : texts.name;
  count.textContent = waiting ? String(waiting) : '';
  count.hidden = waiting === 0;
}

// The start.

state.textContent = texts.connection.connecting;
banner.append(bannerText);
// The fragment is the view's address, so the link cannot use it.
byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
onSignedOut(end);
onOtherTab((isPaired) => (isPaired ? begin() : end()));
addEventListener('hashchange', () => void show(false));
for (const name of /** @type {const} */ (['hello', 'question', 'closed'])) subscribe(name, showCount);
setInterval(refreshTimes, REFRESH_TIMES_MS);
startNotifications();
if (token() !== null) stream.start();
void show(true);
