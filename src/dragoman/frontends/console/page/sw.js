/**
 * The service worker. It shows notifications for the page and brings the page to the front when one is pressed. It
 * stores nothing and answers no request.
 */

/** @type {ServiceWorkerGlobalScope} */
const worker = /** @type {any} */ (self);

worker.addEventListener('install', () => void worker.skipWaiting());
worker.addEventListener('activate', (event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(showInbox());
});

async function showInbox() {
  for (const client of await worker.clients.matchAll({ type: 'window', includeUncontrolled: true })) {
    if (new URL(client.url).pathname !== '/') continue;
    client.postMessage('inbox');
    await client.focus();
    return;
  }
  await worker.clients.openWindow('/#/');
}
