// A real VS Code in a real browser, with the packaged extension and the real backend, in a folder of its own.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { launchOptions, playwright } from '../browser/driver.mjs';

const HERE = import.meta.dirname;
const ROOT = path.resolve(HERE, '../..');
const CACHE = process.env.DRAGOMAN_VSCODE_CACHE;
const { chromium } = playwright;

// Longer than anything here takes on a busy machine. Only a test that fails reaches it.
export const DEADLINE = Number(process.env.DRAGOMAN_PATIENCE ?? 45) * 1_000;
const STARTUP = 120_000;
// The input of a chat draws a few hundred characters.
const MORE_THAN_SHOWN = 500;
// Pixels that are added to the side bar.
const WIDER = 320;

const SETTINGS = {
  'chat.byokUtilityModelDefault': 'none',
  'chat.tips.enabled': false,
  'chat.viewSessions.enabled': false,
  'extensions.autoCheckUpdates': false,
  'extensions.autoUpdate': false,
  'remote.autoForwardPorts': false,
  'security.workspace.trust.enabled': false,
  'telemetry.telemetryLevel': 'off',
  // So that what it shows is text in the page.
  'terminal.integrated.gpuAcceleration': 'off',
  'update.mode': 'none',
  'window.dialogStyle': 'custom',
  'workbench.enableExperiments': false,
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.welcomePage.walkthroughs.openOnInstall': false,
};

