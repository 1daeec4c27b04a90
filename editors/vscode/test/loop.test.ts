import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LoopHost, runTurn, STOPPED_BEFORE, STOPPED_DURING } from '../src/loop';
import type { Message, Part, ToolCall } from '../src/wire';

const PROMPT: Message = { role: 'user', content: [{ type: 'text', value: 'go' }] };
const call = (id: string): ToolCall => ({ type: 'tool_call', callId: id, name: `tool-${id}`, input: {} });
const text = (value: string): Part => ({ type: 'text', value });
const marker = (word: string): Part => ({ type: 'data', mimeType: 'stateful_marker', data: word });

/** A host that answers with these, one a round, and runs tools as it is told to. */
class Host implements LoopHost {
  isCancelled = false;
  readonly asked: Message[][] = [];
  readonly answers: (Part[] | (() => Part[]))[];
  invoke: (call: ToolCall) => Promise<Part[]> = async ({ callId }) => [text(`ran ${callId}`)];

  constructor(...answers: (Part[] | (() => Part[]))[]) {
    this.answers = answers;
  }

  async *respond(messages: readonly Message[]): AsyncIterable<Part> {
    this.asked.push([...messages]);
    const next = this.answers[this.asked.length - 1] ?? [];
    for (const part of typeof next === 'function' ? next() : next) {
      yield part;
    }
  }
}

/** The results, by call. */
function results(rounds: readonly Message[]): [string, string, boolean][] {
  return rounds.flatMap(({ content }) =>
    content.flatMap((part): [string, string, boolean][] =>
      part.type === 'tool_result'
        ? [[part.callId, part.content.map((inner) => (inner.type === 'text' ? inner.value : '')).join(''), part.isError ?? false]]
        : [],
    ),
  );
}

test('calls of one answer run side by side, and have their results in the order of the calls', async () => {
  const host = new Host([text('I '), text('look'), call('a'), call('b')], [text('done')]);
  let releaseFirst: () => void = () => assert.fail('the first has not begun');
  host.invoke = ({ callId }) =>
    callId === 'a'
      ? new Promise((resolve) => {
          releaseFirst = () => resolve([text('first')]);
        })
      : Promise.resolve([text('second')]).then((parts) => {
          releaseFirst();
          return parts;
        });
  const { rounds, error } = await runTurn(host, [PROMPT]);
  assert.equal(error, undefined);
  assert.deepEqual(results(rounds), [
    ['a', 'first', false],
    ['b', 'second', false],
  ]);
  assert.deepEqual(rounds[0], { role: 'assistant', content: [text('I look'), call('a'), call('b')] });
  assert.deepEqual(host.asked[1], [PROMPT, ...rounds.slice(0, 3)]);
  assert.deepEqual(rounds.at(-1), { role: 'assistant', content: [text('done')] });
});

test('of an answer stay its last marker, its text and its calls', async () => {
  const thinking: Part = { type: 'thinking', value: 'hm' };
  const usage: Part = { type: 'data', mimeType: 'usage', data: '' };
  const host = new Host([marker('one'), thinking, text('a'), usage, marker('two')]);
  const { rounds } = await runTurn(host, [PROMPT]);
  assert.deepEqual(rounds, [{ role: 'assistant', content: [marker('two'), text('a')] }]);
});

test('a tool that fails has an error for a result, and the model goes on', async () => {
  const host = new Host([call('a')], [text('sorry')]);
  host.invoke = () => Promise.reject(new Error('no such file'));
  const { rounds } = await runTurn(host, [PROMPT]);
  assert.deepEqual(results(rounds), [['a', 'ERROR while calling tool: no such file', true]]);
  assert.equal(host.asked.length, 2);
});

test('Stop while tools run: what has finished keeps its result, the rest say so, nobody is asked again', async () => {
  const host = new Host([call('a'), call('b')]);
  const stopped = Object.assign(new Error('Canceled'), { name: 'Canceled' });
  host.invoke = async ({ callId }) => {
    if (callId === 'b') {
      host.isCancelled = true;
      throw stopped;
    }
    return [text('finished')];
  };
  const { rounds, error } = await runTurn(host, [PROMPT]);
  assert.equal(error, undefined);
  assert.deepEqual(results(rounds), [
    ['a', 'finished', false],
    ['b', STOPPED_DURING, true],
  ]);
  assert.equal(host.asked.length, 1);
});

test('Stop while the answer streams: its text stays, and a call it has made did not run', async () => {
  const host = new Host(() => {
    host.isCancelled = true;
    return [text('half an ans'), call('a')];
  });
  host.invoke = () => assert.fail('it runs after Stop');
  const { rounds } = await runTurn(host, [PROMPT]);
  assert.deepEqual(rounds[0], { role: 'assistant', content: [text('half an ans'), call('a')] });
  assert.deepEqual(results(rounds), [['a', STOPPED_BEFORE, true]]);
});

test('an answer that fails keeps what was said before', async () => {
  const broken = new Error('the model is gone');
  const host = new Host([call('a')]);
  const respond = host.respond.bind(host);
  host.respond = async function* (messages) {
    if (host.asked.length === 1) {
      yield text('so far');
      throw broken;
    }
    yield* respond(messages);
  };
  const { rounds, error } = await runTurn(host, [PROMPT]);
  assert.equal(error, broken);
  assert.deepEqual(results(rounds), [['a', 'ran a', false]]);
  assert.deepEqual(rounds.at(-1), { role: 'assistant', content: [text('so far')] });
});

test('a model that never stops calling is stopped', async () => {
  const host = new Host(...Array.from({ length: 9 }, (_, index) => [call(String(index))]));
  const turn = await runTurn(host, [PROMPT], 3);
  assert(turn.reachedLimit);
  assert.equal(results(turn.rounds).length, 3);
});
