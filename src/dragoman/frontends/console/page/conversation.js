/**
 * One conversation as a chat, read only.
 *
 * @import {Conversation, Entry, EntryPage} from './types.js'
 */

import { ApiError, call } from './api.js';
import { stateChip } from './conversations.js';
import { ask } from './dialogs.js';
import { ago, announce, button, foreign, h, problem } from './dom.js';
import { outcomeLine } from './question.js';
import { facts } from './sections.js';
import { mayDecide, subscribe } from './store.js';
import { texts } from './texts.js';

const words = texts.conversation;
// Who reads the end of the chat stays there; this near counts as the end.
const NEAR_END_PX = 120;
// A result of more lines is folded: it is the agent's, and rarely what a person looks for.
const LONG_RESULT = 15;

/** @param {string} id */
export function conversationView(id) {
  const path = `conversations/${encodeURIComponent(id)}`;
  let last = 0;
  let isOpen = true;
  let isLoading = false;
  let isStale = false;
  /** @type {Map<string, HTMLElement>} */
  const shown = new Map();

  const heading = h('h1', { dir: 'auto' }, texts.conversations.loading);
  const about = h('div', { class: 'about' });
  const actions = h('div', { class: 'buttons' });
  const chat = h('ol', { class: 'chat', 'aria-label': words.entries });
  const empty = h('p', { class: 'empty', hidden: true }, words.empty);
  const error = problem();

  /** Loads what is new. A change that comes meanwhile is loaded after it. */
  async function load() {
    isStale = true;
    if (isLoading) return;
    isLoading = true;
    try {
      while (isStale && isOpen) {
        isStale = false;
        /** @type {EntryPage} */
        const page = await call('GET', `${path}?after=${last}`);
        if (!isOpen) return;
        isStale ||= page.more;
        error.textContent = '';
        show(page);
      }
    } catch (failure) {
      if (failure instanceof ApiError && failure.status === 404) gone();
      else if (isOpen && failure instanceof Error) error.textContent = failure.message;
    } finally {
      isLoading = false;
    }
  }

  function gone() {
    heading.textContent = words.gone;
    for (const part of [about, actions, chat]) part.replaceChildren();
    shown.clear();
    empty.hidden = true;
  }

  /** @param {EntryPage} page */
  function show({ conversation, entries, sequence }) {
    describe(conversation);
    const root = document.documentElement;
    const isFirst = last === 0;
    const isAtEnd = root.scrollHeight - root.clientHeight - scrollY < NEAR_END_PX;
    for (const entry of entries) put(entry);
    last = sequence;
    empty.hidden = chat.children.length > 0;
    if (entries.length && isAtEnd && !isFirst) scrollTo({ top: root.scrollHeight });
  }

  /**
   * Adds an entry, or replaces it: text grows, a step ends, a permission is decided.
   *
   * @param {Entry} entry
   */
  function put(entry) {
    const element = entryElement(entry);
    const known = shown.get(entry.key);
    shown.set(entry.key, element);
    if (!known) {
      chat.append(element);
      return;
    }
    // What the person has opened stays open.
    if (known.querySelector('details')?.open) element.querySelector('details')?.setAttribute('open', '');
    known.replaceWith(element);
  }

  /** @param {Conversation} conversation */
  function describe(conversation) {
    const { title, model, client, key, node, folder, started_at, state, owner, questions } = conversation;
    const name = title || texts.conversations.untitled;
    if (heading.textContent !== name) heading.textContent = name;
    about.replaceChildren(
      h('p', { class: 'chips' }, stateChip(state)),
      facts([
        { label: texts.conversations.model, value: model },
        ...(client ? [{ label: texts.conversations.client, value: client }] : []),
        ...(key ? [{ label: texts.question.key, value: key }] : []),
        ...(node ? [{ label: words.node, value: node }] : []),
        ...(folder ? [{ label: texts.question.folder, value: folder }] : []),
        { label: words.started, value: ago(started_at) },
      ]),
    );
    if (state === 'elsewhere' && owner) {
      about.append(h('p', { class: 'notice' }, foreign(node ? words.silent(node) : words.owner(owner))));
    }
    if (questions > 0) {
      about.append(h('p', { class: 'notice' }, `${words.asks} `, h('a', { href: '#/' }, words.toInbox)));
    }
    const possible = new Set(!mayDecide() || state === 'elsewhere' ? [] : available[state]);
    for (const { name: action, control } of controls) control.hidden = !possible.has(action);
  }

  const run = async (
    /** @type {string} */ title,
    /** @type {string} */ text,
    /** @type {string} */ confirm,
    /** @type {() => Promise<unknown>} */ act,
  ) => ask({ title, body: [h('p', {}, text)], confirm, isDangerous: true, act });
  /** @param {string} action @param {string} label @param {string} text @param {string} done */
  const change = (action, label, text, done) =>
    button(label, 'button', async () => {
      if (!(await run(`${label}?`, text, label, () => call('POST', `${path}/${action}`)))) return;
      announce(done);
      void load();
    });
  const remove = button(words.remove, 'button danger', async () => {
    if (!(await run(words.removeTitle, words.removeText, words.remove, () => call('DELETE', path)))) return;
    announce(words.removed);
    location.hash = '#/conversations';
  });
  const controls = [
    { name: 'stop', control: change('stop', words.stop, words.stopText, words.stopped) },
    { name: 'park', control: change('park', words.park, words.parkText, words.parked) },
    { name: 'delete', control: remove },
  ];
  for (const { control } of controls) control.hidden = true;
  actions.append(...controls.map(({ control }) => control));

  const ends = [
    subscribe('conversation', (changed) => void (changed.id === id && load())),
    subscribe('question', (question) => void (question.conversation === id && load())),
    subscribe('closed', () => void load()),
    subscribe('hello', () => void load()),
  ];
  void load();
  const element = h(
    'div',
    { class: 'view' },
    h('p', {}, h('a', { class: 'back', href: '#/conversations' }, words.back)),
    heading,
    about,
    actions,
    error,
    chat,
    empty,
  );
  const close = () => {
    isOpen = false;
    for (const end of ends) end();
  };
  return { element, heading, close };
}

