/**
 * The pending permission requests, for the status bar only. Dragoman decides what is allowed.
 *
 * A request is pending until the user allows it, until a history contains its result, or until its backend has ended.
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

  /** Remove the requests that have a result in this history. */
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
