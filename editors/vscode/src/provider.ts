/** The models of the backend as language models of VS Code. It holds no state of a request but in that request. */
import * as vscode from 'vscode';
import type { PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { signalOf, within } from './cancellation';
import { features, fromWire, toWireMessage, toWireMessages, toWireTools } from './convert';
import { errorText, isCancellation, languageModelError } from './errors';
import { ACTIVITY_OPTION, isPermissionTool, type ModelInformation, type Part } from './wire';

/** As the backend counts: what tokenizers of the last years come to, in any script. */
const BYTES_A_TOKEN = 4;
/** The start of the backend, and agents that are asked what they can do. */
const LIST_MS = 90_000;
/** A prompt has thousands of pieces: one that cannot be counted soon is better guessed. */
const COUNT_MS = 2_000;

export interface ProviderSettings {
  /** The models to offer, by id; all of them if there is none. */
  readonly models: readonly string[];
  readonly permission: 'ask' | 'configured';
  readonly thinking: 'show' | 'text' | 'hide';
}

/** What the backend said last, for as long as it need not run. */
export interface Memory {
  recall(): Promise<readonly ModelInformation[] | undefined>;
  keep(models: readonly ModelInformation[]): Promise<void>;
}

/** Fields that the stable types do not name, and the built-in chat reads or sends. */
type Information = vscode.LanguageModelChatInformation & { isBYOK?: boolean; isUserSelectable?: boolean };
type Options = vscode.ProvideLanguageModelChatResponseOptions & {
  readonly requestInitiator?: string;
  readonly modelConfiguration?: object;
};

export class Provider implements vscode.LanguageModelChatProvider<Information> {
  readonly #backend: Pick<Backend, 'request' | 'state'>;
  readonly #memory: Memory;
  readonly #settings: () => ProviderSettings;
  readonly #approvals: PendingApprovals;
  readonly #log: (message: string) => void;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly onDidChangeLanguageModelChatInformation = this.#changed.event;

  constructor(
    backend: Pick<Backend, 'request' | 'state'>,
    memory: Memory,
    settings: () => ProviderSettings,
    approvals: PendingApprovals,
    log: (message: string) => void,
  ) {
    this.#backend = backend;
    this.#memory = memory;
    this.#settings = settings;
    this.#approvals = approvals;
    this.#log = log;
  }

  /** VS Code asks for the models only when it is told that they have changed. */
  modelsChanged(): void {
    this.#changed.fire();
  }

  dispose(): void {
    this.#changed.dispose();
  }

  async provideLanguageModelChatInformation(
    { silent }: { silent: boolean },
    token: vscode.CancellationToken,
  ): Promise<Information[]> {
    const { signal, dispose } = signalOf(token);
    try {
      const models = await within(LIST_MS, signal, (bounded) => this.#models(silent, bounded));
      const { models: wanted } = this.#settings();
      return models
        .filter(({ id }) => wanted.length === 0 || wanted.includes(id))
        .map((model) => ({ isUserSelectable: true, isBYOK: true, ...model, ...described(model) }));
    } catch (error) {
      // The status bar says what is wrong, with a button; a picker can only be empty.
      this.#log(`no models: ${String(error)}`);
      return [];
    } finally {
      dispose();
    }
  }

  /** A list that nobody has asked for starts nothing, if it is known. */
  async #models(silent: boolean, signal: AbortSignal): Promise<readonly ModelInformation[]> {
    const remembered = silent && this.#backend.state.name === 'stopped' ? await this.#remembered() : undefined;
    if (remembered !== undefined) {
      return remembered;
    }
    const answer = await this.#backend.request('lm/provideLanguageModelChatInformation', { silent }, { signal });
    const { models } = answer as { models: ModelInformation[] };
    // One that cannot be remembered is a list all the same.
    await this.#memory.keep(models).catch((error: unknown) => this.#log(`not remembered: ${String(error)}`));
    return models;
  }

  /** What another version has kept may have another form. */
  #remembered(): Promise<readonly ModelInformation[] | undefined> {
    return this.#memory.recall().catch((error: unknown) => {
      this.#log(`not remembered: ${String(error)}`);
      return undefined;
    });
  }

  async provideLanguageModelChatResponse(
    model: Information,
    messages: readonly vscode.LanguageModelChatRequestMessage[],
    options: Options,
    progress: vscode.Progress<vscode.LanguageModelResponsePart>,
    token: vscode.CancellationToken,
  ): Promise<void> {
    const { signal, dispose } = signalOf(token);
    const { permission, thinking } = this.#settings();
    const history = toWireMessages(messages);
    // VS Code's own chat would not show them: it gets the same as thinking.
    const takesActivity =
      features().activity && thinking !== 'hide' && options.modelOptions?.[ACTIVITY_OPTION] === true;
    this.#approvals.seen(history);
    let hasSpoken = false;
    const onPart = (part: Part) => {
      if (token.isCancellationRequested || (part.type === 'thinking' && thinking === 'hide')) {
        return;
      }
      const made = fromWire(part);
      if (made !== undefined) {
        hasSpoken ||= part.type === 'text' || part.type === 'tool_call';
        this.#approvals.emitted(part);
        progress.report(made);
      }
    };
    try {
      const tools = toWireTools(options.tools).filter(({ name }) => permission === 'ask' || !isPermissionTool(name));
      await this.#backend.request(
        'lm/provideLanguageModelChatResponse',
        {
          modelId: model.id,
          messages: history,
          options: {
            tools,
            toolMode: options.toolMode === vscode.LanguageModelChatToolMode.Required ? 'required' : 'auto',
            modelOptions: { ...options.modelOptions, [ACTIVITY_OPTION]: takesActivity },
            modelConfiguration: options.modelConfiguration,
            requestInitiator: options.requestInitiator,
          },
        },
        { signal, onPart },
      );
    } catch (error) {
      if (token.isCancellationRequested || isCancellation(error)) {
        // Resolved, so that what was streamed stays in the history.
        return;
      }
      this.#log(`${model.id}: ${String(error)}`);
      if (!hasSpoken) {
        throw languageModelError(error);
      }
      // Rejected, what was streamed would be lost from the history.
      progress.report(new vscode.LanguageModelTextPart(errorText(error)));
    } finally {
      dispose();
    }
  }

  /** The chat counts every line of every prompt, thousands at a time: text is counted here, without a word to anybody. */
  async provideTokenCount(
    model: Information,
    text: string | vscode.LanguageModelChatRequestMessage,
    token: vscode.CancellationToken,
  ): Promise<number> {
    if (typeof text === 'string') {
      return tokens(text);
    }
    const message = toWireMessage(text);
    const { signal, dispose } = signalOf(token);
    try {
      const asked = { modelId: model.id, message };
      const count = (bounded: AbortSignal) => this.#backend.request('lm/provideTokenCount', asked, { signal: bounded });
      return Number(await within(COUNT_MS, signal, count));
    } catch {
      // A prompt that cannot be measured could not be rendered at all.
      return tokens(JSON.stringify(message));
    } finally {
      dispose();
    }
  }
}

/** VS Code has no field for tags and drops them; on hover it shows the tooltip. */
function described({ capabilities = {}, tooltip, detail, tags = [] }: ModelInformation) {
  const words = [tooltip ?? detail, `Tags: ${tags.join(', ')}.`].filter((text) => text !== undefined);
  return { capabilities, ...(tags.length > 0 ? { tooltip: words.join('\n\n') } : {}) };
}

function tokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_A_TOKEN);
}
