/**
 * Notifications of the browser: a question's title, and nothing more.
 *
 * @import {Question} from './types.js'
 */

import { button, h } from './dom.js';
import { texts } from './texts.js';

const WORKER = '/console/sw.js';
const words = texts.inbox;

/** @type {Promise<ServiceWorkerRegistration | null> | null} */
let registering = null;

const isPossible = () => 'Notification' in window && window.isSecureContext;

/** The only address that the policy lets through. */
function workerAddress() {
  /** @type {any} */
  const types = Reflect.get(window, 'trustedTypes');
  if (!types) return WORKER;
  const policy = types.createPolicy('dragoman', {
    /** @param {string} address */
    createScriptURL: (address) => {
      if (address !== WORKER) throw new TypeError(address);
      return address;
    },
  });
  return policy.createScriptURL(WORKER);
}

/** Android shows notifications of a service worker only. */
function registration() {
  registering ??= (async () => {
    if (!('serviceWorker' in navigator)) return null;
    try {
      return await navigator.serviceWorker.register(workerAddress(), { scope: '/console/' });
    } catch (error) {
      console.error(error);
      return null;
    }
  })();
  return registering;
}

/** Prepares notifications, if the person allowed them earlier; and listens for clicks on them. */
export function startNotifications() {
  if (isPossible() && Notification.permission === 'granted') void registration();
  navigator.serviceWorker?.addEventListener('message', (event) => {
    if (event.data === 'inbox') location.hash = '#/';
  });
}

/** The button that asks for the permission, or what it leads to. */
export function notifyButton() {
  const place = h('div', { class: 'notify' });
  const show = () => {
    if (!isPossible()) return;
    if (Notification.permission === 'default') place.replaceChildren(ask);
    else {
      const text = Notification.permission === 'granted' ? words.notifying : words.notifyDenied;
      place.replaceChildren(h('p', { class: 'hint' }, text));
    }
  };
  const ask = button(words.notify, 'button quiet', async () => {
    await Notification.requestPermission();
    if (Notification.permission === 'granted') void registration();
    show();
  });
  show();
  return place;
}

/** @param {Question} question */
export async function notifyOf(question) {
  if (document.visibilityState !== 'hidden' || !isPossible() || Notification.permission !== 'granted') return;
  const options = { tag: question.id, icon: '/console/page/icon.svg' };
  const worker = await registration();
  try {
    if (worker) await worker.showNotification(question.title, options);
    else {
      const shown = new Notification(question.title, options);
      shown.addEventListener('click', () => {
        window.focus();
        location.hash = '#/';
        shown.close();
      });
    }
  } catch (error) {
    console.error(error);
  }
}

/** @param {string} id   The question that no longer waits. */
export async function closeNotification(id) {
  const worker = registering && (await registering);
  for (const shown of (await worker?.getNotifications({ tag: id })) ?? []) shown.close();
}
