/**
 * `@dragoman`: a chat participant with a model of ours and the tools of this editor. It works without an account.
 *
 * The metadata of a turn's result contains the turn's messages. VS Code stores it with the chat, so the next turn has
 * its history, also after a reload of the window.
 */
import * as vscode from 'vscode';
import type { AgentState } from './agentState';
import { SIGN_IN } from './agents';
import type { PendingApprovals } from './approvals';
import { BackendError } from './backend';
import { signalOf, unlessAborted } from './cancellation';
import { fromWireMessage, progressOf, toWire } from './convert';
import { isCancellation, sentence } from './errors';
import { type LoopHost, runTurn } from './loop';
import { plain } from './markdown';
import { promptOf } from './prompt';
import { Steps } from './steps';
import { ACTIVITY_OPTION, isPermissionTool, type Message, type Part, STATEFUL_MARKER, type StoredConversation, type ToolCall } from './wire';

export const PARTICIPANT = 'dragoman.participant';
/** A command of the participant, in package.json. */
const CONTINUE = 'continue';
const MEMORY = 'The agent has its own memory of it.';
const TRANSCRIPT = 'The agent gets a transcript of it.';
const VENDOR = 'dragoman';
const NO_MODEL = 'There is no model yet. Run “Dragoman: Manage Agents”, or “Dragoman: Show Log” to see why.';
const NOT_SET_UP = 'Dragoman is not set up yet. It goes into its own folder, and needs Python 3.11 or newer. Then ask again.';
/** The most tools that a request may have. */
const MAX_TOOLS = 128;
/** The characters of a thought that fit on a line. */
const THOUGHT_CHARACTERS = 100;

interface Metadata {
  /** The prompt as the model received it, then the rounds. A stored conversation precedes it if this turn continues one. */
  readonly messages?: Message[];
  /** The turn continues a stored conversation: the chat before it is no part of that. */
  readonly isContinued?: true;
  /** The model of the continued conversation, for as long as the user selects no other than at that time. */
  readonly continued?: Continued;
}

interface Continued {
  readonly modelId: string;
  readonly selected?: string;
}

type ThinkingStream = vscode.ChatResponseStream & {
  thinkingProgress?(delta: { text: string | string[]; id?: string; metadata?: object }): void;
};

export interface ParticipantHost {
  readonly approvals: PendingApprovals;
  /** Why the backend does not run, if it should. */
  failure(): string | undefined;
  /** Whether Dragoman is not installed yet. */
  isMissing?(): boolean;
  readonly agents: Pick<AgentState, 'needsLogin'>;
  /** The messages of a stored conversation, by the beginning of its id. */
  stored(id: string): Promise<StoredConversation>;
}

export async function respond(
  { approvals, failure, isMissing, agents, stored }: ParticipantHost,
  request: vscode.ChatRequest,
  context: vscode.ChatContext,
  stream: vscode.ChatResponseStream,
  token: vscode.CancellationToken,
): Promise<vscode.ChatResult> {
  let opened: Opened;
  try {
    opened = await conversationOf(request, context, stored);
  } catch (error) {
    return { errorDetails: { message: reason(error) } };
  }
  const { continued, before, words } = opened;
  const model = await unlessStopped(modelFor(request, continued?.modelId), token);
  if (token.isCancellationRequested) {
    return {};
  }
  if (model === undefined && isMissing?.() === true) {
    stream.markdown(NOT_SET_UP);
    stream.button({ command: 'dragoman.install', title: 'Set Up Dragoman' });
    return {};
  }
  if (model === undefined) {
    const cause = failure();
    return { errorDetails: { message: cause === undefined ? NO_MODEL : sentence(new BackendError(cause)) } };
  }
  const kept = continued === undefined ? {} : { continued };
  if (opened.title !== undefined && words === '') {
    // The next prompt has the history from here.
    stream.markdown(`${plain(`This chat goes on with “${opened.title}”. ${opened.keepsMemory ? MEMORY : TRANSCRIPT} What next?`)}\n`);
    return { metadata: { messages: before, isContinued: true, ...kept } satisfies Metadata };
  }
  if (continued === undefined && (model.id !== request.model?.id || request.model.vendor !== VENDOR)) {
    stream.markdown(`*${plain(standIn(model, request.model))}*\n\n`);
  }
  const { prompt, leftOut } = await promptOf({ prompt: words, references: request.references });
  if (leftOut.length > 0) {
    stream.markdown(`*${plain(`Not passed on: ${leftOut.join(', ')}.`)}*\n\n`);
  }
  const tools = offered(request, vscode.lm.tools);
  const steps = new Steps(stream);
  const host: LoopHost = {
    get isCancelled() {
      return token.isCancellationRequested;
    },
    respond: (messages) => answer(model, messages, tools, { stream, steps }, token),
    invoke: (call) => invoke(call, request, token).finally(() => approvals.answered([call.callId])),
  };
  const isContinued = opened.title !== undefined;
  const turn = await runTurn(host, [...(isContinued ? before : historyOf(context.history)), prompt]);
  // Also the permission requests that had no dialog.
  approvals.seen(turn.rounds);
  const metadata: Metadata = {
    messages: [...(isContinued ? before : []), prompt, ...turn.rounds],
    ...(isContinued ? { isContinued } : {}),
    ...kept,
  };
  if (agents.needsLogin(model.id)) {
    stream.button({ command: SIGN_IN, title: 'Sign In', arguments: [model.id] });
  }
  if (turn.reachedLimit) {
    stream.markdown('\n\nThe agent called tools for so many rounds that it was stopped. Say “go on” to let it.\n');
  }
  return {
    metadata,
    ...(steps.usage === undefined ? {} : { details: steps.usage }),
    ...(turn.error === undefined ? {} : { errorDetails: { message: reason(turn.error) } }),
  };
}

