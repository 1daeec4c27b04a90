/**
 * The card of one question, and its decision.
 *
 * A decision is shown as taken when the server says so, and not before.
 *
 * @import {Decision, Level, Outcome, Question, WholeQuestion} from './types.js'
 */

import { ApiError, Unreachable, call, now } from './api.js';
import { ask } from './dialogs.js';
import { ago, announce, button, enable, focusOn, foreign, h, present, problem, withCode } from './dom.js';
import { Guard } from './guard.js';
import { facts, sectionElements, scrollable } from './sections.js';
import { texts } from './texts.js';

const words = texts.question;
// A card with less time than this says so in another colour.
const URGENT_SECONDS = 60;
/** @type {Level[]} */
const LASTING = ['session', 'workspace', 'always', 'rule'];

/** @param {string} id */
const path = (id) => `questions/${encodeURIComponent(id)}`;

/** @param {string} id */
export const conversationLink = (id) => `#/conversations/${encodeURIComponent(id)}`;

export class QuestionCard {
  /** @type {Outcome | null} */
  outcome = null;
  isSettled = false;
  #isWhole;
  #isSending = false;
  /** @type {WholeQuestion | null} */
  #whole = null;
  /** @type {HTMLButtonElement[]} */
  #buttons = [];
  /** @type {HTMLButtonElement[]} */
  #lasting = [];
  #end = new AbortController();

  /**
   * @param {Question} question
   * @param {boolean} canDecide
   * @param {(card: QuestionCard) => void} settled
   */
  constructor(question, canDecide, settled) {
    this.question = question;
    this.canDecide = canDecide;
    this.settled = settled;
    this.#isWhole = !question.is_cut;
    const id = `question-${question.id}`;
    this.title = h('h2', { id, dir: 'auto' }, question.title);
    this.left = h('span', { class: 'left' });
    this.text = h('div', { class: 'text' }, ...this.#textElements(question));
    this.cut = question.is_cut ? this.#cutNotice() : null;
    this.problem = problem();
    this.actions = h('div', { class: 'actions' });
    this.element = h(
      'article',
      { class: question.sensitive ? 'card sensitive' : 'card', 'aria-labelledby': id },
      h('header', {}, this.title, this.left),
      this.text,
      this.cut,
      this.#reasons(),
      this.actions,
    );
    this.guard = new Guard(this.element, () => this.#refresh());
    if (canDecide) this.actions.append(...this.#controls(), this.problem);
    this.#refresh();
    this.tick();
  }

  rearm() {
    this.guard.rearm();
  }

  /** Brings the time left up to date. */
  tick() {
    const left = this.question.expires_at - now();
    this.left.textContent = left > 0 ? words.left(texts.span(left)) : words.timeUp;
    this.left.classList.toggle('urgent', left < URGENT_SECONDS);
  }

  /** @param {Question} question */
  #textElements(question) {
    const labels = new Set(question.sections.filter((each) => each.inline).map((each) => each.label));
    const { client, key, conversation, sensitive } = question;
    const rows = [
      ...(labels.has(words.folder) ? [] : [{ label: words.folder, value: question.folder }]),
      ...(question.node ? [{ label: words.node, value: question.node }] : []),
      ...(labels.has(words.agent) ? [] : [{ label: words.agent, value: `${question.agent_name} (${question.agent})` }]),
    ];
    const isSaid = question.sections.some((section) => section.text === sensitive);
    return present([
      sensitive && !isSaid && h('p', { class: 'caution' }, `${words.sensitive}: `, foreign(sensitive)),
      ...sectionElements(question.sections),
      rows.length > 0 && facts(rows),
      h(
        'p',
        { class: 'hint dots' },
        client && h('span', {}, `${words.client} `, foreign(client)),
        key && h('span', {}, `${words.key} `, foreign(key)),
        h('span', {}, `${words.asked} `, ago(question.asked_at)),
        conversation && h('span', {}, h('a', { href: conversationLink(conversation) }, words.conversation)),
      ),
    ]);
  }

  #cutNotice() {
    const notice = h('div', { class: 'cut' });
    const show = button(words.showAll, 'button', async () => {
      show.textContent = words.loading;
      const question = await this.#load(error);
      show.textContent = words.showAll;
      if (!question || this.isSettled) return;
      this.text.replaceChildren(...this.#textElements(question));
      this.#isWhole = true;
      notice.remove();
      announce(words.allShown);
      // The first text, from its beginning.
      focusOn(this.title);
      this.rearm();
    });
    const error = problem();
    notice.append(h('p', {}, words.cut), show, error);
    return notice;
  }

  /** @param {HTMLElement} error */
  async #load(error) {
    error.textContent = '';
    try {
      this.#whole ??= /** @type {WholeQuestion} */ (await call('GET', path(this.question.id)));
      return this.#whole;
    } catch (failure) {
      error.textContent = failure instanceof Error ? failure.message : String(failure);
      return null;
    }
  }

  #reasons() {
    const { why, covers, rules } = this.question;
    const rows = [
      ...(why ? [{ label: words.why, value: why }] : []),
      ...(covers ? [{ label: words.covers, value: covers }] : []),
    ];
    const matched = rules.map((rule) =>
      h(
        'li',
        {},
        h('strong', {}, rule.decision),
        ' ',
        foreign(rule.line === null ? rule.file : `${rule.file}:${rule.line}`, 'path'),
        rule.reason ? ' — ' : '',
        rule.reason ? foreign(rule.reason) : null,
      ),
    );
    const list = matched.length ? h('ul', {}, ...matched) : null;
    if (!list && !rows.length) return null;
    return h('div', { class: 'reasons' }, facts([...rows, ...(list ? [{ label: words.rules, value: list }] : [])]));
  }

