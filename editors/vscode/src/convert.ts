/**
 * Converts parts between VS Code's classes and the protocol, in both directions.
 *
 * VS Code's classes are minified, so `instanceof` identifies a part. The stable types lack the `…2` variants of some
 * classes, and the thinking part: these are looked up at run time.
 */
import * as vscode from 'vscode';
import { promptTsxText } from './prompttsx';
import { ACTIVITY, type Message, type Part, type ProgressPart, type Role, type Tool } from './wire';

type Class = abstract new (...values: never[]) => object;
interface Thinking {
  readonly value: string | string[];
  readonly id?: string;
  readonly metadata?: object;
}
type ThinkingClass = new (value: string | string[], id?: string, metadata?: object) => object;
/** The flag is not in the stable types. A VS Code without it reads the text instead. */
type ResultClass = new (callId: string, content: unknown[], isError?: boolean) => ResponsePart;

/** The stable enum has two; the built-in chat sends a third. */
const ROLES: Readonly<Record<number, Role>> = { 1: 'user', 2: 'assistant', 3: 'system' };

function classOf(name: string): Class | undefined {
  const found = (vscode as unknown as Record<string, unknown>)[name];
  return typeof found === 'function' ? (found as unknown as Class) : undefined;
}

/** Whether the value is an instance of one of these classes, if this VS Code has the class. */
export function isOne(part: unknown, ...names: string[]): boolean {
  return names.some((name) => {
    const found = classOf(name);
    return found !== undefined && part instanceof found;
  });
}

/** The features of this VS Code. */
export function features(): { thinking: boolean; data: boolean; activity: boolean } {
  const data = classOf('LanguageModelDataPart') !== undefined;
  // Activities go to our participant as data.
  return { thinking: classOf('LanguageModelThinkingPart') !== undefined, data, activity: data };
}

export function toWireMessages(messages: readonly vscode.LanguageModelChatRequestMessage[]): Message[] {
  return messages.map(toWireMessage);
}

export function toWireMessage(message: vscode.LanguageModelChatRequestMessage): Message {
  const { role, name, content } = message;
  const parts: readonly unknown[] = typeof content === 'string' ? [content] : content;
  return {
    role: ROLES[role] ?? 'user',
    content: parts.flatMap(toWire),
    ...(name === undefined ? {} : { name }),
  };
}

/** Convert a part for the protocol; returns none if its class is unknown. */
export function toWire(part: unknown): Part[] {
  if (typeof part === 'string') {
    return [{ type: 'text', value: part }];
  }
  if (isOne(part, 'LanguageModelTextPart', 'LanguageModelTextPart2')) {
    return [{ type: 'text', value: (part as vscode.LanguageModelTextPart).value }];
  }
  if (isOne(part, 'LanguageModelThinkingPart')) {
    const { value, id, metadata } = part as Thinking;
    return [
      {
        type: 'thinking',
        value,
        ...(id === undefined ? {} : { id }),
        ...(metadata === undefined ? {} : { metadata }),
      },
    ];
  }
  if (isOne(part, 'LanguageModelToolCallPart')) {
    const { callId, name, input } = part as vscode.LanguageModelToolCallPart;
    return [{ type: 'tool_call', callId, name, input: input ?? {} }];
  }
  if (isOne(part, 'LanguageModelToolResultPart', 'LanguageModelToolResultPart2')) {
    const { callId, content, isError } = part as vscode.LanguageModelToolResultPart & { isError?: boolean };
    return [
      {
        type: 'tool_result',
        callId,
        content: content.flatMap(resultContent),
        ...(isError === true ? { isError } : {}),
      },
    ];
  }
  if (isOne(part, 'LanguageModelDataPart', 'LanguageModelDataPart2')) {
    const { mimeType, data } = part as vscode.LanguageModelDataPart;
    return [{ type: 'data', mimeType, data: Buffer.from(data).toString('base64') }];
  }
  if (isOne(part, 'LanguageModelPromptTsxPart')) {
    return [{ type: 'text', value: promptTsxText((part as vscode.LanguageModelPromptTsxPart).value) }];
  }
  return [];
}

/** Convert one piece of a tool's result. VS Code lets it be anything, so what is no part goes as JSON: a result loses nothing. */
function resultContent(content: unknown): Part[] {
  const parts = toWire(content);
  if (parts.length > 0) {
    return parts;
  }
  let json: string | undefined;
  try {
    json = JSON.stringify(content);
  } catch {
    // A cycle, or a bigint.
  }
  const text = json ?? String(content);
  return [{ type: 'data', mimeType: json === undefined ? 'text/plain' : 'application/json', data: Buffer.from(text).toString('base64') }];
}

export type ResponsePart = vscode.LanguageModelResponsePart;

/** Convert a part for VS Code; undefined if VS Code has no class for it, or if its type is unknown. */
export function fromWire(part: Part): ResponsePart | undefined {
  switch (part.type) {
    case 'text':
      return new vscode.LanguageModelTextPart(part.value);
    case 'thinking': {
      const found = classOf('LanguageModelThinkingPart') as unknown as ThinkingClass | undefined;
      return found && (new found(part.value, part.id, part.metadata) as ResponsePart);
    }
    case 'tool_call':
      return new vscode.LanguageModelToolCallPart(part.callId, part.name, part.input);
    case 'tool_result': {
      const content = part.content.flatMap((inner) => fromWire(inner) ?? []);
      return new (vscode.LanguageModelToolResultPart as unknown as ResultClass)(part.callId, content, part.isError);
    }
    case 'data':
      return features().data
        ? new vscode.LanguageModelDataPart(Buffer.from(part.data, 'base64'), part.mimeType)
        : undefined;
    case 'activity':
    case 'plan':
    case 'usage':
      return features().activity
        ? new vscode.LanguageModelDataPart(Buffer.from(JSON.stringify(part)), ACTIVITY)
        : undefined;
    default:
      return undefined;
  }
}

/** The activity, plan or usage in a data part, if there is one. */
export function progressOf(part: Part): ProgressPart | undefined {
  if (part.type !== 'data' || part.mimeType !== ACTIVITY) {
    return undefined;
  }
  try {
    const value: unknown = JSON.parse(Buffer.from(part.data, 'base64').toString());
    return typeof value === 'object' && value !== null ? (value as ProgressPart) : undefined;
  } catch {
    return undefined;
  }
}

/** Convert a message of a stored history for VS Code. */
export function fromWireMessage(message: Message): vscode.LanguageModelChatMessage {
  const content = message.content.flatMap((part) => fromWire(part) ?? []);
  return message.role === 'assistant'
    ? vscode.LanguageModelChatMessage.Assistant(content as vscode.LanguageModelToolCallPart[])
    : vscode.LanguageModelChatMessage.User(content as vscode.LanguageModelToolResultPart[]);
}

export function toWireTools(tools: readonly vscode.LanguageModelChatTool[] | undefined): Tool[] {
  return (tools ?? []).map(({ name, description, inputSchema }) => ({
    name,
    description,
    ...(inputSchema === undefined ? {} : { inputSchema }),
  }));
}