/**
 * The selected model if it is ours, else our first model; never a model of another provider.
 *
 * The selected model is looked up as well: right after a reload VS Code shows a model before it has requested our list,
 * and a request to it would fail.
 */
async function modelFor(
  { model }: vscode.ChatRequest,
  continued: string | undefined,
): Promise<vscode.LanguageModelChat | undefined> {
  if (continued !== undefined) {
    return (await vscode.lm.selectChatModels({ vendor: VENDOR, id: continued }))[0];
  }
  const isOurs = model?.vendor === VENDOR;
  const [selected] = isOurs ? await vscode.lm.selectChatModels({ vendor: VENDOR, id: model.id }) : [];
  return selected ?? (await vscode.lm.selectChatModels({ vendor: VENDOR }))[0];
}

interface Opened {
  /** The user's own text. */
  readonly words: string;
  /** The messages of the conversation that this turn continues. */
  readonly before: Message[];
  readonly title?: string;
  readonly keepsMemory?: boolean;
  readonly continued?: Continued;
}

/** The conversation that a turn belongs to: `/continue ID` names one; else it is that of the chat. */
async function conversationOf(
  request: vscode.ChatRequest,
  { history }: vscode.ChatContext,
  stored: ParticipantHost['stored'],
): Promise<Opened> {
  if (request.command === CONTINUE) {
    const [, id = '', words = ''] = /^\s*(\S*)\s*([^]*)$/.exec(request.prompt) ?? [];
    const { modelId, messages, title, keepsMemory } = await stored(id);
    const continued = { modelId, ...(request.model === undefined ? {} : { selected: request.model.id }) };
    return { words, before: messages, title, keepsMemory, continued };
  }
  const last = history.findLast((turn) => turn instanceof vscode.ChatResponseTurn);
  const { continued } = (last?.result.metadata as Metadata | undefined) ?? {};
  const holds = continued !== undefined && continued.selected === request.model?.id;
  return { words: request.prompt, before: [], ...(holds ? { continued } : {}) };
}

function standIn(model: vscode.LanguageModelChat, selected: vscode.LanguageModelChat | undefined): string {
  return selected === undefined
    ? `${model.name} answers.`
    : `${model.name} answers: “${selected.name}” is none of Dragoman’s models.`;
}

async function unlessStopped<T>(promise: Promise<T>, token: vscode.CancellationToken): Promise<T | undefined> {
  const { signal, dispose } = signalOf(token);
  try {
    return await unlessAborted(promise, signal);
  } catch (error) {
    if (signal.aborted) {
      return undefined;
    }
    throw error;
  } finally {
    dispose();
  }
}

/** The tools to offer, up to the limit: the permission tools first, then those that the user names. */
export function offered(
  request: Pick<vscode.ChatRequest, 'toolReferences'>,
  tools: readonly vscode.LanguageModelToolInformation[],
): vscode.LanguageModelChatTool[] {
  const named = new Set(request.toolReferences.map(({ name }) => name));
  const rank = ({ name }: vscode.LanguageModelToolInformation) =>
    isPermissionTool(name) ? 0 : named.has(name) ? 1 : 2;
  return tools
    .toSorted((one, other) => rank(one) - rank(other))
    .slice(0, MAX_TOOLS)
    .map(({ name, description, inputSchema }) => ({
      name,
      description,
      ...(inputSchema === undefined ? {} : { inputSchema }),
    }));
}

