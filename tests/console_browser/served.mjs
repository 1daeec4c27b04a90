// A real `dragoman serve` in a terminal, with a home, a state and a configuration of its own; and a proxy with TLS.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Child, DRAGOMAN, HERE, PYTHON, until } from './children.mjs';

const HOST = 'dragoman.test';

/** In front of a server, under another name: `hostHeader` is "keep" or "rewrite". */
export class TlsProxy {
  static async start(hostHeader) {
    const proxy = new TlsProxy();
    proxy.child = new Child([path.join(HERE, 'tls_proxy.py'), hostHeader], {
      heard: ({ port }) => {
        proxy.port = port;
      },
    });
    await until('the proxy', () => proxy.port);
    proxy.url = `https://${HOST}:${proxy.port}`;
    return proxy;
  }

  upstream(port) {
    this.child.send(`upstream ${port}`);
  }

  /** Drops every connection; new ones are accepted. */
  cut() {
    this.child.send('cut');
  }

  refuse() {
    this.child.send('refuse');
  }

  accept() {
    this.child.send('accept');
  }

  stop() {
    return this.child.stop();
  }
}

export class Served {
  /**
   * `proxy`: whether a TLS proxy is before it, and what that does with Host: "keep" or "rewrite".
   * `settings` are lines for the configuration, `console` and `model` for the console and each model; `options` are for the fake agent.
   * `workers` are names: then it is a gateway of a fleet, and they run the agents.
   */
  static async start({ proxy, console = '', settings = '', model = '', options = {}, workers = [] } = {}) {
    const served = new Served();
    try {
      await served.#start({ proxy, console, settings, model, options, workers });
    } catch (error) {
      await served.stop();
      throw new Error(`${error.message}\n${served.screen}`, { cause: error });
    }
    return served;
  }

  folder = mkdtempSync(path.join(tmpdir(), 'dragoman-console-'));
  screen = '';
  // For `serve`.
  serveOptions = [];
  // Other commands that run beside it.
  nodes = [];
  // Also where the runner ends this process before `stop`.
  #remove = () => rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });

  constructor() {
    process.once('exit', this.#remove);
  }

  at(...names) {
    return path.join(this.folder, ...names);
  }

  async #start({ proxy, console, settings, model, options, workers }) {
    for (const name of ['home', 'state', 'agent', 'work']) {
      mkdirSync(this.at(name));
    }
    this.proxy = proxy && (await TlsProxy.start(proxy));
    const agent = [PYTHON, path.join(HERE, 'intruder.py'), JSON.stringify({ folder: this.at('agent'), lists: 'none', name: 'Fake', ...options })];
    const demo = [PYTHON, path.join(HERE, '..', 'fake_agent', 'demo.py'), '--sessions', this.at('sessions')];
    writeFileSync(
      this.at('dragoman.toml'),
      `[console]\n${console}\n${this.proxy ? `url = "${this.proxy.url}"\n` : ''}` +
        // A test that failed leaves requests behind.
        `[serve]\ndrain_seconds = 1\n${settings}\n` +
        `[models.demo]\nkind = "acp"\nagent = "demo"\ncommand = ${JSON.stringify(demo)}\ncwd = "${this.at('work')}"\n${model}\n` +
        `[models.agent]\nkind = "acp"\ncommand = ${JSON.stringify(agent)}\ncwd = "${this.at('work')}"\n${model}\n`,
    );
    if (workers.length) {
      await this.#startFleet(workers);
    }
    await this.#launch(0);
  }

  async #startFleet(workers) {
    const table = /\[fleet\]\s+url = "[^"]+"\s+credentials = "[^"]+"/;
    const [found] = await this.#node(['fleet', 'up', '--port', '0'], table);
    const file = this.at('dragoman.toml');
    writeFileSync(file, `${readFileSync(file, 'utf8')}\n${found.replaceAll('\r', '')}\n`);
    const made = await this.#node(['fleet', 'credentials', 'worker', ...workers], new RegExp(`${workers.at(-1)}\\.creds`));
    await made.child.stop();
    for (const name of workers) {
      await this.#node(['worker', '--name', name], /to the fleet at/);
    }
    this.serveOptions = ['--name', 'gateway-1'];
  }

  /** Starts a command that goes on, and waits for what it says. */
  async #node(words, says) {
    let said = '';
    const child = this.command(words, ({ text }) => {
      said += text ?? '';
    });
    this.nodes.push(child);
    const found = await until(says, () => says.exec(said)).catch((error) => {
      throw new Error(`${error.message}: ${said}`, { cause: error });
    });
    return Object.assign(found, { child });
  }

  /** A command of Dragoman in a terminal, with the home, the configuration and the state of this server. */
  command(words, heard) {
    const command = [DRAGOMAN, ...words, '--config', this.at('dragoman.toml'), '--state-dir', this.at('state')];
    return new Child([path.join(HERE, 'terminal_relay.py'), ...command], {
      env: { PATH: process.env.PATH, HOME: this.at('home'), TERM: 'xterm-256color', LANG: 'C.UTF-8', SHELL: '/bin/sh' },
      heard,
    });
  }

  async #launch(wanted) {
    this.exit = undefined;
    this.pid = undefined;
    this.screen = '';
    this.terminal = this.command(['serve', '--port', String(wanted), ...this.serveOptions], ({ pid, text, exit }) => {
      this.pid ??= pid;
      this.screen += text ?? '';
      this.exit = exit ?? this.exit;
    });
    const [, port] = await until('the address', () => this.#fails() || /serving at http:\/\/127\.0\.0\.1:(\d+)\/v1/.exec(this.screen));
    this.port = Number(port);
    this.local = `http://127.0.0.1:${port}`;
    this.proxy?.upstream(port);
  }

  /** Ends the process, and starts another one at the same address. */
  async restart() {
    await this.terminal.stop();
    await this.#launch(this.port);
  }

  #fails() {
    if (this.exit !== undefined) {
      throw new Error(`serve ended with status ${this.exit}`);
    }
  }

  /** Where a browser opens the console. */
  get url() {
    return this.proxy?.url ?? this.local;
  }

  press(key) {
    this.terminal.send(JSON.stringify(key));
  }

  /** A new pairing code, as a person gets it: from the terminal, after a key press. */
  async code() {
    const before = this.codes().length;
    this.press('p');
    await until('a pairing code', () => this.#fails() || this.codes().length > before);
    return this.codes().at(-1);
  }

  /** Every code that the terminal has shown. */
  codes() {
    return [...this.screen.matchAll(CODE)].map(([, code]) => code);
  }

  /** What the fake agent noted. */
  journal(method) {
    const file = this.at('agent', 'journal');
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
    return lines.map((line) => JSON.parse(line)).filter((note) => !method || note.method === method);
  }

  /** Opens a gate of the fake agent. */
  open(gate, content = '') {
    writeFileSync(this.at('agent', `${gate}.new`), content);
    renameSync(this.at('agent', `${gate}.new`), this.at('agent', gate));
  }

  async stop() {
    await this.terminal?.stop();
    for (const node of this.nodes.reverse()) {
      await node.stop();
    }
    await this.proxy?.stop();
    this.#remove();
  }
}

const CODE = /pairing code[^:\n]*: ([A-Z2-9]{4}-[A-Z2-9]{4}) /g;
