/** As much of VS Code as the parts under test touch, for tests that run without it. */
import { readFileSync } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

class TextPart {
  constructor(readonly value: string) {}
}
class ThinkingPart {
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
  readonly isError: boolean;
  constructor(
    readonly callId: string,
    readonly content: unknown[],
    isError?: boolean,
  ) {
    this.isError = isError ?? false;
  }
}
class DataPart {
  constructor(
    readonly data: Uint8Array,
    readonly mimeType: string,
  ) {}
}
class BinaryData {
  constructor(
    readonly mimeType: string,
    readonly data: () => Promise<Uint8Array>,
  ) {}
}
class Variant {
  constructor(
    readonly callId: string,
    readonly content: unknown[],
    readonly isError: boolean,
  ) {}
}

/** Those that a VS Code may have or not: each can be taken away. The variants may be classes of their own. */
export const LanguageModelTextPart = TextPart;
export let LanguageModelTextPart2: typeof TextPart | undefined = class {
  constructor(readonly value: string) {}
};
export let LanguageModelThinkingPart: typeof ThinkingPart | undefined = ThinkingPart;
export let LanguageModelDataPart: typeof DataPart | undefined = DataPart;
export let LanguageModelDataPart2: typeof DataPart | undefined = class {
  constructor(
    readonly data: Uint8Array,
    readonly mimeType: string,
  ) {}
};
export let LanguageModelToolResultPart2: typeof Variant | undefined = Variant;
export let ChatReferenceBinaryData: typeof BinaryData | undefined = BinaryData;

/** An older VS Code, for as long as this takes. */
export function withoutNewClasses<T>(does: () => T): T {
  const before = [LanguageModelTextPart2, LanguageModelThinkingPart, LanguageModelDataPart, LanguageModelDataPart2, LanguageModelToolResultPart2, ChatReferenceBinaryData] as const;
  LanguageModelTextPart2 = LanguageModelThinkingPart = LanguageModelDataPart = LanguageModelDataPart2 = LanguageModelToolResultPart2 = ChatReferenceBinaryData = undefined;
  try {
    return does();
  } finally {
    [LanguageModelTextPart2, LanguageModelThinkingPart, LanguageModelDataPart, LanguageModelDataPart2, LanguageModelToolResultPart2, ChatReferenceBinaryData] = before;
  }
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
  isTrusted?: { enabledCommands: string[] };
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
  constructor(
    readonly fsPath: string,
    readonly scheme = 'file',
    readonly query = '',
  ) {}
  static from = ({ scheme, path, query }: { scheme: string; path: string; query: string }) => new Uri(path, scheme, query);
  static file = (fsPath: string) => new Uri(fsPath);
  static joinPath = (base: Uri, ...names: string[]) => new Uri([base.fsPath, ...names].join('/'));
  toString(): string {
    return `${this.scheme}:${this.fsPath}`;
  }
}
export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}
export class Range {
  constructor(
    readonly start: Position,
    readonly end: Position,
  ) {}
}
export enum EndOfLine {
  LF = 1,
  CRLF = 2,
}
/** What an extension gives for a terminal without a program. */
export interface PlayedPty {
  onDidWrite(listener: (text: string) => void): void;
  open(dimensions: undefined): void;
  close(): void;
  handleInput?(data: string): void;
}
/** A document that an editor holds. */
export class PlayedDocument {
  readonly isClosed = false;
  isDirty = false;
  canBeSaved = true;
  constructor(
    readonly uri: Uri,
    public text: string,
    readonly eol = EndOfLine.LF,
  ) {}
  getText = () => this.text;
  /** The offset is all that the tests need of a position. */
  positionAt = (offset: number) => new Position(0, offset);
  save = async () => {
    if (this.canBeSaved) {
      this.isDirty = false;
      await writeFile(this.uri.fsPath, this.text);
    }
    return this.canBeSaved;
  };
}
export class WorkspaceEdit {
  readonly changes: (() => Promise<void> | void)[] = [];
  replace(uri: Uri, { start, end }: Range, piece: string): void {
    this.changes.push(() => {
      const document = editor.textDocuments.find((one) => one.uri.fsPath === uri.fsPath);
      if (document !== undefined) {
        document.text = document.text.slice(0, start.character) + piece + document.text.slice(end.character);
        document.isDirty = true;
      }
    });
  }
  createFile(uri: Uri, { contents }: { contents: Uint8Array }): void {
    this.changes.push(() => workspace.fs.writeFile(uri, contents));
  }
}
export class Location {
  constructor(
    readonly uri: Uri,
    readonly range: { start: { line: number }; end: { line: number } } | Position,
  ) {}
}
export class ThemeIcon {
  constructor(readonly id: string) {}
}
export class ThemeColor {
  constructor(readonly id: string) {}
}
export enum StatusBarAlignment {
  Right = 2,
}
export enum LogLevel {
  Trace = 1,
  Debug = 2,
  Info = 3,
}
export enum ProgressLocation {
  Notification = 15,
}
export class Disposable {
  static from = (...disposables: { dispose(): void }[]) => ({
    dispose: () => disposables.forEach((one) => one.dispose()),
  });
}