  *#controls() {
    const once = this.#decider(words.allow, 'button primary', () => ({ decision: 'allow', level: 'once' }));
    const deny = this.#decider(words.deny, 'button danger', () => ({ decision: 'deny' }));
    yield h('div', { class: 'buttons main' }, once, deny);

    const reason = h('textarea', { rows: 2, id: `reason-${this.question.id}`, maxlength: 2000, dir: 'auto' });
    const denyPanel = h(
      'div',
      { class: 'panel' },
      h('label', { for: reason.id }, words.reason),
      reason,
      this.#decider(words.sendDeny, 'button danger', () => {
        const text = reason.value.trim();
        return text ? { decision: 'deny', reason: text } : { decision: 'deny' };
      }),
    );
    const levels = this.#levels();
    const panels = levels.length ? [this.#levelPanel(levels), denyPanel] : [denyPanel];
    const names = levels.length ? [words.longer, words.withReason] : [words.withReason];
    const toggles = panels.map((panel, index) => this.#toggle(names[index] ?? '', panel, panels));
    yield h('div', { class: 'buttons more' }, ...toggles);
    yield* panels;
  }

  /** The levels beyond `once` that are offered. */
  #levels() {
    return LASTING.filter((level) => this.question.levels.includes(level));
  }

  /** @param {Level[]} levels */
  #levelPanel(levels) {
    const rows = levels.map((level) => {
      const hint = h('span', { class: 'hint', id: `hint-${level}-${this.question.id}` }, words.levelHints[level]);
      const control =
        level === 'rule'
          ? this.#control(words.levels.rule, 'button', () => void this.#chooseRule())
          : this.#decider(words.levels[level], 'button', () => ({ decision: 'allow', level }));
      control.setAttribute('aria-describedby', hint.id);
      this.#lasting.push(control);
      return h('div', { class: 'level' }, control, hint);
    });
    const { covers, node } = this.question;
    const [before = '', command = '', after = ''] = words.revoking;
    return h(
      'div',
      { class: 'panel' },
      covers ? h('p', {}, `${words.covers}: `, foreign(covers)) : null,
      this.#isWhole ? null : h('p', { class: 'caution' }, words.showFirst),
      ...rows,
      node ? h('p', { class: 'hint' }, foreign(words.noRules(node))) : null,
      levels.includes('workspace') || levels.includes('always')
        ? h('p', { class: 'hint' }, before, h('code', {}, command), after)
        : null,
    );
  }

  /**
   * A button that opens a panel, and closes the other one.
   *
   * @param {string} label
   * @param {HTMLElement} panel
   * @param {HTMLElement[]} panels
   */
  #toggle(label, panel, panels) {
    panel.id = `panel-${panels.indexOf(panel)}-${this.question.id}`;
    panel.hidden = true;
    const toggle = button(label, 'button quiet', () => {
      const opens = panel.hidden;
      for (const each of panels) each.hidden = each !== panel || !opens;
      for (const each of toggle.parentElement?.children ?? []) {
        each.setAttribute('aria-expanded', String(each === toggle && opens));
      }
      this.rearm();
    });
    toggle.setAttribute('aria-expanded', 'false');
    toggle.setAttribute('aria-controls', panel.id);
    return toggle;
  }

  /**
   * @param {string} label
   * @param {string} className
   * @param {() => Decision} decision
   */
  #decider(label, className, decision) {
    const control = this.#control(label, className, () => {
      control.textContent = words.sending;
      void this.#send(decision()).then((failure) => {
        control.textContent = label;
        if (failure) this.problem.textContent = failure;
      });
    });
    return control;
  }

  /**
   * @param {string} label
   * @param {string} className
   * @param {() => void} act
   */
  #control(label, className, act) {
    const control = button(label, className, (event) => {
      if (this.guard.accepts(event)) act();
    });
    this.#buttons.push(control);
    return control;
  }

  #refresh() {
    const isActive = this.guard.isArmed && !this.#isSending && !this.isSettled;
    for (const each of this.#buttons) enable(each, isActive);
    if (!this.#isWhole) for (const each of this.#lasting) enable(each, false);
    for (const caution of this.actions.querySelectorAll('.caution')) caution.toggleAttribute('hidden', this.#isWhole);
  }

  /**
   * Sends a decision. Returns what went wrong, in words, if the question still waits.
   *
   * @param {Decision} decision
   * @returns {Promise<string | null>}
   */
  async #send(decision) {
    this.#isSending = true;
    this.problem.textContent = '';
    this.#refresh();
    try {
      const outcome = outcomeIn(await call('POST', `${path(this.question.id)}/decision`, decision));
      if (!outcome) return words.unknown;
      this.settle(outcome);
      return null;
    } catch (failure) {
      if (this.isSettled) return null;
      if (failure instanceof Unreachable) return words.unknown;
      if (!(failure instanceof ApiError)) throw failure;
      const outcome = outcomeIn(failure.body);
      if (failure.status === 410 || (failure.status === 409 && outcome)) {
        this.settle(outcome, failure.status === 410 ? words.over : words.already);
        return null;
      }
      // Another person's decision is on its way, or it is not known what became of this one: `closed` will say how it ended.
      return failure.status === 409 || failure.code === 'unknown' ? failure.message : words.failed(failure.message);
    } finally {
      this.#isSending = false;
      this.#refresh();
    }
  }

  async #chooseRule() {
    // The rules in force may have changed since the last look, and with them what is offered.
    this.#whole = null;
    const question = await this.#load(this.problem);
    if (!question || this.isSettled) return;
    const { offers } = question;
    let chosen = offers[0]?.toml ?? '';
    const choices = offers.map((offer, index) => {
      const radio = h('input', {
        type: 'radio',
        name: 'offer',
        id: `offer-${index}`,
        checked: index === 0,
        change: () => (chosen = offer.toml),
      });
      const label = h('label', { for: radio.id }, radio, withCode(offer.words));
      return h('div', { class: 'offer' }, label, ...scrollable(offer.toml, offer.words, 'toml'));
    });
    const file = h('p', {}, foreign(words.ruleFile(question.rules_file)));
    await ask({
      title: words.ruleTitle,
      body: offers.length
        ? [h('fieldset', {}, h('legend', { class: 'hidden' }, words.ruleTitle), ...choices), file]
        : [h('p', {}, words.noOffers)],
      confirm: offers.length ? words.ruleConfirm : null,
      signal: this.#end.signal,
      act: async () => {
        const failure = await this.#send({ decision: 'allow', level: 'rule', toml: chosen });
        if (failure) throw new Error(failure);
      },
    });
  }

  /**
   * Shows how the question ended. `outcome` is null if the page does not know it.
   *
   * @param {Outcome | null} outcome
   * @param {string} [remark]
   */
  settle(outcome, remark = '') {
    if (this.isSettled) return;
    this.isSettled = true;
    this.outcome = outcome;
    const hadFocus = this.element.contains(document.activeElement);
    this.#end.abort();
    // The card keeps its size while it stays, so that nothing below it moves.
    this.actions.style.minHeight = `${this.actions.offsetHeight}px`;
    const line = outcomeLine(outcome, remark);
    this.actions.replaceChildren(line);
    this.left.textContent = '';
    this.cut?.remove();
    this.element.classList.add('settled');
    announce(`${line.textContent}: ${this.question.title}`);
    if (hadFocus) focusOn(line);
    this.settled(this);
  }
}

/**
 * How a question ended, in a line.
 *
 * @param {Outcome | null} outcome
 * @param {string} [remark]
 */
export function outcomeLine(outcome, remark = '') {
  const said = outcome ? texts.outcome(outcome) : remark ? '' : words.gone;
  const details = outcome?.rule ?? outcome?.reason;
  return h(
    'p',
    { class: `outcome ${outcome?.state ?? 'ended'}` },
    remark && said ? `${remark} ` : remark,
    foreign(said),
    details ? ': ' : '',
    details ? foreign(details) : null,
  );
}

/**
 * The outcome in an answer: the answer itself, or beside the error of a late decision.
 *
 * @param {any} body
 * @returns {Outcome | null}
 */
function outcomeIn(body) {
  const found = body?.outcome ?? body?.error?.outcome ?? body;
  return typeof found?.state === 'string' ? found : null;
}