/** Looks again and again, until `look` returns something or time is up. */
export async function until(what, look, milliseconds = DEADLINE) {
  for (const end = Date.now() + milliseconds; Date.now() < end; ) {
    const found = await look();
    if (found) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited in vain for ${what}`);
}

function lines(file) {
  return existsSync(file)
    ? readFileSync(file, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line))
    : [];
}

/** Text in an editor has spaces of its own kind. */
function plain(text) {
  return text.replaceAll('\u00a0', ' ');
}

export function dense(text) {
  return text.replace(/\s+/g, '');
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function answers(url) {
  return new Promise((resolve) => {
    get(url, (response) => resolve(response.resume().statusCode < 400)).on('error', () => resolve(false));
  });
}

export class Editor {
  /** Without a `dragoman`, one on which nobody has installed it. `agents`: commands of further models, by their names. */
  static async start({ vsix, dragoman, settings = {}, agents = () => ({}), release = 'code-server' }) {
    const editor = new Editor();
    // A folder of the cache: `code-server-oldest` has the oldest VS Code that the extension is for.
    editor.release = release;
    editor.folder = mkdtempSync(path.join(tmpdir(), 'dragoman-vscode-'));
    const at = (...names) => path.join(editor.folder, ...names);
    editor.at = at;
    for (const name of ['data/User', 'data/Machine', 'extensions', 'workspace', 'browser', 'home', 'state']) {
      mkdirSync(at(name), { recursive: true });
    }
    writeFileSync(at('workspace', 'hello.txt'), 'the harbour opens at six\n');
    if (dragoman !== undefined) {
      // A model that answers, and one that cannot.
      // The demo agent with the prompts of tests, in Dragoman's own environment.
      const python = path.join(path.dirname(path.resolve(dragoman)), 'python');
      const demo = [python, path.join(HERE, '..', 'fake_agent', 'demo.py'), '--sessions', at('sessions')];
      writeFileSync(
        at('dragoman.toml'),
        `[models.demo]\nkind = "acp"\nagent = "demo"\nname = "Demo Agent"\ncommand = ${JSON.stringify(demo)}\n` +
          `[models.missing]\nkind = "acp"\nname = "Your Agent"\ncommand = ["no-such-agent-anywhere"]\n` +
          Object.entries(agents(at))
            .map(([name, command], index) => `[models.other${index}]\nkind = "acp"\nagent = "demo"\nname = "${name}"\ncommand = ${JSON.stringify(command)}\n`)
            .join(''),
      );
      // What starts programs is a setting of the machine, so that no folder can bring it along.
      writeFileSync(
        at('data/Machine/settings.json'),
        JSON.stringify({
          'dragoman.command': [process.execPath, path.join(HERE, 'record.mjs'), at('backend.jsonl'), dragoman],
          'dragoman.configuration': at('dragoman.toml'),
        }),
      );
    }
    writeFileSync(at('data/User/settings.json'), JSON.stringify({ ...SETTINGS, 'dragoman.logLevel': 'debug', ...settings }));
    cpSync(path.join(HERE, 'witness'), at('extensions', 'dragoman-tests.witness-0.0.1'), { recursive: true });
    try {
      await editor.#serve(vsix);
      await editor.#open();
    } catch (error) {
      await editor.close();
      throw error;
    }
    return editor;
  }

  async #serve(vsix) {
    const code = path.join(CACHE, this.release, 'node_modules/code-server/out/node/entry.js');
    const log = openSync(this.at('server.log'), 'a');
    const { DRAGOMAN_CONFIG: _, ...inherited } = process.env;
    const env = {
      ...inherited,
      PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`,
      HOME: this.at('home'),
      XDG_CONFIG_HOME: this.at('home', '.config'),
      DRAGOMAN_STATE_DIR: this.at('state'),
      WITNESS_RECORD: this.at('witness.jsonl'),
      WITNESS_CALL: this.at('call.json'),
      CS_DISABLE_GETTING_STARTED_OVERRIDE: '1',
    };
    const common = [code, '--user-data-dir', this.at('data'), '--extensions-dir', this.at('extensions')];
    const installed = spawnSync(process.execPath, [...common, '--install-extension', vsix], { env, encoding: 'utf8' });
    if (installed.status !== 0) {
      throw new Error(`the extension cannot be installed: ${installed.stdout}${installed.stderr}`);
    }
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}/?folder=${this.at('workspace')}`;
    this.server = spawn(
      process.execPath,
      [
        ...common,
        ...['--bind-addr', `127.0.0.1:${port}`, '--auth', 'none', '--disable-telemetry', '--disable-update-check'],
        ...['--disable-workspace-trust', this.at('workspace')],
      ],
      { env, stdio: ['ignore', log, log] },
    );
    await until('the server', () => answers(`http://127.0.0.1:${port}/healthz`));
  }

  async #open() {
    this.context = await chromium.launchPersistentContext(this.at('browser'), {
      ...launchOptions(),
      viewport: { width: 1440, height: 900 },
    });
    this.page = this.context.pages()[0] ?? (await this.context.newPage());
    this.page.setDefaultTimeout(DEADLINE);
    await this.page.goto(this.url);
    await this.page.waitForSelector('.monaco-workbench', { timeout: STARTUP });
    await until('the witness', () => this.witnessed('activated').length > 0, STARTUP);
    this.chat = new Chat(this, this.page.locator('.part.auxiliarybar'));
    await this.chat.input.waitFor({ timeout: STARTUP });
    await this.#widen();
  }

  /** A chat that is wide enough to be read. */
  async #widen() {
    const { x, y, height } = await this.chat.within.first().boundingBox();
    await this.page.mouse.move(x - 2, y + height / 2);
    await this.page.mouse.down();
    await this.page.mouse.move(x - WIDER, y + height / 2, { steps: 5 });
    await this.page.mouse.up();
  }

  /** As a person does it: a page that is merely torn down leaves VS Code no time to write down what it shows. */
  async reload({ withBuiltInChat = false } = {}) {
    const before = this.witnessed('built-in chat').length;
    const activated = this.witnessed('activated').length;
    await this.page.evaluate(() => {
      globalThis.isOfBefore = true;
    });
    await this.command('Developer: Reload Window');
    await until('another page', () => this.page.evaluate(() => !globalThis.isOfBefore).catch(() => false), STARTUP);
    await this.page.waitForSelector('.monaco-workbench', { timeout: STARTUP });
    await this.chat.input.waitFor({ timeout: STARTUP });
    // Before that the window does not know the participants of extensions, and takes `@dragoman` for words.
    await until('the extensions', () => this.witnessed('activated').length > activated, STARTUP);
    if (withBuiltInChat) {
      await until('the built-in chat', () => this.witnessed('built-in chat').length > before, STARTUP);
    }
  }

  async close() {
    await this.context?.close();
    this.server?.kill('SIGTERM');
    await new Promise((resolve) => {
      if (!this.server || this.server.exitCode !== null) {
        resolve();
      } else {
        this.server.once('exit', resolve);
        setTimeout(() => this.server.kill('SIGKILL'), 10_000).unref();
      }
    });
  }

  // What the backend was told, and said.

  get record() {
    return lines(this.at('backend.jsonl'));
  }

  witnessed(event) {
    return lines(this.at('witness.jsonl')).filter((entry) => entry.event === event);
  }

  /** The requests for an answer; those for titles and the like offer no tools. */
  get requests() {
    return this.record
      .filter(({ direction, method }) => direction === 'in' && method === 'lm/provideLanguageModelChatResponse')
      .filter(({ params }) => params.options.tools?.length > 0);
  }

  get asked() {
    return this.requests.length;
  }

  /** One that Dragoman was put into by a person is not. */
  get isRecorded() {
    return existsSync(this.at('backend.jsonl'));
  }

  /** The parts of answers, from that line of the record on. */
  partsSince(line) {
    return this.record.slice(line).filter(({ method }) => method === 'lm/responsePart').map(({ params }) => params.part);
  }

  get invocations() {
    return this.record.filter(({ direction, method }) => direction === 'in' && method === 'tools/invoke');
  }

  /** The permission that was asked for last: the tool, and its input. */
  get lastQuestion() {
    return this.record
      .filter(({ method, params }) => method === 'lm/responsePart' && params.part.type === 'tool_call')
      .map(({ params: { part: { name, input } } }) => ({ name, input }))
      .findLast(({ name }) => name.startsWith('dragoman-agent-action-'));
  }

  /** Another extension calls a tool, without a chat. */
  async callWithoutChat(call) {
    writeFileSync(this.at('call.json'), JSON.stringify(call));
    await this.command('Witness: Call a Tool');
  }

  get backendPid() {
    return this.record.filter(({ event }) => event === 'started').at(-1)?.pid;
  }

  /** Whether these words are in a chat that VS Code has written down. */
  hasSaved(pattern) {
    const storage = this.at('data/User/workspaceStorage');
    return readdirSync(storage, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.includes('chatSessions') && name.endsWith('.jsonl'))
      .some((name) => pattern.test(readFileSync(path.join(storage, name), 'utf8')));
  }

  // What a person does.

  async command(title) {
    await this.page.keyboard.press('F1');
    const input = this.page.locator('.quick-input-widget input.input');
    await input.waitFor({ state: 'visible', timeout: DEADLINE });
    await input.fill(`>${title}`);
    // The best match comes first, once the list has taken the words in.
    await this.page.locator('.quick-input-widget .monaco-list-row').first().filter({ hasText: title }).waitFor();
    // A list that is just made anew drops the key. Then the words are still there. A window that is loaded anew has no list.
    const isOpen = () =>
      input
        .locator('visible=true')
        .evaluateAll((inputs, words) => inputs.some(({ value }) => value === words), `>${title}`)
        .catch(() => false);
    await until(`the start of ${title}`, async () => {
      await this.page.keyboard.press('Enter');
      return until('the end of the list', async () => !(await isOpen()), 2_000).then(
        () => true,
        () => false,
      );
    });
  }

  /** The built-in chat, signed out. */
  async enableBuiltInChat(start = () => this.command('Dragoman: Use in the Built-in Chat')) {
    await start();
    await this.page.waitForSelector('.modal-editor-part, .models-management-editor', { timeout: DEADLINE });
    await until('the built-in chat', () => this.witnessed('built-in chat').length > 0);
    await until('the end of a dialog', async () => {
      await this.page.keyboard.press('Escape');
      return (await this.page.locator('.modal-editor-part').count()) === 0;
    });
  }

  /** In an open menu, which takes no click right after it has opened. */
  async choose(name) {
    const menus = this.page.locator('.context-view, .action-widget').locator('visible=true');
    const item = menus.getByText(name, { exact: true }).locator('visible=true').first();
    await item.waitFor({ timeout: DEADLINE });
    await until(`the choice of ${name}`, async () => {
      await this.page.waitForTimeout(400);
      await item.click({ timeout: 1_000 }).catch(() => undefined);
      return (await item.count()) === 0;
    });
  }

  async newChat() {
    await this.chat.within.locator('.composite.title [aria-label^="New Chat"]').first().click();
    await until('an empty chat', async () => (await this.chat.responses.count()) === 0);
  }

  /** A second chat, beside the one in the side bar. */
  async chatInEditor() {
    await this.command('Chat: New Chat Editor');
    const chat = new Chat(this, this.page.locator('.editor-group-container').last());
    await chat.input.waitFor({ timeout: DEADLINE });
    await chat.focus();
    return chat;
  }

  async closeEditors() {
    await this.command('View: Close All Editors');
  }

  async statusText() {
    const item = this.page.locator('.statusbar-item').filter({ hasText: 'Dragoman' }).first();
    return (await item.innerText()).replace(/\s+/g, ' ').trim();
  }

  notification(text) {
    return this.page.locator('.notification-list-item, .notification-toast').filter({ hasText: text }).locator('visible=true').first();
  }

  /** Of what lies below the editors: a terminal, a log. */
  async panelText() {
    return plain((await this.page.locator('.part.panel').allInnerTexts()).join('\n'));
  }

  /** The name of the output channel that is in sight. */
  async outputShown() {
    const chosen = this.page.locator('.part.panel select').locator('visible=true').first();
    return (await chosen.count()) === 0 ? undefined : chosen.evaluate(({ selectedOptions }) => selectedOptions[0]?.label);
  }

  /** The user's own configuration, from now on. */
  configure(text) {
    writeFileSync(this.at('home/.config/dragoman/dragoman.toml'), text);
  }

  /** What a workspace brings along, or no more of it. */
  configureWorkspace(settings) {
    const folder = this.at('workspace/.vscode');
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, 'settings.json'), JSON.stringify(settings));
  }

  /** An item of a list that a command has opened; one list follows another. */
  async pickItem(title, words) {
    await this.page.locator('.quick-input-title').getByText(title, { exact: true }).waitFor({ timeout: DEADLINE });
    const row = this.page.locator('.quick-input-widget .monaco-list-row').filter({ hasText: words }).locator('visible=true').first();
    await row.click({ timeout: DEADLINE });
  }

  get modal() {
    return this.page.locator('.monaco-dialog-box').locator('visible=true');
  }

  /** Of a modal dialog, once it is there. */
  async modalText() {
    await this.modal.waitFor({ timeout: DEADLINE });
    return plain(await this.modal.innerText());
  }

  /** Whether all of its text is in sight. */
  modalFits() {
    return this.modal.evaluate((box) =>
      [box, ...box.querySelectorAll('*')].every((part) => part.scrollHeight <= part.clientHeight + 2 || getComputedStyle(part).display.startsWith('inline')),
    );
  }

  async pictureOfModal(file) {
    mkdirSync(path.dirname(file), { recursive: true });
    await this.modal.screenshot({ path: file });
  }

  async answerModal(button) {
    await this.modal.locator('.monaco-button').filter({ hasText: button }).click({ timeout: DEADLINE });
  }

  /** Of whatever menu is open. */
  async menuText() {
    const menus = this.page.locator('.context-view, .action-widget, .quick-input-widget').locator('visible=true');
    return (await menus.allInnerTexts()).join('\n');
  }

  async screenshot(file) {
    mkdirSync(path.dirname(file), { recursive: true });
    await this.page.screenshot({ path: file });
  }

  /** A picture for somebody who looks at every step, in `DRAGOMAN_LOOK`. */
  async look(name) {
    if (process.env.DRAGOMAN_LOOK) {
      await this.screenshot(path.join(process.env.DRAGOMAN_LOOK, `${name}.png`));
    }
  }

  /** The chat alone, or so much of its lower end, without what VS Code would like to sell. */
  async picture(file, lower = Infinity) {
    mkdirSync(path.dirname(file), { recursive: true });
    const offer = this.page.locator('.chat-input-notification .codicon-close, .chat-input-notification-dismiss').locator('visible=true').first();
    if ((await offer.count()) > 0) {
      await offer.click();
    }
    const { x, y, width, height } = await this.chat.within.first().boundingBox();
    const shown = Math.min(height + 36, lower);
    await this.page.screenshot({ path: file, clip: { x: x - 4, y: y + height + 32 - shown, width: width + 8, height: shown } });
  }
}