/** @type {Record<string, string[]>} */
const available = {
  answering: ['stop'],
  asking: ['stop'],
  waiting: ['stop'],
  idle: ['park', 'delete'],
  stored: ['delete'],
};

/** @param {Entry} entry */
function entryElement(entry) {
  const { role, at } = entry;
  const name = words.roles[role] ?? role;
  const label = h('p', { class: 'entry-label' }, h('strong', {}, name), ' ', ago(at));
  const lines = entry.text.split('\n').length;
  if (role === 'thinking' || (role === 'result' && lines > LONG_RESULT)) {
    const summary = h('summary', {}, role === 'thinking' ? name : words.folded(name, lines));
    return h('li', { class: `entry ${role}` }, h('details', {}, summary, ...prose(entry.text)));
  }
  return h(
    'li',
    { class: `entry ${role}` },
    label,
    ...prose(entry.text),
    entry.status ? h('p', { class: 'hint' }, foreign(entry.status)) : null,
    entry.outcome && (entry.outcome.by ? outcomeLine(entry.outcome) : h('p', { class: 'hint' }, foreign(entry.outcome.words ?? ''))),
    role === 'permission' && !entry.outcome && !entry.question ? h('p', { class: 'hint' }, words.undecided) : null,
  );
}

/**
 * Text in paragraphs as they were written; what stands between fences is code.
 *
 * @param {string} text
 */
function* prose(text) {
  const fence = /^(`{3,}|~{3,})[^\n`]*\n([\s\S]*?)(?:\n\1[ \t]*$|$(?![\s\S]))/gm;
  let end = 0;
  for (const match of text.matchAll(fence)) {
    yield* paragraph(text.slice(end, match.index));
    const code = h('pre', { dir: 'ltr' });
    code.textContent = match[2] ?? '';
    yield code;
    end = match.index + match[0].length;
  }
  yield* paragraph(text.slice(end));
}

/**
 * A paragraph in italics is a remark, as the server writes its own. It is shown without the marks of Markdown.
 *
 * @param {string} text
 */
function* paragraph(text) {
  for (const piece of text.split(/\n{2,}(?=\*[^*\n]+\*(?:\n|$))|(?<=^\*[^*\n]+\*)\n{2,}/m)) {
    const trimmed = piece.replace(/^\n+|\n+$/g, '');
    if (!trimmed) continue;
    const remark = /^\*([^*\n]+)\*$/.exec(trimmed)?.[1];
    const element = h('div', { class: remark ? 'prose note' : 'prose', dir: 'auto' });
    element.textContent = remark ? remark.replace(/\\([!-/:-@[-`{-~])/g, '$1') : trimmed;
    yield element;
  }
}