export class TreeItem {
  constructor(readonly label: string) {}
}

/** What VS Code stores for an extension. */
export function memento(): { get<T>(key: string): T | undefined; update(key: string, value: unknown): Promise<void> } {
  const kept = new Map<string, unknown>();
  return { get: <T>(key: string) => kept.get(key) as T | undefined, update: async (key, value) => void kept.set(key, value) };
}

/** What the tests put there. */
export const lm = {
  tools: [] as unknown[],
  invokeTool: async (_name: string, _options: object, _token: object): Promise<unknown> => undefined,
  selectChatModels: async (_selector: object): Promise<unknown[]> => [],
  registerTool: () => ({ dispose: () => undefined }),
  registerLanguageModelChatProvider: (_vendor: string, provider: unknown) => {
    editor.provider = provider;
    return { dispose: () => undefined };
  },
};

interface StatusItem {
  text: string;
  tooltip: string;
  backgroundColor?: ThemeColor;
}

const { contributes } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  contributes: { configurationDefaults: Record<string, unknown> };
};
const ELIGIBLE = 'tools.eligibleForAutoApproval';
/** As the manifest sets it, for an extension that asks for the section `chat`. */
const DEFAULTS: Record<string, unknown> = { [ELIGIBLE]: contributes.configurationDefaults[`chat.${ELIGIBLE}`] };

/** A person at an editor: what they were shown, and what they answer. */
export class Editor {
  settings: Record<string, unknown> = {};
  /** Those of the settings above that are the user's, not the workspace's. */
  userSettings: Record<string, unknown> = {};
  folders: { uri: Uri }[] = [];
  /** Labels or buttons, in their order; none is Escape. */
  answers: string[] = [];
  readonly messages: { text: string; buttons: string[]; detail?: string }[] = [];
  /** Those of the messages that are errors. */
  readonly errors: string[] = [];
  /** What happens while a message is open. */
  whileShown: (() => unknown) | undefined;
  readonly picks: { title: string; items: { label: string; description?: string; detail?: string }[] }[] = [];
  readonly executed: [name: string, ...values: unknown[]][] = [];
  /** Commands that fail, and what they say. */
  readonly refusals = new Map<string, string>();
  readonly commands = new Map<string, (...values: unknown[]) => unknown>();
  readonly documents = new Map<string, { provideTextDocumentContent(uri: Uri): Promise<string> }>();
  /** The command lines that terminals run. */
  readonly terminals: string[][] = [];
  /** The options of each terminal. */
  readonly shells: object[] = [];
  tree: unknown;
  readonly textDocuments: PlayedDocument[] = [];
  readonly pseudoterminals: { name: string; pty: PlayedPty }[] = [];
  readonly opened: string[] = [];
  readonly status: StatusItem = { text: '', tooltip: '' };
  readonly logged: string[] = [];
  provider: unknown;
  isLogShown = false;
  isBuiltInChatActive = false;
  builtInCommands = ['lm.addLanguageModelsProviderGroup'];
  configurationChanged = new EventEmitter<{ affectsConfiguration(name: string): boolean }>();

  message = async (text: string, ...rest: (string | object)[]): Promise<string | undefined> => {
    const buttons = rest.filter((one) => typeof one === 'string');
    const { detail } = (rest.find((one) => typeof one === 'object') ?? {}) as { detail?: string };
    this.messages.push({ text, buttons, ...(detail === undefined ? {} : { detail }) });
    await this.whileShown?.();
    return buttons.includes(this.answers[0] ?? '') ? this.answers.shift() : undefined;
  };
}

/** The one of now. */
export let editor = new Editor();

export function anotherEditor(): Editor {
  editor = new Editor();
  return editor;
}

