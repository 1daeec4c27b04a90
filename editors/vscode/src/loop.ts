/**
 * The tool loop: send the history to the model, run the tools it calls, add the results, until it calls none.
 *
 * Every call gets exactly one true result, in the order of the calls. When the user stops the turn, finished calls keep
 * their results. Every other call gets a result that says how far it came.
 */
import { isCancellation } from './errors';
import { type Message, type Part, STATEFUL_MARKER, type ToolCall } from './wire';

/** A turn stops after this many rounds. */
export const MAX_ROUNDS = 50;

export const STOPPED_BEFORE = 'Error: Tool execution was interrupted before it began; nothing was run.';
export const STOPPED_DURING = 'The user cancelled the tool call.';

export interface LoopHost {
  /** Send the messages to the model; yields the parts of its answer as they come. */
  respond(messages: readonly Message[]): AsyncIterable<Part>;
  /** Run a tool; rejects when it fails or is cancelled. */
  invoke(call: ToolCall): Promise<Part[]>;
  readonly isCancelled: boolean;
}

export interface Turn {
  /** The answers and the results, in their order, for the next turn's history. */
  readonly rounds: Message[];
  /** The error that ended the turn, if there was one. */
  readonly error?: unknown;
  readonly reachedLimit?: true;
}

export async function runTurn(host: LoopHost, history: readonly Message[], limit = MAX_ROUNDS): Promise<Turn> {
  const rounds: Message[] = [];
  for (let round = 0; round < limit; round++) {
    const content: Part[] = [];
    let error: unknown;
    try {
      for await (const part of host.respond([...history, ...rounds])) {
        content.push(part);
      }
    } catch (caught) {
      error = caught;
    }
    const calls = content.filter((part) => part.type === 'tool_call');
    const answer = merged(content);
    if (answer.length > 0) {
      rounds.push({ role: 'assistant', content: answer });
    }
    if (error !== undefined || host.isCancelled || calls.length === 0) {
      // A call in an answer that failed or was stopped gets a result, too.
      rounds.push(...calls.map((call) => resultOf(call, text(STOPPED_BEFORE), true)));
      return error === undefined || isCancellation(error) ? { rounds } : { rounds, error };
    }
    rounds.push(...(await Promise.all(calls.map((call) => settled(host, call)))));
    if (host.isCancelled) {
      return { rounds };
    }
  }
  return { rounds, reachedLimit: true };
}

async function settled(host: LoopHost, call: ToolCall): Promise<Message> {
  if (host.isCancelled) {
    return resultOf(call, text(STOPPED_BEFORE), true);
  }
  try {
    return resultOf(call, await host.invoke(call));
  } catch (error) {
    if (isCancellation(error) || host.isCancelled) {
      return resultOf(call, text(STOPPED_DURING), true);
    }
    const message = error instanceof Error ? error.message : String(error);
    return resultOf(call, text(`ERROR while calling tool: ${message}`), true);
  }
}

/** The result of a call, in a separate message, like those of the built-in chat. */
function resultOf(call: ToolCall, content: Part[], isError = false): Message {
  return {
    role: 'user',
    content: [{ type: 'tool_result', callId: call.callId, content, ...(isError ? { isError } : {}) }],
  };
}

function text(value: string): Part[] {
  return [{ type: 'text', value }];
}

/**
 * An answer in the form of the built-in chat: the last marker first, text in one piece, then the calls. VS Code stores the
 * history with the chat and every request contains all of it, so other parts are left out.
 */
function merged(content: readonly Part[]): Part[] {
  const marker = content.findLast((part) => part.type === 'data' && part.mimeType === STATEFUL_MARKER);
  const said = content.flatMap((part) => (part.type === 'text' ? [part.value] : [])).join('');
  return [
    ...(marker === undefined ? [] : [marker]),
    ...(said === '' ? [] : text(said)),
    ...content.filter((part) => part.type === 'tool_call'),
  ];
}
