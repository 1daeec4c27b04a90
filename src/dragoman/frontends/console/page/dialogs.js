/** Dialogs that ask before something is done. */

import { button, enable, h, problem } from './dom.js';
import { Guard } from './guard.js';
import { texts } from './texts.js';

/** @import {Child} from './dom.js' */

let count = 0;

/**
 * Asks, and resolves to whether the person confirmed and `act` succeeded. An error of `act` is shown in the dialog.
 *
 * @param {object} options
 * @param {string} options.title
 * @param {Child[]} options.body
 * @param {string | null} options.confirm   null: there is nothing to confirm.
 * @param {boolean} [options.isDangerous]
 * @param {AbortSignal} [options.signal]   Closes the dialog: the reason to ask is gone.
 * @param {() => Promise<unknown>} [options.act]
 * @returns {Promise<boolean>}
 */
export function ask({ title, body, confirm, isDangerous = false, signal, act }) {
  const id = `dialog-${(count += 1)}`;
  const heading = h('h2', { id, tabindex: '-1', autofocus: true, dir: 'auto' }, title);
  const error = problem();
  const cancel = button(confirm ? texts.cancel : texts.close, 'button', () => dialog.close());
  const buttons = h('div', { class: 'buttons' }, cancel);
  const dialog = h('dialog', { 'aria-labelledby': id }, heading, ...body, error, buttons);
  let isConfirmed = false;
  if (confirm) {
    const go = button(confirm, isDangerous ? 'button danger' : 'button primary', async (event) => {
      if (!guard.accepts(event)) return;
      isBusy = true;
      guard.changed();
      try {
        await act?.();
        isConfirmed = true;
        dialog.close();
      } catch (failure) {
        error.textContent = failure instanceof Error ? failure.message : String(failure);
      }
      isBusy = false;
      guard.changed();
    });
    let isBusy = false;
    buttons.append(go);
    enable(go, false);
    const guard = new Guard(dialog, () => enable(go, !isBusy && guard.isArmed));
  }
  document.body.append(dialog);
  dialog.showModal();
  signal?.addEventListener('abort', () => dialog.close());
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(isConfirmed);
    });
  });
}
