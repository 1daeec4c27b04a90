/** The models of the backend as language models of VS Code. The provider has no state that requests share. */
import * as vscode from 'vscode';
import { type AgentState, usageOf } from './agentState';
import type { PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { signalOf, within } from './cancellation';
import { features, fromWire, toWireMessage, toWireMessages, toWireTools } from './convert';
import { errorText, isCancellation, languageModelError } from './errors';
import { RpcError } from './rpc';
import { tokensOfMessage, tokensOfText } from './tokens';
import { ACTIVITY_OPTION, isPermissionTool, type ModelInformation, type Part, USAGE } from './wire';

/** Includes the start of the backend, and of agents that report their capabilities. */
const LIST_MS = 90_000;

export interface ProviderSettings {
  /** The ids of the models to offer; if empty, all models. */
  readonly models: readonly string[];
  readonly permission: 'ask' | 'configured';
  readonly thinking: 'show' | 'text' | 'hide';
}

/** The last list of the backend, for a window in which it need not run. */
export interface Memory {
  recall(): Promise<readonly ModelInformation[] | undefined>;
  keep(models: readonly ModelInformation[]): Promise<void>;
}

/** Fields that the built-in chat reads or sends, and that the stable types lack. */
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
  readonly #agents: AgentState;
  readonly #listed: () => void;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly onDidChangeLanguageModelChatInformation = this.#changed.event;

  constructor(
    backend: Pick<Backend, 'request' | 'state'>,
    memory: Memory,
    settings: () => ProviderSettings,
    approvals: PendingApprovals,
    log: (message: string) => void,
    agents: AgentState,
    /** Called when VS Code gets models, with at least one. */
    listed: () => void = () => undefined,
  ) {
    this.#agents = agents;
    this.#backend = backend;
    this.#memory = memory;
    this.#settings = settings;
    this.#approvals = approvals;
    this.#log = log;
    this.#listed = listed;
  }

  /** Fire the change event: VS Code requests the models only after it. */
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
      this.#agents.named(models);
      if (models.length > 0) {
        this.#listed();
      }
      return models
        .filter(({ id }) => wanted.length === 0 || wanted.includes(id))
        .map((model) => ({ isUserSelectable: true, isBYOK: true, ...model, ...described(model) }));
    } catch (error) {
      // The status bar shows what is wrong, with a button; a picker can only be empty.
      this.#log(`no models: ${String(error)}`);
      return [];
    } finally {
      dispose();
    }
  }

  /** A request in the background does not start the backend if the models are remembered. */
  async #models(silent: boolean, signal: AbortSignal): Promise<readonly ModelInformation[]> {
    const remembered = silent && this.#backend.state.name === 'stopped' ? await this.#remembered() : undefined;
    if (remembered !== undefined) {
      return remembered;
    }
    const answer = await this.#backend.request('lm/provideLanguageModelChatInformation', { silent }, { signal });
    const { models } = answer as { models: ModelInformation[] };
    // The list is valid also if it cannot be stored.
    await this.#memory.keep(models).catch((error: unknown) => this.#log(`not remembered: ${String(error)}`));
    return models;
  }

  /** Recall the stored list, which may have the form of another version. */
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
    // VS Code's own chat cannot show activities: it gets them as thinking.
    const takesActivity =
      features().activity && thinking !== 'hide' && options.modelOptions?.[ACTIVITY_OPTION] === true;
    this.#approvals.seen(history);
    let hasSpoken = false;
    const onPart = (part: Part) => {
      if (token.isCancellationRequested || (part.type === 'thinking' && thinking === 'hide')) {
        return;
      }
      this.#note(model.id, part);
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
            // What VS Code has from the user wins.
            modelConfiguration: { ...this.#agents.chosen(model.id), ...options.modelConfiguration },
            requestInitiator: options.requestInitiator,
          },
        },
        { signal, onPart },
      );
      this.#agents.loginNeeded(model.id, false);
    } catch (error) {
      if (token.isCancellationRequested || isCancellation(error)) {
        // Resolve, so that the streamed parts stay in the history.
        return;
      }
      this.#log(`${model.id}: ${String(error)}`);
      this.#agents.loginNeeded(model.id, error instanceof RpcError && error.kind === 'auth_required');
      if (!hasSpoken) {
        throw languageModelError(error);
      }
      // A rejection would remove the streamed parts from the history.
      progress.report(new vscode.LanguageModelTextPart(errorText(error)));
    } finally {
      dispose();
    }
  }

  #note(modelId: string, part: Part): void {
    const usage = part.type === 'usage' ? part : part.type === 'data' && part.mimeType === USAGE ? usageOf(part.data) : undefined;
    if (usage !== undefined) {
      this.#agents.used(modelId, usage);
    }
  }

  /** Count tokens. The backend has no better count, so no request is made: a count must not start a process. */
  async provideTokenCount(
    _model: Information,
    text: string | vscode.LanguageModelChatRequestMessage,
    _token: vscode.CancellationToken,
  ): Promise<number> {
    return typeof text === 'string' ? tokensOfText(text) : tokensOfMessage(toWireMessage(text));
  }
}

/** VS Code has no field for tags and drops them; on hover it shows the tooltip. */
function described({ capabilities = {}, tooltip, detail, tags = [] }: ModelInformation) {
  const words = [tooltip ?? detail, `Tags: ${tags.join(', ')}.`].filter((text) => text !== undefined);
  return { capabilities, ...(tags.length > 0 ? { tooltip: words.join('\n\n') } : {}) };
}
