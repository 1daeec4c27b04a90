// Processes that the suite starts. Each lives as long as its standard input is open: none outlives a test that dies.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';

export const HERE = import.meta.dirname;
export const DRAGOMAN = process.env.DRAGOMAN;
export const PYTHON = path.join(path.dirname(DRAGOMAN), 'python');

// Longer than anything here takes on a busy machine. Only a test that fails reaches it.
export const DEADLINE = Number(process.env.DRAGOMAN_PATIENCE ?? 30) * 1_000;

// A runner that is killed leaves the processes of its files behind. They end then, and all that they started with them.
const runner = process.ppid;
setInterval(() => process.ppid === runner || process.exit(1), 1_000).unref();

/** Looks again and again, until `look` returns something or time is up. */
export async function until(what, look, milliseconds = DEADLINE) {
  for (const end = Date.now() + milliseconds; Date.now() < end; ) {
    const found = await look();
    if (found) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited in vain for ${what}`);
}

/** A Python program that tells JSON lines on its standard output. */
export class Child {
  #process;
  #exited;

  constructor(args, { env = process.env, heard = () => {} } = {}) {
    this.#process = spawn(PYTHON, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#exited = new Promise((resolve) => this.#process.once('close', resolve));
    this.#process.stdin.on('error', () => {}); // It has ended already.
    createInterface({ input: this.#process.stdout }).on('line', (line) => heard(JSON.parse(line)));
  }

  send(line) {
    this.#process.stdin.write(`${line}\n`);
  }

  async stop() {
    this.#process.stdin.end();
    const killing = setTimeout(() => this.#process.kill('SIGKILL'), DEADLINE);
    await this.#exited;
    clearTimeout(killing);
  }
}

/** Runs a program to its end: its standard output. `input` is for its standard input. */
export function output(command, args, { env = process.env, input = '', signal } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env, signal, stdio: ['pipe', 'pipe', 'pipe'] });
    const told = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8').on('data', (text) => {
        told[name] += text;
      });
    }
    child.once('error', reject);
    child.once('close', (status) =>
      status === 0 ? resolve(told.stdout) : reject(new Error(`${command} ${args.join(' ')} ended with ${status}: ${told.stdout}${told.stderr}`)),
    );
    child.stdin.on('error', () => {}).end(input);
  });
}
