/**
 * Against a press that was meant for something else: buttons that have just appeared, or have just moved under the
 * finger, do not act.
 */

import { isEnabled } from './dom.js';

export const GUARD_MS = 700;

export class Guard {
  #armedAt = 0;
  #pressedAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {HTMLElement} root   The element that has the buttons.
   * @param {() => void} changed   Runs when `isArmed` changes. It is false at first.
   */
  constructor(root, changed) {
    this.changed = changed;
    root.addEventListener('pointerdown', () => (this.#pressedAt = performance.now()), { capture: true });
    this.#wait();
  }

  get isArmed() {
    return performance.now() >= this.#armedAt;
  }

  /** The buttons appeared or moved: they wait again. */
  rearm() {
    this.#wait();
    this.changed();
  }

  #wait() {
    this.#armedAt = performance.now() + GUARD_MS;
    clearTimeout(this.#timer);
    // A timer can be early by a fraction of a millisecond.
    this.#timer = setTimeout(() => this.changed(), GUARD_MS + 1);
  }

  /**
   * Whether this click counts. A press that began too early does not, even if it ends late enough.
   *
   * @param {MouseEvent} event
   */
  accepts(event) {
    const isByPointer = event.detail > 0;
    const began = isByPointer ? this.#pressedAt : performance.now();
    return began >= this.#armedAt && event.currentTarget instanceof Element && isEnabled(event.currentTarget);
  }
}

/** @typedef {{actions: HTMLElement, rearm: () => void}} Guarded */

/** Notices that guarded things move on the page. */
export class MoveWatch {
  /** @type {WeakMap<Guarded, number>} */
  #tops = new WeakMap();

  /**
   * @param {() => Iterable<Guarded>} guarded
   * @param {HTMLElement[]} shapers   The elements whose size decides where the guarded ones are.
   */
  constructor(guarded, shapers) {
    this.guarded = guarded;
    const observer = new ResizeObserver(() => this.#compare());
    for (const shaper of shapers) observer.observe(shaper);
  }

  /**
   * Changes the page. A shorter page can also scroll by itself, so the places in the window count, too.
   *
   * @param {() => void} change
   */
  around(change) {
    const before = new Map([...this.guarded()].map((each) => [each, each.actions.getBoundingClientRect().top]));
    change();
    for (const [each, top] of before) {
      if (each.actions.isConnected && Math.abs(each.actions.getBoundingClientRect().top - top) > 1) each.rearm();
    }
    this.#compare();
  }

  #compare() {
    for (const each of this.guarded()) {
      const top = each.actions.getBoundingClientRect().top + scrollY;
      const known = this.#tops.get(each);
      if (known !== undefined && Math.abs(known - top) > 1) each.rearm();
      this.#tops.set(each, top);
    }
  }
}