export class Chat {
  constructor(editor, within) {
    this.editor = editor;
    this.page = editor.page;
    this.within = within;
    this.input = within.locator('.chat-editor-container .monaco-editor').first();
    this.dialogs = within.locator('.chat-tool-confirmation-carousel-container, .chat-confirmation-widget-container, .chat-confirmation-widget2');
  }

  async focus() {
    await until('the focus', async () => {
      await this.input.click();
      return (await this.input.getAttribute('class')).split(' ').includes('focused');
    });
  }

  async say(prompt) {
    const mention = /^@\w+ /.exec(prompt)?.[0] ?? '';
    await until('the words in the input', async () => {
      await this.focus();
      await this.page.keyboard.press('Control+A');
      await this.page.keyboard.press('Delete');
      await this.page.keyboard.type(mention, { delay: 10 });
      await this.page.keyboard.insertText(prompt.slice(mention.length));
      // The list of suggestions takes the first Enter.
      await this.page.waitForTimeout(500);
      const shown = dense(await this.#typed());
      return shown === dense(prompt) || (prompt.length > MORE_THAN_SHOWN && shown !== '' && dense(prompt).endsWith(shown));
    });
    await this.page.keyboard.press('Escape');
    await this.page.keyboard.press('Enter');
  }

  /** The lines of the input that are drawn: all but the beginning of a long prompt. They stand in the page in any order. */
  #typed() {
    return this.input.locator('.view-lines').evaluate((lines) =>
      [...lines.querySelectorAll('.view-line')]
        .sort((one, other) => Number.parseFloat(one.style.top) - Number.parseFloat(other.style.top))
        .map(({ innerText }) => innerText)
        .join('\n'),
    );
  }

