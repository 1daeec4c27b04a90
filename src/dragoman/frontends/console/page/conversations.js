/**
 * The list of conversations.
 *
 * @import {Conversation, ConversationPage, ConversationState} from './types.js'
 */

import { call } from './api.js';
import { ago, announce, button, foreign, h, present, problem } from './dom.js';
import { conversationLink } from './question.js';
import { store, subscribe } from './store.js';
import { texts } from './texts.js';

const words = texts.conversations;
// Changes come in bursts while an agent answers.
const REFRESH_MS = 700;

// The filters outlive a visit to a conversation.
const chosen = { model: '', client: '', state: '' };
/** @type {Set<string>} */
const clients = new Set();

/** @param {ConversationState} state */
export const stateChip = (state) => h('span', { class: `chip ${state}` }, words.states[state] ?? state);

export function conversationsView() {
  /** @type {Conversation[]} */
  let shown = [];
  /** @type {ConversationPage["next"]} */
  let next = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let turn = 0;
  let isOpen = true;

  const heading = h('h1', {}, texts.views.conversations);
  const list = h('ul', { class: 'rows' });
  const status = h('p', { class: 'empty', role: 'status' }, words.loading);
  const error = problem();
  const more = button(words.more, 'button', () => void load(true));
  more.hidden = true;

  /** @param {boolean} isOlder   The next page, else the first one anew. */
  async function load(isOlder) {
    const mine = (turn += 1);
    const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
    if (isOlder && next !== null) query.set('before', String(next));
    try {
      /** @type {ConversationPage} */
      const page = await call('GET', `conversations${query.size ? `?${query}` : ''}`);
      if (mine !== turn || !isOpen) return;
      error.textContent = '';
      merge(page, isOlder);
      draw();
      if (isOlder) announce(texts.counted(page.conversations.length, 'conversation'));
    } catch (failure) {
      if (mine === turn && isOpen && failure instanceof Error) error.textContent = failure.message;
    }
  }

  /** @param {ConversationPage} page @param {boolean} isOlder */
  function merge(page, isOlder) {
    const fresh = new Map(page.conversations.map((each) => [each.id, each]));
    const oldest = Math.min(...page.conversations.map((each) => each.used_at));
    const isAll = page.next === null && !isOlder;
    // The first page says everything about its time: what it lacks there is gone or has changed.
    const others = shown.filter(
      (each) => !fresh.has(each.id) && !isAll && (isOlder || each.used_at < oldest),
    );
    if (isOlder || !others.length) next = page.next;
    shown = [...others, ...fresh.values()].sort((one, other) => other.used_at - one.used_at);
    for (const { client } of shown) if (client) clients.add(client);
  }

  function draw() {
    const focused = document.activeElement?.getAttribute('href');
    list.replaceChildren(...shown.map(row));
    if (focused) {
      for (const link of list.querySelectorAll('a')) if (link.getAttribute('href') === focused) link.focus();
    }
    status.textContent = shown.length ? '' : words.empty;
    status.hidden = shown.length > 0;
    more.hidden = next === null;
    fill(selects.client, [...clients].sort(), chosen.client);
  }

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void load(false), REFRESH_MS);
  };
  const refilter = () => {
    shown = [];
    next = null;
    status.hidden = false;
    status.textContent = words.loading;
    void load(false);
  };

  const selects = {
    model: filter('model', words.model, refilter),
    client: filter('client', words.client, refilter),
    state: filter('state', words.state, refilter),
  };
  fill(selects.model, store.models, chosen.model);
  fill(selects.client, [...clients].sort(), chosen.client);
  fill(selects.state, Object.keys(words.states), chosen.state, words.states);

  const ends = [
    subscribe('conversation', soon),
    subscribe('question', soon),
    subscribe('closed', soon),
    subscribe('hello', () => {
      fill(selects.model, store.models, chosen.model);
      soon();
    }),
  ];
  void load(false);
  const filters = Object.values(selects).map((select) => h('div', {}, h('label', { for: select.id }, select.title), select));
  for (const select of Object.values(selects)) select.removeAttribute('title');
  const element = h(
    'div',
    { class: 'view' },
    heading,
    h('form', { class: 'filters three', role: 'search', 'aria-label': words.filter }, ...filters),
    error,
    list,
    status,
    h('div', { class: 'buttons' }, more),
  );
  const close = () => {
    isOpen = false;
    clearTimeout(timer);
    for (const end of ends) end();
  };
  return { element, heading, close };
}

/**
 * @param {keyof typeof chosen} name
 * @param {string} title
 * @param {() => void} changed
 */
function filter(name, title, changed) {
  const select = h('select', {
    id: `filter-${name}`,
    title,
    change: () => {
      chosen[name] = select.value;
      changed();
    },
  });
  return select;
}

/**
 * @param {HTMLSelectElement} select
 * @param {string[]} values
 * @param {string} value
 * @param {Record<string, string>} [names]
 */
function fill(select, values, value, names = {}) {
  const all = value && !values.includes(value) ? [...values, value] : values;
  // An open list must not close because nothing changed.
  if ([...select.options].map((each) => each.value).join('\n') === ['', ...all].join('\n')) return;
  select.replaceChildren(
    h('option', { value: '' }, words.all),
    ...all.map((each) => h('option', { value: each, selected: each === value }, names[each] ?? each)),
  );
  select.value = value;
}

/** @param {Conversation} conversation */
function row(conversation) {
  const { id, title, model, client, key, node, folder, used_at, state, questions } = conversation;
  const details = [foreign(model), client && foreign(client), key && foreign(key), node && foreign(node), ago(used_at)];
  return h(
    'li',
    { class: 'link' },
    h('a', { class: 'row-title', href: conversationLink(id) }, foreign(title || words.untitled)),
    h('p', { class: 'chips' }, stateChip(state), questions > 0 && h('span', { class: 'chip asks' }, words.questions(questions))),
    h('p', { class: 'hint dots' }, ...present(details).map((each) => h('span', {}, each))),
    folder ? h('p', { class: 'hint path' }, foreign(folder)) : null,
  );
}
