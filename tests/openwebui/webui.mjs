// A real Open WebUI, set up as docs/http.md says it, before a real `dragoman serve`.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { until } from '../console_browser/children.mjs';

const DOCUMENT = path.join(import.meta.dirname, '..', '..', 'docs', 'http.md');
// It imports half of PyPI, and makes its database.
const START_SECONDS = 150;

// Of this test only. `USE_SLIM_DOCKER` is Open WebUI without PyTorch; the rest is so that no byte leaves the machine.
const OFFLINE = {
  USE_SLIM_DOCKER: 'true',
  OFFLINE_MODE: 'true',
  HF_HUB_OFFLINE: '1',
  ANONYMIZED_TELEMETRY: 'false',
  DO_NOT_TRACK: 'true',
  SCARF_NO_ANALYTICS: 'true',
  // Off by default: it asks with every word that is typed.
  ENABLE_AUTOCOMPLETE_GENERATION: 'true',
  WEBUI_SECRET_KEY: 'a secret of a test, and long enough for a signature',
};

/** The values of the recipe, by name: what its blocks export. */
export function recipe() {
  const text = readFileSync(DOCUMENT, 'utf8');
  const section = /^### Open WebUI\n[^]*?(?=^#)/m.exec(text)[0];
  const lines = [...section.matchAll(/^export (\w+)=(?:'([^'\n]*)'|(\S+))/gm)];
  return Object.fromEntries(lines.map(([, name, quoted, bare]) => [name, quoted ?? bare]));
}

/** Both kinds of connection, to one server: chat completions as `demo`, and responses as `responses.demo`. */
function connections(served) {
  const { OPENAI_API_BASE_URL, OPENAI_API_KEY, OPENAI_API_CONFIGS, ...rest } = recipe();
  const url = OPENAI_API_BASE_URL.replace('http://127.0.0.1:8427', served.local);
  const { 0: responses } = JSON.parse(OPENAI_API_CONFIGS);
  return {
    ...rest,
    OPENAI_API_BASE_URLS: `${url};${url}`,
    OPENAI_API_KEYS: `${OPENAI_API_KEY};${OPENAI_API_KEY}`,
    OPENAI_API_CONFIGS: JSON.stringify({ 0: {}, 1: { ...responses, prefix_id: 'responses' } }),
  };
}

export class WebUi {
  log = '';

  static async start(served) {
    const webui = new WebUi();
    const port = await freePort();
    webui.url = `http://127.0.0.1:${port}`;
    const data = served.at('webui');
    mkdirSync(data);
    webui.process = spawn(process.env.OPENWEBUI, ['serve', '--host', '127.0.0.1', '--port', String(port)], {
      cwd: data,
      env: { PATH: process.env.PATH, HOME: data, LANG: 'C.UTF-8', DATA_DIR: data, ...OFFLINE, ...connections(served) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // Also where the runner ends this process before `stop`.
    process.once('exit', () => webui.process.kill('SIGKILL'));
    webui.ended = new Promise((resolve) => webui.process.once('close', resolve));
    for (const output of [webui.process.stdout, webui.process.stderr]) {
      output.setEncoding('utf8').on('data', (text) => {
        webui.log += text;
      });
    }
    try {
      await until('Open WebUI', () => webui.#healthy(), START_SECONDS * 1_000);
    } catch (error) {
      throw new Error(`${error.message}\n${webui.log.slice(-4_000)}`, { cause: error });
    }
    return webui;
  }

  async #healthy() {
    if (this.process.exitCode !== null) {
      throw new Error(`Open WebUI ended with status ${this.process.exitCode}`);
    }
    const answer = await fetch(`${this.url}/health`).catch(() => undefined);
    return answer?.ok;
  }

  async stop() {
    this.process.kill('SIGKILL');
    await this.ended;
  }
}

/** A port that was free just now. Open WebUI does not say which one it has taken. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
