/**
 * The inbox: the questions that wait, those of other processes, and what was decided.
 *
 * @import {Outcome, Question} from './types.js'
 */

import { ago, announce, foreign, focusOn, h } from './dom.js';
import { MoveWatch } from './guard.js';
import { closeNotification, notifyButton, notifyOf } from './notify.js';
import { QuestionCard, conversationLink, outcomeLine } from './question.js';
import { mayDecide, store, subscribe } from './store.js';
import { texts } from './texts.js';

const words = texts.inbox;
// Long enough to read how it ended.
const LINGER_MS = 5000;
const MOST_DECIDED = 20;

export class Inbox {
  /** @type {Map<string, QuestionCard>} */
  #cards = new Map();
  heading = h('h1', {}, texts.views.inbox);
  #watching = h('p', { class: 'notice', hidden: true }, words.watching);
  #intro = h('div', { class: 'intro' }, this.heading, notifyButton(), this.#watching);
  #list = h('div', { class: 'cards' });
  #empty = h('div', { class: 'empty', hidden: true }, h('p', {}, words.empty), h('p', { class: 'hint' }, words.emptyHint));
  #elsewhere = h('section', { 'aria-labelledby': 'elsewhere', hidden: true });
  #decidedList = h('ul', { class: 'rows' });
  #decided = h(
    'section',
    { 'aria-labelledby': 'decided', hidden: true },
    h('h2', { id: 'decided' }, words.decided),
    this.#decidedList,
  );
  element = h('div', { class: 'view' }, this.#intro, this.#list, this.#empty, this.#elsewhere, this.#decided);
  #moves;

  /** @param {HTMLElement[]} above   What stands above the inbox on the page. */
  constructor(above) {
    this.#moves = new MoveWatch(() => this.#cards.values(), [...above, this.#intro, this.#list]);
    subscribe('hello', () => this.#begin());
    subscribe('question', (question) => this.#moves.around(() => this.#add(question, true)));
    subscribe('closed', ({ id, outcome }) => this.#close(id, outcome));
    subscribe('elsewhere', () => this.#showElsewhere());
    setInterval(() => {
      for (const card of this.#cards.values()) if (!card.isSettled) card.tick();
    }, 1000);
  }

  /** The view is shown again: its buttons have just appeared. */
  shown() {
    for (const card of this.#cards.values()) card.rearm();
  }

  /** @param {() => void} change   Of something above the inbox. */
  moving(change) {
    this.#moves.around(change);
  }

  /** Removes everything: the session ended. */
  clear() {
    this.#cards.clear();
    this.#list.replaceChildren();
    this.#decidedList.replaceChildren();
    this.#decided.hidden = true;
  }

  /** A new snapshot. What it does not have has ended. */
  #begin() {
    this.#watching.hidden = mayDecide();
    this.#moves.around(() => {
      for (const [id, card] of this.#cards) {
        if (card.canDecide !== mayDecide()) this.#drop(card);
        else if (!store.questions.has(id)) card.settle(null);
      }
      const wasEmpty = this.#cards.size === 0;
      for (const question of store.questions.values()) this.#add(question, !wasEmpty);
      this.#showEmpty();
    });
    this.#showElsewhere();
  }

  /**
   * @param {Question} question
   * @param {boolean} isNews
   */
  #add(question, isNews) {
    const known = this.#cards.get(question.id);
    if (known && JSON.stringify(known.question) === JSON.stringify(question)) return;
    const card = new QuestionCard(question, mayDecide(), (settled) => this.#settled(settled));
    if (known) known.element.replaceWith(card.element);
    else this.#list.append(card.element);
    this.#cards.set(question.id, card);
    this.#showEmpty();
    if (known) return;
    if (isNews) announce(words.fresh(question.title));
    notifyOf(question);
  }

  /** @param {string} id @param {Outcome | null} outcome */
  #close(id, outcome) {
    const card = this.#cards.get(id);
    if (card) this.#moves.around(() => card.settle(outcome));
  }

  /** @param {QuestionCard} card */
  #settled(card) {
    store.questions.delete(card.question.id);
    closeNotification(card.question.id);
    setTimeout(() => {
      if (this.#cards.get(card.question.id) !== card) return;
      this.#moves.around(() => {
        this.#drop(card);
        this.#remember(card);
        this.#showEmpty();
      });
    }, LINGER_MS);
  }

  /** @param {QuestionCard} card */
  #drop(card) {
    const hadFocus = card.element.contains(document.activeElement);
    const next = card.element.nextElementSibling ?? card.element.previousElementSibling;
    this.#cards.delete(card.question.id);
    card.element.remove();
    if (hadFocus) focusOn(next?.querySelector('h2') ?? this.heading);
  }

  /** @param {QuestionCard} card */
  #remember({ question, outcome }) {
    const what = question.sections.find((section) => section.text && !section.inline) ?? question.sections[0];
    this.#decidedList.prepend(
      h(
        'li',
        {},
        h('p', { class: 'row-title' }, foreign(question.title)),
        what ? h('p', { class: 'one-line' }, foreign(what.text)) : null,
        outcomeLine(outcome),
        h('p', { class: 'hint' }, ago(outcome?.at ?? question.asked_at)),
      ),
    );
    while (this.#decidedList.children.length > MOST_DECIDED) this.#decidedList.lastElementChild?.remove();
    this.#decided.hidden = false;
  }

  #showEmpty() {
    this.#empty.hidden = this.#cards.size > 0;
  }

  #showElsewhere() {
    const questions = store.elsewhere;
    this.#elsewhere.hidden = questions.length === 0;
    this.#elsewhere.replaceChildren(
      h('h2', { id: 'elsewhere' }, words.elsewhere),
      h('p', { class: 'hint' }, words.elsewhereHint),
      h(
        'ul',
        { class: 'rows' },
        ...questions.map((question) =>
          h(
            'li',
            {},
            h('p', { class: 'row-title' }, foreign(question.title)),
            h('p', {}, foreign(words.answerAt(question.where))),
            h(
              'p',
              { class: 'hint' },
              ago(question.asked_at),
              question.conversation ? ' · ' : '',
              question.conversation && h('a', { href: conversationLink(question.conversation) }, words.openConversation),
            ),
          ),
        ),
      ),
    );
  }
}
