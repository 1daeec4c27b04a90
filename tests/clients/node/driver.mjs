/**
 * Runs JavaScript libraries as clients. Its argument is the folder that has them.
 *
 * Each line of standard input is a job, and each line of standard output is what came of it, as in libraries/driver.py.
 */

import { registerHooks } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

// The libraries are outside the clone, so that they are looked for there.
const installed = pathToFileURL(`${process.argv[2]}/any.mjs`).href;
registerHooks({
  resolve: (name, context, next) =>
    next(name, /^[a-z@]/.test(name) && !name.startsWith('node:') && !context.parentURL?.includes('/node_modules/')
      ? { ...context, parentURL: installed }
      : context),
});

const { Job } = await import('./job.mjs');
const CLIENTS = {
  'openai-js': ['./openai_responses.mjs', 'OpenAIResponses'],
  'openai-js-chat': ['./openai_chat.mjs', 'OpenAIChat'],
  'ai-sdk': ['./ai_sdk.mjs', 'AiSdk'],
  'ai-sdk-compatible': ['./ai_sdk.mjs', 'AiSdkCompatible'],
};

// Only answers go to the harness: a library may print what it likes.
const answers = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const job = new Job(asked, (told) => answers(`${JSON.stringify({ id: asked.id, ...told })}\n`));
  try {
    const [module, name] = CLIENTS[asked.client];
    const client = new (await import(module))[name](job);
    await client[asked.scenario]();
    job.tell({ result: job.result() });
  } catch (error) {
    job.tell({ error: `${error?.stack ?? error}\n${JSON.stringify(error)}` });
  }
}
