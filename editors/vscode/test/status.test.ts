import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BackendState } from '../src/backend';
import { Status } from '../src/status';
import * as vscode from './vscode';

const SHOWN: [BackendState, icon: string, tooltip: string, background?: string][] = [
  [{ name: 'stopped' }, '$(circle-outline)', 'Dragoman is not running. It starts with your next prompt.'],
  [{ name: 'starting' }, '$(loading~spin)', 'Dragoman is starting.'],
  [{ name: 'ready', version: '9', pid: 1, configuration: undefined }, '$(comment-discussion)', 'Dragoman 9 is running.'],
  [{ name: 'missing', reason: 'Not set up.' }, '$(rocket)', 'Set up Dragoman: coding agents in the chat, and you decide what they may do.'],
  [{ name: 'failed', reason: 'line 3' }, '$(error)', 'line 3', 'statusBarItem.errorBackground'],
];

for (const [state, icon, tooltip, background] of SHOWN) {
  test(`${state.name}: the status bar says so`, () => {
    const { status } = vscode.anotherEditor();
    new Status().changed(state);
    assert.deepEqual([status.text, status.tooltip, status.backgroundColor?.id], [`${icon} ${state.name === 'missing' ? 'Set Up ' : ''}Dragoman`, tooltip, background]);
  });
}

test('how many wait for a person is there as long as somebody does', () => {
  const { status } = vscode.anotherEditor();
  const shown = new Status();
  shown.changed({ name: 'ready', version: '9', pid: 1, configuration: undefined });
  shown.waiting(2);
  assert.equal(status.text, '$(comment-discussion) Dragoman $(bell-dot) 2');
  assert.match(status.tooltip, /is running\.\nRequests of agents that wait for you: 2$/);
  shown.waiting(0);
  assert.equal(status.text, '$(comment-discussion) Dragoman');
});
