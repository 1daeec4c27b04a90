/**
 * The requests for permission that wait for a person, for the status bar alone: what is allowed is decided elsewhere.
 *
 * One waits from the moment the agent asks until it is allowed, until its result comes back whatever it says, or until
 * the backend that asked is gone.
 */
import { isPermissionTool, type Message, type Part } from './wire';

export class PendingApprovals {
  readonly #waiting = new Map<string, string>();
  readonly #changed: (count: number) => void;

  constructor(changed: (count: number) => void) {
    this.#changed = changed;
  }

  get count(): number {
    return this.#waiting.size;
  }

  get nonces(): string[] {
    return [...new Set(this.#waiting.values())];
  }

  emitted(part: Part): void {
    if (part.type === 'tool_call' && isPermissionTool(part.name)) {
      this.#waiting.set(part.callId, nonceOf(part.input));
      this.#changed(this.count);
    }
  }

  /** A history with a result has an answer. */
  seen(messages: readonly Message[]): void {
    this.answered(
      messages.flatMap(({ content }) => content.flatMap((part) => (part.type === 'tool_result' ? [part.callId] : []))),
    );
  }

  answered(callIds: readonly string[]): void {
    const before = this.count;
    callIds.forEach((callId) => this.#waiting.delete(callId));
    this.#tellUnless(before);
  }

  invoked(input: object): void {
    const nonce = nonceOf(input);
    this.answered([...this.#waiting].flatMap(([callId, other]) => (other === nonce ? [callId] : [])));
  }

  clear(): void {
    const before = this.count;
    this.#waiting.clear();
    this.#tellUnless(before);
  }

  #tellUnless(before: number): void {
    if (this.count !== before) {
      this.#changed(this.count);
    }
  }
}

export function nonceOf(input: object): string {
  return String((input as { nonce?: unknown }).nonce ?? '');
}
