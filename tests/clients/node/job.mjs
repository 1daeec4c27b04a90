/** One job of a client: what it is asked to do, and what it found. */

export const KEY = 'none';

/** The functions that clients offer: name and description. */
export const TOOLS = { look_up: 'Look a word up.', count: 'Count a word.' };

export class Job {
  constructor(asked, tell) {
    Object.assign(this, { url: asked.url, model: asked.model, prompts: asked.prompts, tell });
    this.texts = [];
    this.thinking = '';
    this.calls = [];
    this.objects = [];
  }

  get prompt() {
    if (this.prompts.length !== 1) throw new Error(`${this.prompts.length} prompts`);
    return this.prompts[0];
  }

  /** A piece of the answer is there, and the rest is not. */
  piece(text) {
    this.tell({ piece: text });
  }

  /** Whether the first sentence is there, which is when a client aborts. */
  begun(delta) {
    this.texts = [this.texts.join('') + delta];
    return this.texts[0].includes('.');
  }

  /** One of the client's functions is called. */
  call(name, input) {
    this.calls.push([name, input]);
    return `<${name} of ${input.word}>`;
  }

  result() {
    const { texts, thinking, calls, objects } = this;
    return { texts, thinking, calls, objects };
  }
}
