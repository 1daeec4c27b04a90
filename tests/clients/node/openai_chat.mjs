/** The official JavaScript library with chat completions, and its runner of tools. */

import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

import { KEY, TOOLS } from './job.mjs';

const City = z.object({ name: z.string(), people: z.number() });

export class OpenAIChat {
  constructor(job) {
    this.job = job;
    this.completions = new OpenAI({ baseURL: job.url, apiKey: KEY }).chat.completions;
  }

  asked(more = {}) {
    return { model: this.job.model, messages: [{ role: 'user', content: this.job.prompt }], ...more };
  }

  async text() {
    const completion = await this.completions.create(this.asked());
    this.job.texts.push(completion.choices[0].message.content);
  }

  async stream() {
    const stream = this.completions.stream(this.asked());
    stream.on('content', (delta) => this.job.piece(delta));
    this.job.texts.push(await stream.finalContent());
  }

  async tool_loop() {
    const tools = Object.entries(TOOLS).map(([name, description]) => ({
      type: 'function',
      function: {
        name,
        description,
        parameters: { type: 'object', properties: { word: { type: 'string' } } },
        parse: JSON.parse,
        function: (input) => this.job.call(name, input),
      },
    }));
    this.job.texts.push(await this.completions.runTools(this.asked({ tools })).finalContent());
  }

  async parallel_tools() {
    await this.tool_loop();
  }

  async second_turn() {
    const messages = [];
    for (const content of this.job.prompts) {
      messages.push({ role: 'user', content });
      const completion = await this.completions.create({ model: this.job.model, messages });
      messages.push(completion.choices[0].message);
      this.job.texts.push(completion.choices[0].message.content);
    }
  }

  async thinking() {
    // A field that servers with thinking have, and OpenAI's own has not.
    const { message } = (await this.completions.create(this.asked())).choices[0];
    this.job.thinking = message.reasoning_content;
    this.job.texts.push(message.content);
  }

  async structured() {
    const response_format = zodResponseFormat(City, 'city');
    const completion = await this.completions.parse(this.asked({ response_format }));
    this.job.objects.push(completion.choices[0].message.parsed);
  }

  async abort() {
    const stream = await this.completions.create(this.asked({ stream: true }));
    for await (const chunk of stream) {
      if (this.job.begun(chunk.choices[0]?.delta?.content ?? '')) stream.controller.abort();
    }
  }
}
