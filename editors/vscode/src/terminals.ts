/**
 * Terminals that show the commands of agents. Dragoman runs the commands; a terminal here is a `Pseudoterminal` without a
 * program behind it. Ctrl-C in it, and closing it, end the command.
 */
import * as vscode from 'vscode';

const CTRL_C = '\x03';
/** Of a command, as the name of its terminal. The terminal itself shows all of it. */
const NAME_CHARACTERS = 60;
/** Output that arrives before VS Code has opened the terminal, in characters. The oldest is dropped first. */
const EARLY_CHARACTERS = 1_000_000;

interface Shown {
  write(text: string): void;
  ended(): void;
}

export class AgentTerminals {
  readonly #shown = new Map<string, Shown>();
  readonly #stop: (id: string) => void;

  /** `stop` ends a command, because the user wants that. */
  constructor(stop: (id: string) => void) {
    this.#stop = stop;
  }

  /** `terminal/create` of Dragoman. */
  create(params: unknown): Promise<object> {
    const { id, command } = params as { id: string; command: string; cwd: string };
    const written = new vscode.EventEmitter<string>();
    let early: string | undefined = '';
    let isRunning = true;
    const stop = () => {
      if (isRunning) {
        this.#stop(id);
      }
    };
    const write = (text: string) => {
      if (early === undefined) {
        written.fire(text);
      } else {
        early = (early + text).slice(-EARLY_CHARACTERS);
      }
    };
    const pty: vscode.Pseudoterminal = {
      onDidWrite: written.event,
      open: () => {
        const before = early ?? '';
        early = undefined;
        written.fire(before);
      },
      close: () => {
        stop();
        this.#shown.delete(id);
        written.dispose();
      },
      handleInput: (data) => {
        if (data.includes(CTRL_C)) {
          write('^C\r\n');
          stop();
        }
      },
    };
    this.#shown.set(id, {
      write,
      ended: () => {
        isRunning = false;
      },
    });
    // Without a driver, a line feed alone would not go back to the first column.
    write(`\x1b[1m$ ${command.split('\n').map(visible).join('\r\n')}\x1b[0m\r\n`);
    // Not in front: the user may be typing elsewhere.
    vscode.window.createTerminal({ name: nameOf(command), pty, iconPath: new vscode.ThemeIcon('hubot') }).show(true);
    return Promise.resolve({});
  }

  /** A notification about a terminal. Returns whether it was one. */
  notified(method: string, params: unknown): boolean {
    if (method !== 'terminal/output' && method !== 'terminal/exit') {
      return false;
    }
    const { id, data, exitCode, signal } = params as {
      id: string;
      data?: string;
      exitCode?: number | null;
      signal?: string | null;
    };
    const shown = this.#shown.get(id);
    if (method === 'terminal/output') {
      // There is no terminal driver that adds the carriage return.
      shown?.write((data ?? '').replace(/\r?\n/g, '\r\n'));
    } else {
      shown?.write(`\r\n\x1b[2m[${ending(exitCode, signal)}]\x1b[0m\r\n`);
      shown?.ended();
      this.#shown.delete(id);
    }
    return true;
  }

  /** The backend has ended, and every command with it. */
  clear(): void {
    for (const shown of this.#shown.values()) {
      shown.write('\r\n\x1b[2m[Ended with Dragoman]\x1b[0m\r\n');
      shown.ended();
    }
    this.#shown.clear();
  }
}

function ending(exitCode: number | null | undefined, signal: string | null | undefined): string {
  if (typeof exitCode === 'number') {
    return `Exit code ${exitCode}`;
  }
  return typeof signal === 'string' ? `Ended by ${signal}` : 'Ended';
}

function nameOf(command: string): string {
  const line = visible(command).trim().replace(/\s+/g, ' ');
  return line.length > NAME_CHARACTERS ? `${line.slice(0, NAME_CHARACTERS)}…` : line;
}

/** A text without control characters, which a terminal would obey. Python has made marks of those that matter. */
function visible(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, ' ');
}