export const window = {
  showErrorMessage: (text: string, ...rest: string[]) => {
    editor.errors.push(text);
    return editor.message(text, ...rest);
  },
  showInformationMessage: (text: string, ...rest: string[]) => editor.message(text, ...rest),
  showWarningMessage: (text: string, ...rest: (string | object)[]) => editor.message(text, ...rest),
  showQuickPick: async (items: { label: string }[], { title }: { title: string }) => {
    editor.picks.push({ title, items });
    const found = items.find(({ label }) => label.includes(editor.answers[0] ?? '\0'));
    if (found !== undefined) {
      editor.answers.shift();
    }
    return found;
  },
  createTerminal: (options: { name: string; shellPath?: string; shellArgs?: string[]; pty?: PlayedPty }) => {
    if (options.pty === undefined) {
      editor.shells.push(options);
      editor.terminals.push([options.shellPath ?? '', ...(options.shellArgs ?? [])]);
    } else {
      editor.pseudoterminals.push({ name: options.name, pty: options.pty });
    }
    return { show: () => undefined };
  },
  createTreeView: (_id: string, { treeDataProvider }: { treeDataProvider: unknown }) => {
    editor.tree = treeDataProvider;
    return { onDidChangeVisibility: () => ({ dispose: () => undefined }), dispose: () => undefined };
  },
  createStatusBarItem: () => Object.assign(editor.status, { show: () => undefined, dispose: () => undefined }),
  createOutputChannel: () => {
    const here = editor;
    let isClosed = false;
    const write = (text: string) => {
      if (isClosed) {
        throw new Error('Channel has been closed');
      }
      here.logged.push(text);
    };
    const show = () => {
      here.isLogShown = true;
    };
    const dispose = () => {
      isClosed = true;
    };
    // As VS Code's own level is, it drops what is below information.
    const drop = () => undefined;
    return { show, error: write, warn: write, info: write, debug: drop, trace: drop, logLevel: LogLevel.Info, dispose };
  },
  withProgress: (_options: object, task: (progress: object, token: object) => Promise<unknown>) =>
    task({ report: () => undefined }, new CancellationTokenSource().token),
  showTextDocument: async (shown: Uri | { text: string }) => editor.opened.push('text' in shown ? shown.text : shown.fsPath),
};
export const extensions = {
  getExtension: (_id: string) => ({ isActive: editor.isBuiltInChatActive }),
};
export const commands = {
  getCommands: async () => editor.builtInCommands,
  registerCommand: (name: string, does: (...values: unknown[]) => unknown) => {
    editor.commands.set(name, does);
    return { dispose: () => undefined };
  },
  executeCommand: async (name: string, ...values: unknown[]) => {
    editor.executed.push([name, ...values]);
    const refusal = editor.refusals.get(name);
    if (refusal !== undefined) {
      throw new Error(refusal);
    }
    await editor.commands.get(name)?.();
  },
};
export const languages = {
  setTextDocumentLanguage: async (document: object, language: string) => Object.assign(document, { language }),
};
export const workspace = {
  registerTextDocumentContentProvider: (scheme: string, provider: { provideTextDocumentContent(uri: Uri): Promise<string> }) => {
    editor.documents.set(scheme, provider);
    return { dispose: () => undefined };
  },
  get textDocuments() {
    return editor.textDocuments;
  },
  applyEdit: async ({ changes }: WorkspaceEdit) => {
    for (const change of changes) {
      await change();
    }
    return true;
  },
  openTextDocument: async (uri: Uri) => {
    if (uri.scheme === 'file') {
      const document = new PlayedDocument(uri, readFileSync(uri.fsPath, 'utf8'));
      editor.textDocuments.push(document);
      return document;
    }
    return { uri, text: await editor.documents.get(uri.scheme)?.provideTextDocumentContent(uri) };
  },
  get workspaceFolders() {
    return editor.folders;
  },
  getConfiguration: () => ({
    get: (name: string, otherwise: unknown) => editor.settings[name] ?? DEFAULTS[name] ?? otherwise,
    inspect: (name: string) => ({ globalValue: editor.userSettings[name] }),
  }),
  onDidChangeWorkspaceFolders: () => ({ dispose: () => undefined }),
  onDidChangeConfiguration: (listener: (change: { affectsConfiguration(name: string): boolean }) => void) =>
    editor.configurationChanged.event(listener),
  fs: {
    stat: ({ fsPath }: Uri) => stat(fsPath),
    writeFile: async ({ fsPath }: Uri, data: Uint8Array) => {
      await mkdir(dirname(fsPath), { recursive: true });
      await writeFile(fsPath, data);
    },
  },
};
export const chat = {
  createChatParticipant: () => ({ iconPath: undefined, dispose: () => undefined }),
};
export const env = { appName: 'Test' };
export const version = '1.0.0';