  get responses() {
    return this.within.locator('.interactive-response');
  }

  async lastResponse() {
    return (await this.responses.count()) === 0 ? '' : plain(await this.responses.last().innerText());
  }

  /** Everything in it that is in sight. */
  async text() {
    return plain((await this.within.locator('.interactive-item-container').allInnerTexts()).join('\n'));
  }

  /** An answer that says so, in the last response. */
  async hears(pattern, milliseconds = DEADLINE) {
    let last = '';
    return until(`an answer like ${pattern}`, async () => {
      last = await this.lastResponse();
      return pattern.test(last) ? last : undefined;
    }, milliseconds).catch((error) => {
      throw new Error(`${error.message}; the last was: ${last}`);
    });
  }

  get stopButton() {
    return this.within.locator('.interactive-input-part .codicon-stop-circle, .interactive-input-part .codicon-debug-stop').locator('visible=true').first();
  }

  async idle() {
    await until('the end of the answer', async () => (await this.stopButton.count()) === 0);
  }

  async stop() {
    await this.stopButton.click();
    await this.idle();
  }

  /** An answer from its prompt to its end. The one before it stands there until the request has been made. */
  async ask(prompt, pattern) {
    const before = this.editor.asked;
    await this.say(prompt);
    await until('the request', () => this.editor.asked > before || !this.editor.isRecorded);
    const answer = await this.hears(pattern);
    await this.idle();
    return answer;
  }

