import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fenced } from '../src/markdown';
import { Steps } from '../src/steps';
import type { Activity, Plan, ProgressPart } from '../src/wire';
import * as vscode from './vscode';

/** What the chat was told to draw, in its order. */
function drawn(...parts: ProgressPart[]) {
  const calls: [string, unknown][] = [];
  const record = (name: string) => (value: unknown) => void calls.push([name, value]);
  const stream = { markdown: record('markdown'), progress: record('progress'), anchor: record('anchor') };
  const steps = new Steps(stream as never);
  parts.forEach((part) => steps.take(part));
  const of = (name: string) => calls.flatMap(([kind, value]) => (kind === name ? [value] : []));
  return { steps, progress: of('progress'), anchors: of('anchor'), markdown: of('markdown').join('') };
}

const step = (more: Partial<Activity>): Activity => ({
  type: 'activity', id: 't1', title: 'Run tests', kind: 'execute', status: 'in_progress', locations: [], ...more,
});
const plan = (...entries: [string, Plan['entries'][number]['status']][]): Plan => ({
  type: 'plan', entries: entries.map(([text, status]) => ({ text, priority: 'medium', status })),
});

test('a step that runs is progress, told once for each title; its end is a line, drawn once', () => {
  const { progress, markdown } = drawn(
    step({ status: 'pending' }),
    step({}),
    step({ output: 'one' }),
    step({ title: 'Run *all* tests' }),
    step({ title: 'Run *all* tests', status: 'failed', exitStatus: 2, output: 'one\ntwo\n' }),
    step({ title: 'Run *all* tests', status: 'failed', exitStatus: 2, output: 'one\ntwo\n' }),
    step({ title: 'late' }),
  );
  assert.deepEqual(progress, ['Run tests', 'Run \\*all\\* tests']);
  assert.equal(markdown, '\n\n✗ Run \\*all\\* tests (exit status 2)\n\n```\none\ntwo\n```\n\n');
});

test('a step that ended names its files, and shows what it changed', () => {
  const locations = [{ path: '/w/a.py', line: 3 }, { path: '/w/b.py' }, { path: 'nowhere.py' }];
  const { anchors, markdown } = drawn(step({ title: 'Edit', status: 'completed', exitStatus: 0, locations, diff: '-a\n+b\n' }));
  assert.deepEqual(anchors, [
    new vscode.Location(new vscode.Uri('/w/a.py'), new vscode.Position(2, 0)),
    new vscode.Uri('/w/b.py'),
  ]);
  assert.equal(markdown, '\n\n✓ Edit  \n\n```diff\n-a\n+b\n```\n\n');
});

test('of a long change the beginning is shown, of a long output the end', () => {
  const lines = Array.from({ length: 100 }, (_, index) => `line ${index}.`);
  const { markdown } = drawn(step({ status: 'completed', diff: lines.join('\n'), output: lines.join('\n') }));
  const [, diff = '', , output = ''] = markdown.split('```');
  assert.match(diff, /^diff\nline 0\.[^]*line 59\.\n…\n$/);
  assert.match(output, /^\n…\nline 80\.[^]*line 99\.\n$/);
  const endless = drawn(step({ status: 'completed', output: 'x'.repeat(64_000) })).markdown;
  assert(endless.length < 10_000);
});

test('nothing that an agent prints ends its block', () => {
  assert.equal(fenced('```\n[link](command:x)\n````'), '`````\n```\n[link](command:x)\n````\n`````');
});

test('a plan is drawn whole, and then what has changed of it', () => {
  const { progress, markdown } = drawn(
    plan(['Look', 'in_progress'], ['Write', 'pending']),
    plan(['Look', 'in_progress'], ['Write', 'pending']),
    plan(['Look', 'completed'], ['Write', 'in_progress']),
    plan(['Look', 'completed'], ['Write', 'completed'], ['Test', 'pending']),
  );
  assert.deepEqual(progress, ['Look', 'Write']);
  const whole = '\n\n◐ Look  \n☐ Write  \n\n';
  assert.equal(markdown, `${whole}\n\n☑ Look  \n\n\n\n☑ Look  \n☑ Write  \n☐ Test  \n\n`);
});

test('of the usage only what was said is shown, and the last of it', () => {
  assert.equal(drawn().steps.usage, undefined);
  const { steps, markdown } = drawn(
    { type: 'usage', input: 5 },
    { type: 'usage', contextUsed: 1_200, contextSize: 200_000, cost: 0.125, currency: 'USD' },
  );
  assert.equal(steps.usage, 'context 1,200 of 200,000 • 0.13 USD');
  assert.equal(markdown, '');
  assert.equal(drawn({ type: 'usage', input: 5, output: 12_345 }).steps.usage, '5 tokens in • 12,345 tokens out');
});

test('what is remembered of a turn has a limit', () => {
  const many = Array.from({ length: 1_001 }, (_, index) => step({ id: `t${index}`, title: `Step ${index}` }));
  const again = (index: number) => step({ id: `t${index}`, title: `Step ${index}` });
  const { progress } = drawn(...many, again(1_000), again(0));
  assert.equal(progress.length, 1_002, 'the first was forgotten, the last was not');
});
