/** The AI SDK, with the provider for OpenAI and with the one for compatible servers. */

import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

import { KEY, TOOLS } from './job.mjs';

const City = z.object({ name: z.string(), people: z.number() });

export class AiSdk {
  constructor(job) {
    this.job = job;
    // A mistake is not tried again.
    this.fields = { model: this.provider(), maxRetries: 0 };
  }

  provider() {
    return createOpenAI({ baseURL: this.job.url, apiKey: KEY })(this.job.model);
  }

  tools() {
    return Object.fromEntries(Object.entries(TOOLS).map(([name, description]) => [name, tool({
      description,
      inputSchema: z.object({ word: z.string() }),
      execute: (input) => this.job.call(name, input),
    })]));
  }

  async text() {
    this.job.texts.push((await generateText({ ...this.fields, prompt: this.job.prompt })).text);
  }

  async stream() {
    const result = streamText({ ...this.fields, prompt: this.job.prompt });
    for await (const delta of result.textStream) this.job.piece(delta);
    this.job.texts.push(await result.text);
  }

  async tool_loop() {
    const options = { tools: this.tools(), stopWhen: stepCountIs(5) };
    this.job.texts.push((await generateText({ ...this.fields, ...options, prompt: this.job.prompt })).text);
  }

  async parallel_tools() {
    const options = { tools: this.tools(), stopWhen: stepCountIs(5) };
    const result = streamText({ ...this.fields, ...options, prompt: this.job.prompt });
    await result.consumeStream({ onError: (error) => { throw error; } });
    this.job.texts.push(await result.text);
  }

  async second_turn() {
    const messages = [];
    for (const content of this.job.prompts) {
      messages.push({ role: 'user', content });
      const result = await generateText({ ...this.fields, messages });
      messages.push(...result.response.messages);
      this.job.texts.push(result.text);
    }
  }

  async thinking() {
    const result = streamText({ ...this.fields, prompt: this.job.prompt });
    for await (const part of result.fullStream) {
      if (part.type === 'reasoning-delta') this.job.thinking += part.text;
    }
    this.job.texts.push(await result.text);
  }

  async structured() {
    const result = await generateText({
      ...this.fields, prompt: this.job.prompt, output: Output.object({ schema: City }),
    });
    this.job.objects.push(result.output);
  }

  async abort() {
    const left = new AbortController();
    const result = streamText({ ...this.fields, prompt: this.job.prompt, abortSignal: left.signal });
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta' && this.job.begun(part.text)) left.abort();
    }
  }
}

export class AiSdkCompatible extends AiSdk {
  provider() {
    const name = 'dragoman';
    return createOpenAICompatible({ name, baseURL: this.job.url, apiKey: KEY, supportsStructuredOutputs: true })(
      this.job.model,
    );
  }
}