  /** Another answer to the last prompt. Its button is drawn under the pointer. */
  async retry() {
    const before = this.editor.asked;
    const last = this.responses.last();
    await until('the request', async () => {
      await last.hover();
      await last.locator('.codicon-refresh').last().click();
      return until('its start', () => this.editor.asked > before, 5_000).catch(() => false);
    });
  }

  button(name) {
    return this.dialogs.locator('.monaco-button').filter({ hasText: name }).locator('visible=true').last();
  }

  async dialog() {
    await this.button(/^Skip$/).waitFor({ timeout: DEADLINE });
    return plain(await this.dialogs.last().innerText());
  }

  async skip() {
    await this.button(/^Skip$/).click();
  }

  /** Its own button where nothing longer can be allowed, else from the menu beside the first one. */
  async allowOnce() {
    const button = this.button(/^Allow Once$/);
    await this.button(/^Skip$/).waitFor({ timeout: DEADLINE });
    if ((await button.count()) > 0) {
      await button.click();
      return;
    }
    await this.dialogs.locator('.monaco-dropdown-button').locator('visible=true').last().click({ timeout: DEADLINE });
    await this.editor.choose('Allow Once');
  }

  /** What the dialog's buttons say; those of its title bar have no words. */
  async choices() {
    await this.button(/^Skip$/).waitFor({ timeout: DEADLINE });
    const words = await this.dialogs.last().locator('.monaco-button').locator('visible=true').allInnerTexts();
    return words.map((text) => text.trim()).filter((text) => text !== '');
  }

