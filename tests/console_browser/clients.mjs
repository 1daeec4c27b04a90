// Clients that cannot be asked: curl and the openai client. Each returns the text of the answer.
import path from 'node:path';
import { HERE, output, PYTHON } from './children.mjs';

const KINDS = ['allow_once', 'allow_always', 'reject_once'];
let calls = 0;

/** A prompt for the fake agent: steps, one after the other. */
export const steps = (...all) => JSON.stringify(all);

/** A step that asks whether a command may run. */
export function run(command, more = {}) {
  calls += 1;
  return ['ask', { toolCallId: `run-${calls}`, title: 'Run a command', kind: 'execute', rawInput: { command }, ...more }, KINDS];
}

/** Asks about one command, and goes on after the decision. */
export const asking = (command, more) => steps(['say', 'Before. '], run(command, more), ['say', ' After.']);

function curl(served, where, body) {
  const args = ['-sS', '-N', '-m', '60', `${served.local}/v1/${where}`, '-H', 'content-type: application/json', '--data-binary', '@-'];
  return output('curl', args, { input: JSON.stringify(body) });
}

const text = (response) =>
  response.output.flatMap((item) => (item.type === 'message' ? item.content.map((part) => part.text) : [])).join('');

export async function curlJson(served, input, more = {}) {
  const response = JSON.parse(await curl(served, 'responses', { model: 'agent', input, ...more }));
  if (response.error) {
    throw new Error(JSON.stringify(response.error));
  }
  return text(response);
}

/** The whole response, whatever became of it. */
export const curlResponse = async (served, input, more = {}) => JSON.parse(await curl(served, 'responses', { model: 'agent', input, ...more }));

export const fetched = async (served, id) => JSON.parse(await output('curl', ['-sS', `${served.local}/v1/responses/${id}`]));

/** All that a client gets of a stream, byte by byte. */
export const curlText = (served, input) => curl(served, 'responses', { model: 'agent', input, stream: true });

export async function curlStream(served, input, more = {}) {
  const told = await curl(served, 'responses', { model: 'agent', input, stream: true, ...more });
  const events = told.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
  return text(events.at(-1).response);
}

export async function curlChat(served, input) {
  const made = JSON.parse(await curl(served, 'chat/completions', { model: 'agent', messages: [{ role: 'user', content: input }] }));
  return made.choices[0].message.content;
}

/** `api` is "responses" or "chat". */
export function openai(served, api, input, { stream = false, model = 'agent' } = {}) {
  const args = [path.join(HERE, 'client.py'), api, `${served.local}/v1`, model, ...(stream ? ['--stream'] : [])];
  return output(PYTHON, args, { input });
}
