/**
 * `@dragoman`: a chat participant with a model of ours and the tools of this editor. It works without an account.
 *
 * The metadata of a turn's result contains the turn's messages. VS Code stores it with the chat, so the next turn has
 * its history, also after a reload of the window.
 */
import * as vscode from 'vscode';
import type { PendingApprovals } from './approvals';
import { BackendError } from './backend';
import { signalOf, unlessAborted } from './cancellation';
import { features, fromWireMessage, isOne, progressOf, toWire } from './convert';
import { isCancellation, sentence } from './errors';
import { type LoopHost, runTurn } from './loop';
import { plain } from './markdown';
import { editsIn, offerReview } from './review';
import { Steps } from './steps';
import { ACTIVITY_OPTION, isPermissionTool, type Message, type Part, STATEFUL_MARKER, type ToolCall } from './wire';

export const PARTICIPANT = 'dragoman.participant';
const VENDOR = 'dragoman';
const NO_MODEL = 'There is no model yet. Run “Dragoman: Manage Agents”, or “Dragoman: Show Log” to see why.';
/** The most tools that a request may have. */
const MAX_TOOLS = 128;
/** The characters of a thought that fit on a line. */
const THOUGHT_CHARACTERS = 100;

interface Metadata {
  /** The prompt as the model received it, then the rounds. */
  readonly messages?: Message[];
}

type ThinkingStream = vscode.ChatResponseStream & {
  thinkingProgress?(delta: { text: string | string[]; id?: string; metadata?: object }): void;
};

export interface ParticipantHost {
  readonly approvals: PendingApprovals;
  /** Why the backend does not run, if it should. */
  failure(): string | undefined;
}

export async function respond(
  { approvals, failure }: ParticipantHost,
  request: vscode.ChatRequest,
  context: vscode.ChatContext,
  stream: vscode.ChatResponseStream,
  token: vscode.CancellationToken,
): Promise<vscode.ChatResult> {
  const model = await unlessStopped(modelFor(request), token);
  if (token.isCancellationRequested) {
    return {};
  }
  if (model === undefined) {
    const cause = failure();
    return { errorDetails: { message: cause === undefined ? NO_MODEL : sentence(new BackendError(cause)) } };
  }
  if (model.id !== request.model?.id || request.model.vendor !== VENDOR) {
    stream.markdown(`*${plain(standIn(model, request.model))}*\n\n`);
  }
  const { prompt, leftOut } = await promptOf(request);
  if (leftOut.length > 0) {
    stream.markdown(`*${plain(`Not passed on: ${leftOut.join(', ')}.`)}*\n\n`);
  }
  const tools = offered(request, vscode.lm.tools);
  const steps = new Steps(stream);
  const edits = new Set<string>();
  const host: LoopHost = {
    get isCancelled() {
      return token.isCancellationRequested;
    },
    respond: (messages) => answer(model, messages, tools, { stream, steps, edits }, token),
    invoke: (call) => invoke(call, request, token).finally(() => approvals.answered([call.callId])),
  };
  const turn = await runTurn(host, [...historyOf(context.history), prompt]);
  // Also the permission requests that had no dialog.
  approvals.seen(turn.rounds);
  const metadata: Metadata = { messages: [prompt, ...turn.rounds] };
  if (turn.reachedLimit) {
    stream.markdown('\n\nThe agent called tools for so many rounds that it was stopped. Say “go on” to let it.\n');
  }
  for (const edited of edits) {
    offerReview(stream, edited);
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
async function modelFor({ model }: vscode.ChatRequest): Promise<vscode.LanguageModelChat | undefined> {
  const isOurs = model?.vendor === VENDOR;
  const [selected] = isOurs ? await vscode.lm.selectChatModels({ vendor: VENDOR, id: model.id }) : [];
  return selected ?? (await vscode.lm.selectChatModels({ vendor: VENDOR }))[0];
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
  { stream, steps, edits }: { stream: vscode.ChatResponseStream; steps: Steps; edits: Set<string> },
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
      const edited = editsIn(part);
      if (edited !== undefined) {
        edits.add(edited.turn);
      } else if (progress === undefined) {
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

interface Attached {
  readonly places: string[];
  readonly pictures: Part[];
  readonly leftOut: string[];
}

/** The prompt, the paths of its references, and its pictures. An agent reads files itself. */
async function promptOf(request: vscode.ChatRequest): Promise<{ prompt: Message; leftOut: readonly string[] }> {
  const attached: Attached = { places: [], pictures: [], leftOut: [] };
  for (const reference of request.references) {
    await attach(reference, attached);
  }
  const { places, pictures, leftOut } = attached;
  const list = places.map((place) => `- ${place}`).join('\n');
  const value = places.length === 0 ? request.prompt : `${request.prompt}\n\nAttached:\n${list}`;
  return { prompt: { role: 'user', content: [{ type: 'text', value }, ...pictures] }, leftOut };
}

async function attach(reference: vscode.ChatPromptReference, { places, pictures, leftOut }: Attached): Promise<void> {
  const { value } = reference;
  if (typeof value === 'string') {
    places.push(value);
  } else if (value instanceof vscode.Uri) {
    places.push(placeOf(value));
  } else if (value instanceof vscode.Location) {
    places.push(`${placeOf(value.uri)}:${value.range.start.line + 1}-${value.range.end.line + 1}`);
  } else {
    const picture = await pictureOf(value);
    if (picture === undefined) {
      leftOut.push((reference as { name?: string }).name ?? reference.id);
    } else {
      pictures.push(picture);
    }
  }
}

/** The path of a file; for anything else its URI. */
function placeOf(uri: vscode.Uri): string {
  return uri.scheme === 'file' ? uri.fsPath : uri.toString(true);
}

/** The class is not in the stable types. */
interface BinaryData {
  readonly mimeType: string;
  data(): Thenable<Uint8Array>;
}

async function pictureOf(value: unknown): Promise<Part | undefined> {
  if (!isOne(value, 'ChatReferenceBinaryData') || !features().data) {
    return undefined;
  }
  const { mimeType } = value as BinaryData;
  if (!mimeType.startsWith('image/')) {
    return undefined;
  }
  try {
    const data = await (value as BinaryData).data();
    return { type: 'data', mimeType, data: Buffer.from(data).toString('base64') };
  } catch {
    // The file was deleted after it was attached.
    return undefined;
  }
}

/** VS Code wraps the message of a failed request in its own text. */
function reason(error: unknown): string {
  return isCancellation(error) ? 'Stopped.' : sentence(error);
}