  /** Whether the end of the dialog's code block is in sight, which its text alone does not say. */
  async showsWhole(end) {
    return this.dialogs.last().evaluate((dialog, words) => {
      const line = [...dialog.querySelectorAll('.view-line')].find(({ innerText }) => innerText.replaceAll('\u00a0', ' ').includes(words));
      const frame = dialog.querySelector('.chat-confirmation-widget-message').getBoundingClientRect();
      const text = line?.querySelector('span').getBoundingClientRect();
      return text !== undefined && text.right <= frame.right && text.bottom <= frame.bottom;
    }, end);
  }

  /** The mode of this chat: `Default permissions`, `Allow all` or `Autopilot (Preview)`. VS Code warns of all but the first. */
  async permissions(name) {
    const shown = this.within.getByText(/^(Default permissions|Allow all|Autopilot \(Preview\))$/).locator('visible=true').last();
    const item = this.page.locator('.action-widget').getByText(name, { exact: true }).locator('visible=true').first();
    const enable = this.editor.modal.locator('.monaco-button').filter({ hasText: 'Enable' });
    // A menu that is redrawn closes without a choice.
    await until(`the mode ${name}`, async () => {
      if ((await enable.count()) > 0) {
        await enable.click({ timeout: 1_000 }).catch(() => undefined);
      } else if ((await item.count()) > 0) {
        await this.page.waitForTimeout(400);
        await item.click({ timeout: 1_000 }).catch(() => undefined);
        await this.page.waitForTimeout(400);
      } else if ((await shown.innerText()).trim() === name) {
        return true;
      } else {
        await shown.click({ timeout: 1_000 }).catch(() => undefined);
        await item.waitFor({ timeout: 2_000 }).catch(() => undefined);
      }
      return false;
    });
  }

  get picker() {
    return this.within.locator('.interactive-input-part').getByText(/^(Demo|Your|Second|Scripted) Agent$/i).locator('visible=true').first();
  }

  /** Only what was used of late stands on top; whoever searches sees everything. A list that is redrawn takes no words. */
  async openPicker(search) {
    const field = this.page.locator('.action-widget input').locator('visible=true').first();
    await until('the list of models', async () => {
      if ((await field.count()) === 0) {
        await this.picker.click();
        await field.waitFor({ timeout: 2_000 }).catch(() => undefined);
      }
      await field.fill(search, { timeout: 1_000 }).catch(() => undefined);
      return (await field.inputValue({ timeout: 1_000 }).catch(() => '')) === search;
    });
  }

  /** A list whose button was redrawn meanwhile stands elsewhere, and is empty: it is opened again. */
  async pick(name) {
    const item = this.page.locator('.action-widget').getByText(name, { exact: true }).locator('visible=true').first();
    const isPicked = async () => (await this.picker.innerText()) === name;
    await until(`${name} in the picker`, async () => {
      if (await isPicked()) {
        return true;
      }
      await this.openPicker(name);
      const isThere = await item.waitFor({ timeout: 2_000 }).then(() => true, () => false);
      await this.page.waitForTimeout(400);
      if (isThere) {
        await item.click({ timeout: 1_000 }).catch(() => undefined);
        return until('the choice', isPicked, 2_000).catch(() => false);
      }
      await this.page.keyboard.press('Escape');
      await this.page.keyboard.press('Escape');
      return false;
    });
    // What the button says of itself would cover its neighbour.
    await this.page.mouse.move(0, 0);
    await until('the end of a hint', async () => (await this.page.locator('.workbench-hover').locator('visible=true').count()) === 0);
  }

  /** It is folded away. */
  async unfoldThinking() {
    await this.responses.last().locator('.chat-thinking-box .monaco-button, .chat-used-context-label .monaco-button').locator('visible=true').first().click();
  }

  async model() {
    return this.within.locator('.interactive-input-part').first().innerText();
  }
}

export { ROOT };
