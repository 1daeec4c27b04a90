/** The official JavaScript library with the Responses API, and its stream helper. */

import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

import { KEY, TOOLS } from './job.mjs';

const City = z.object({ name: z.string(), people: z.number() });
const PARAMETERS = {
  type: 'object', properties: { word: { type: 'string' } }, required: ['word'], additionalProperties: false,
};

export class OpenAIResponses {
  constructor(job) {
    this.job = job;
    this.responses = new OpenAI({ baseURL: job.url, apiKey: KEY }).responses;
  }

  async text() {
    const response = await this.responses.create({ model: this.job.model, input: this.job.prompt });
    this.job.texts.push(response.output_text);
  }

  async stream() {
    const stream = this.responses.stream({ model: this.job.model, input: this.job.prompt });
    stream.on('response.output_text.delta', (event) => this.job.piece(event.delta));
    this.job.texts.push((await stream.finalResponse()).output_text);
  }

  async tool_loop() {
    const tools = Object.entries(TOOLS).map(([name, description]) => (
      { type: 'function', name, description, parameters: PARAMETERS, strict: true }));
    const input = [{ role: 'user', content: this.job.prompt }];
    for (;;) {
      const response = await this.responses.stream({ model: this.job.model, input, tools }).finalResponse();
      const calls = response.output.filter((item) => item.type === 'function_call');
      if (!calls.length) {
        this.job.texts.push(response.output_text);
        return;
      }
      // The stream helper adds what it parsed, which no request has.
      input.push(...response.output.map(({ parsed_arguments, ...item }) => item));
      for (const call of calls) {
        const output = this.job.call(call.name, call.parsed_arguments);
        input.push({ type: 'function_call_output', call_id: call.call_id, output });
      }
    }
  }

  async parallel_tools() {
    await this.tool_loop();
  }

  async second_turn() {
    let previous_response_id;
    for (const input of this.job.prompts) {
      const response = await this.responses.create({ model: this.job.model, input, previous_response_id });
      previous_response_id = response.id;
      this.job.texts.push(response.output_text);
    }
  }

  async thinking() {
    const stream = this.responses.stream({ model: this.job.model, input: this.job.prompt });
    stream.on('response.reasoning_summary_text.delta', (event) => { this.job.thinking += event.delta; });
    this.job.texts.push((await stream.finalResponse()).output_text);
  }

  async structured() {
    const [whole, streamed] = this.job.prompts;
    const text = { format: zodTextFormat(City, 'city') };
    const parsed = await this.responses.parse({ model: this.job.model, input: whole, text });
    this.job.objects.push(parsed.output_parsed);
    const stream = this.responses.stream({ model: this.job.model, input: streamed, text });
    this.job.objects.push((await stream.finalResponse()).output_parsed);
  }

  async abort() {
    const stream = await this.responses.create({ model: this.job.model, input: this.job.prompt, stream: true });
    for await (const event of stream) {
      if (event.type === 'response.output_text.delta' && this.job.begun(event.delta)) stream.controller.abort();
    }
  }
}
