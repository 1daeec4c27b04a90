// The page's modules that need no browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventParser } from '../../src/dragoman/frontends/console/page/stream.js';
import { texts } from '../../src/dragoman/frontends/console/page/texts.js';

const STREAM = ': comment\r\nid: E-1\r\nevent: question\r\ndata: {"a":\r\ndata: 1}\r\n\r\nid: E-2\nevent: beat\ndata: {}\n\ndata: x\n\n';
const EVENTS = [
  { id: 'E-1', event: 'question', data: '{"a":\n1}' },
  { id: 'E-2', event: 'beat', data: '{}' },
  { id: 'E-2', event: 'message', data: 'x' },
];

test('an event stream gives the same events however it is cut', () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < STREAM.length; at += size) events.push(...parser.push(STREAM.slice(at, at + size)));
    assert.deepEqual(events, EVENTS, `in pieces of ${size}`);
  }
});

test('an event that is not complete is not given', () => {
  assert.deepEqual(new EventParser().push('event: closed\ndata: {}\n'), []);
});

test('an event without data is none', () => {
  assert.deepEqual(new EventParser().push('id: E-7\nevent: beat\n\n'), []);
});

const OUTCOME = { state: 'allowed', by: 'phone', at: 1, level: 'once', reason: null, rule: null };

test('an outcome says who decided what', () => {
  assert.equal(texts.outcome(OUTCOME), 'Allowed once by phone');
  assert.equal(texts.outcome({ ...OUTCOME, level: 'workspace' }), 'Allowed for the workspace by phone');
  assert.equal(texts.outcome({ ...OUTCOME, rule: 'rules.toml:3' }), 'Allowed with a new rule by phone');
  assert.equal(texts.outcome({ ...OUTCOME, state: 'denied', level: null }), 'Denied by phone');
  assert.equal(texts.outcome({ ...OUTCOME, state: 'expired', by: null }), 'Time ran out, so it was denied');
});

test('a span of time is never negative', () => {
  assert.deepEqual([-3, 59.9, 60, 3600 + 125].map(texts.span), ['0 s', '59 s', '1 min 0 s', '1 h 2 min']);
});