async function* answer(
  model: vscode.LanguageModelChat,
  messages: readonly Message[],
  tools: vscode.LanguageModelChatTool[],
  { stream, steps }: { stream: vscode.ChatResponseStream; steps: Steps },
  token: vscode.CancellationToken,
): AsyncIterable<Part> {
  const thoughts = new Thoughts(stream);
  const options = { tools, modelOptions: { [ACTIVITY_OPTION]: true } };
  const response = await model.sendRequest(messages.map(fromWireMessage), options, token);
  for await (const raw of response.stream) {
    for (const part of toWire(raw)) {
      if (part.type === 'text') {
        stream.markdown(part.value);
      }
      thoughts.take(part);
      const progress = progressOf(part);
      if (progress === undefined) {
        yield part;
      } else {
        // Progress is drawn, and is not part of the history.
        steps.take(progress);
      }
    }
  }
}

/** Shows thinking if this VS Code lets a participant show it; else the first line of each thought, as progress. */
class Thoughts {
  readonly #stream: ThinkingStream;
  #line = '';
  #isTold = false;

  constructor(stream: vscode.ChatResponseStream) {
    this.#stream = stream;
  }

  take(part: Part): void {
    if (part.type === 'thinking') {
      const value = Array.isArray(part.value) ? part.value.join('') : part.value;
      if (!this.#shown(value, part.id)) {
        this.#line += value;
        if (this.#line.includes('\n') || this.#line.length > THOUGHT_CHARACTERS) {
          this.#tell();
        }
      }
    } else if (!(part.type === 'data' && part.mimeType === STATEFUL_MARKER)) {
      this.#tell();
      this.#line = '';
      this.#isTold = false;
    }
  }

  #shown(text: string, id: string | undefined): boolean {
    try {
      this.#stream.thinkingProgress?.({ text, ...(id === undefined ? {} : { id }) });
      return this.#stream.thinkingProgress !== undefined;
    } catch {
      // The API is a proposal that this extension may not use.
      return false;
    }
  }

  #tell(): void {
    const line = this.#line.trim().split('\n', 1)[0] ?? '';
    if (!this.#isTold && line !== '') {
      this.#isTold = true;
      const cut = line.length > THOUGHT_CHARACTERS;
      this.#stream.progress(cut ? `${line.slice(0, THOUGHT_CHARACTERS)}…` : line);
    }
  }
}

async function invoke(
  call: ToolCall,
  request: vscode.ChatRequest,
  token: vscode.CancellationToken,
): Promise<Part[]> {
  const { toolInvocationToken } = request;
  const result = await vscode.lm.invokeTool(call.name, { input: call.input, toolInvocationToken }, token);
  return result.content.flatMap(toWire);
}

/** The history of the chat: from the metadata, else from the text that the chat shows. */
export function historyOf(whole: vscode.ChatContext['history']): Message[] {
  const begins = whole.findLastIndex(
    (turn) => turn instanceof vscode.ChatResponseTurn && (turn.result.metadata as Metadata | undefined)?.isContinued === true,
  );
  const history = begins < 0 ? whole : whole.slice(begins);
  return history.flatMap((turn, index): Message[] => {
    if (turn instanceof vscode.ChatRequestTurn) {
      const next = history[index + 1];
      return next instanceof vscode.ChatResponseTurn && kept(next) !== undefined ? [] : [said('user', turn.prompt)];
    }
    const shown = turn.response.flatMap((part) =>
      part instanceof vscode.ChatResponseMarkdownPart ? [part.value.value] : [],
    );
    return kept(turn) ?? (shown.length > 0 ? [said('assistant', shown.join(''))] : []);
  });
}

function kept(turn: vscode.ChatResponseTurn): Message[] | undefined {
  const messages = (turn.result.metadata as Metadata | undefined)?.messages;
  return turn.participant === PARTICIPANT && Array.isArray(messages) ? messages : undefined;
}

function said(role: 'user' | 'assistant', value: string): Message {
  return { role, content: [{ type: 'text', value }] };
}

/** VS Code wraps the message of a failed request in its own text. */
function reason(error: unknown): string {
  return isCancellation(error) ? 'Stopped.' : sentence(error);
}
