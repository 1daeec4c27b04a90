/**
 * `@dragoman`: the selected model, with the tools of this editor, in any chat and without an account.
 *
 * A turn's messages are kept in the metadata of its result, which VS Code stores with the chat; from there the next
 * turn has its history, after a reload of the window too.
 */
import * as vscode from 'vscode';
import { fromWireMessage, toWire } from './convert';
import { isCancellation, sentence } from './errors';
import { type LoopHost, runTurn } from './loop';
import { isPermissionTool, type Message, type Part, STATEFUL_MARKER, type ToolCall } from './wire';

export const PARTICIPANT = 'dragoman.participant';
const VENDOR = 'dragoman';
/** More than these a request does not take. */
const MAX_TOOLS = 128;
/** Of a thought, as much as fits on a line. */
const THOUGHT_CHARACTERS = 100;

interface Metadata {
  /** The prompt as the model had it, then the rounds. */
  readonly messages?: Message[];
}

type ThinkingStream = vscode.ChatResponseStream & {
  thinkingProgress?(delta: { text: string | string[]; id?: string; metadata?: object }): void;
};

export async function respond(
  request: vscode.ChatRequest,
  context: vscode.ChatContext,
  stream: vscode.ChatResponseStream,
  token: vscode.CancellationToken,
): Promise<vscode.ChatResult> {
  const model = await modelFor(request);
  if (model === undefined) {
    const message = 'There is no model yet. Run “Dragoman: Manage Agents”, or “Dragoman: Show Log” to see why.';
    return { errorDetails: { message } };
  }
  const prompt: Message = { role: 'user', content: [{ type: 'text', value: worded(request) }] };
  const tools = offered(request, vscode.lm.tools);
  const host: LoopHost = {
    get isCancelled() {
      return token.isCancellationRequested;
    },
    respond: (messages) => answer(model, messages, tools, stream, token),
    invoke: (call) => invoke(call, request, token),
  };
  const turn = await runTurn(host, [...historyOf(context.history), prompt]);
  const metadata: Metadata = { messages: [prompt, ...turn.rounds] };
  if (turn.reachedLimit) {
    stream.markdown('\n\nThe agent called tools for so many rounds that it was stopped. Say “go on” to let it.\n');
  }
  return turn.error === undefined ? { metadata } : { metadata, errorDetails: { message: reason(turn.error) } };
}

/**
 * The one that is selected if it is ours; without an account the picker may stand on one that answers nobody.
 *
 * Either way it is looked up: right after a reload VS Code shows a model that it has not asked us about yet, and
 * knows nobody who would answer for it.
 */
async function modelFor(request: vscode.ChatRequest): Promise<vscode.LanguageModelChat | undefined> {
  const { model } = request;
  const isOurs = model?.vendor === VENDOR;
  const [found] = await vscode.lm.selectChatModels({ vendor: VENDOR, ...(isOurs ? { id: model.id } : {}) });
  return found ?? model;
}

/** The tools the user names first, and never so many that the model is offered none of the permission tools. */
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
  stream: vscode.ChatResponseStream,
  token: vscode.CancellationToken,
): AsyncIterable<Part> {
  const thoughts = new Thoughts(stream);
  const response = await model.sendRequest(messages.map(fromWireMessage), { tools }, token);
  for await (const raw of response.stream) {
    for (const part of toWire(raw)) {
      if (part.type === 'text') {
        stream.markdown(part.value);
      }
      thoughts.take(part);
      yield part;
    }
  }
}

/** Thinking, where this VS Code lets a participant show it; else the first line of each thought, as progress. */
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
      // A proposal that this extension may not use.
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

/** What was said here before: from the metadata, else from what the chat shows. */
export function historyOf(history: vscode.ChatContext['history']): Message[] {
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

/** The prompt, and where the things are that it points to. An agent reads them itself. */
function worded(request: vscode.ChatRequest): string {
  const places = request.references.flatMap(({ value }) => {
    if (typeof value === 'string') {
      return [value];
    }
    if (value instanceof vscode.Uri) {
      return [value.fsPath];
    }
    if (value instanceof vscode.Location) {
      return [`${value.uri.fsPath}:${value.range.start.line + 1}-${value.range.end.line + 1}`];
    }
    return [];
  });
  return places.length === 0 ? request.prompt : `${request.prompt}\n\nAttached:\n${places.map((place) => `- ${place}`).join('\n')}`;
}

/** VS Code puts its own words around what a model was rejected with. */
function reason(error: unknown): string {
  return isCancellation(error) ? 'Stopped.' : sentence(error);
}
