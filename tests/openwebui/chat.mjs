// The chat page of Open WebUI, as a person uses it.
import { DEADLINE } from '../console_browser/children.mjs';

export class ChatPage {
  /** What the page asked of another machine: nothing may. */
  strangers = [];
  problems = [];

  /** `files` is where the server's links to files begin. */
  static async open(browser, webui, files) {
    const context = await browser.chromium.newContext({ viewport: { width: 1280, height: 800 } });
    context.setDefaultTimeout(DEADLINE);
    const chat = new ChatPage();
    const page = await context.newPage();
    chat.page = page;
    browser.pages.push(chat);
    page.on('request', (request) => {
      const { protocol, hostname } = new URL(request.url());
      if (protocol.startsWith('http') && hostname !== '127.0.0.1' && !request.url().startsWith(files)) {
        chat.strangers.push(request.url());
      }
    });
    page.on('pageerror', (error) => chat.problems.push(`error: ${error.message}`));
    // The first page of an installation shows what is new.
    await page.addLocatorHandler(page.getByRole('button', { name: "Okay, Let's Go!" }), (button) => button.click());
    await page.goto(webui.url);
    return chat;
  }

  /** A new chat with a model, selected in the list of models. */
  async start(model) {
    await this.page.getByRole('link', { name: 'New Chat' }).click();
    await this.page.getByRole('heading', { name: 'New Chat' }).waitFor();
    await this.select(model);
    return this;
  }

  /** Opens an earlier chat, from the list of chats. */
  async returnTo(address) {
    await this.page.getByRole('button', { name: 'Open Sidebar' }).click();
    await this.page.locator(`a[href="${new URL(address).pathname}"]`).first().click();
    await this.page.waitForURL(address);
    await this.page.getByRole('button', { name: 'Close Sidebar' }).click();
    await this.regenerate.waitFor();
  }

  async select(model) {
    await this.page.getByRole('button', { name: /^Selected model|^Select a model/ }).click();
    await this.page.getByRole('combobox', { name: 'Search In Models' }).fill(model);
    await this.page.getByRole('option', { name: `Select ${model} model`, exact: true }).click();
    await this.page.getByRole('button', { name: `Selected model: ${model}`, exact: true }).waitFor();
  }

  async send(words) {
    await this.page.locator('#chat-input').fill(words);
    await this.page.keyboard.press('Enter');
  }

  /** Sends, and waits for the end of the answer: its text. */
  async ask(words) {
    const before = await this.answers.count();
    await this.send(words);
    await this.answers.nth(before).waitFor();
    return this.answer();
  }

  get answers() {
    return this.page.locator('.chat-assistant');
  }

  get stop() {
    return this.page.getByRole('button', { name: 'Stop', exact: true });
  }

  get regenerate() {
    return this.page.getByRole('button', { name: 'Regenerate', exact: true }).last();
  }

  /** The text of the last answer, when it is complete. */
  async answer() {
    await this.page.getByRole('button', { name: 'Voice mode' }).waitFor();
    await this.regenerate.waitFor();
    return this.answers.last().innerText();
  }

  /** Waits for words in the last answer, complete or not. */
  async shows(words) {
    await this.answers.last().getByText(words).first().waitFor();
  }

  /** A task of Open WebUI, as its pages ask for it: `title`, `queries` and so on. */
  task(name, form) {
    return this.page.evaluate(
      async ([path, body]) => {
        const headers = { authorization: `Bearer ${localStorage.token}`, 'content-type': 'application/json' };
        const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
        return { status: answer.status, body: await answer.json() };
      },
      [`/api/v1/tasks/${name}/completions`, form],
    );
  }
}
