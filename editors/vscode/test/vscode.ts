/** As much of VS Code as the parts under test touch, for tests that run without it. */

export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}
export class LanguageModelThinkingPart {
  constructor(
    readonly value: string | string[],
    readonly id?: string,
    readonly metadata?: object,
  ) {}
}
export class LanguageModelToolCallPart {
  constructor(
    readonly callId: string,
    readonly name: string,
    readonly input: object,
  ) {}
}
export class LanguageModelToolResultPart {
  isError?: boolean;
  constructor(
    readonly callId: string,
    readonly content: unknown[],
  ) {}
}
export class LanguageModelToolResultPart2 {
  isError = true;
  constructor(
    readonly callId: string,
    readonly content: unknown[],
  ) {}
}
export class LanguageModelDataPart {
  constructor(
    readonly data: Uint8Array,
    readonly mimeType: string,
  ) {}
}
export class LanguageModelPromptTsxPart {
  constructor(readonly value: unknown) {}
}
export class LanguageModelToolResult {
  constructor(readonly content: unknown[]) {}
}
export class LanguageModelChatMessage {
  constructor(
    readonly role: number,
    readonly content: unknown[],
    readonly name?: string,
  ) {}
  static User(content: unknown[], name?: string): LanguageModelChatMessage {
    return new LanguageModelChatMessage(1, content, name);
  }
  static Assistant(content: unknown[], name?: string): LanguageModelChatMessage {
    return new LanguageModelChatMessage(2, content, name);
  }
}
export enum LanguageModelChatToolMode {
  Auto = 1,
  Required = 2,
}
export class LanguageModelError extends Error {
  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
  static NotFound = (message: string) => new LanguageModelError(message, 'NotFound');
  static NoPermissions = (message: string) => new LanguageModelError(message, 'NoPermissions');
  static Blocked = (message: string) => new LanguageModelError(message, 'Blocked');
}
export class CancellationError extends Error {}
export class EventEmitter<T> {
  readonly #listeners = new Set<(value: T) => void>();
  readonly event = (listener: (value: T) => void) => {
    this.#listeners.add(listener);
    return { dispose: () => this.#listeners.delete(listener) };
  };
  fire(value: T): void {
    this.#listeners.forEach((listener) => listener(value));
  }
  dispose(): void {
    this.#listeners.clear();
  }
}
export class CancellationTokenSource {
  readonly #emitter = new EventEmitter<void>();
  readonly token = { isCancellationRequested: false, onCancellationRequested: this.#emitter.event };
  cancel(): void {
    this.token.isCancellationRequested = true;
    this.#emitter.fire();
  }
}
export class MarkdownString {
  constructor(readonly value: string) {}
}
export class ChatRequestTurn {
  constructor(readonly prompt: string) {}
}
export class ChatResponseTurn {
  constructor(
    readonly response: unknown[],
    readonly result: { metadata?: object },
    readonly participant: string,
  ) {}
}
export class ChatResponseMarkdownPart {
  constructor(readonly value: MarkdownString) {}
}
export class Uri {
  constructor(readonly fsPath: string) {}
}
export class Location {}
export class Disposable {
  static from = (...disposables: { dispose(): void }[]) => ({
    dispose: () => disposables.forEach((one) => one.dispose()),
  });
}

/** What the tests put there. */
export const lm = {
  tools: [] as unknown[],
  invokeTool: async (_name: string, _options: object, _token: object): Promise<unknown> => undefined,
  selectChatModels: async (_selector: object): Promise<unknown[]> => [],
  registerTool: () => ({ dispose: () => undefined }),
};
