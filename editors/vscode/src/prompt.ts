/**
 * The prompt of `@dragoman`: the user's words, and what the chat attaches to them.
 *
 * VS Code adds references that the user did not attach, and marks them only by their ids. The index of its own skills and
 * agents is left out: it is written for its own chat. Instruction files of the workspace are context. A prompt with context
 * has the form of VS Code's own prompts, with the words in `<userRequest>`, and Python tells the two apart.
 */
import * as vscode from 'vscode';
import { features, isOne } from './convert';
import { fenced, plain } from './markdown';
import type { Message, Part } from './wire';

/** Ids of references that VS Code adds: an index as a string, instruction files as URIs. */
const INDEX_ID = 'vscode.customizations.';
const INSTRUCTIONS_ID = 'vscode.instructions.';
/** VS Code's own texts have names like `prompt:customizationsIndex`, also in versions with other ids. */
const OWN_TEXT = 'prompt:';

interface Attached {
  readonly places: string[];
  readonly instructions: string[];
  readonly texts: string[];
  readonly pictures: Part[];
  readonly leftOut: string[];
}

export interface Prompt {
  readonly prompt: Message;
  /** The names of attachments that cannot be passed on. */
  readonly leftOut: readonly string[];
}

/** The user's words, the paths of files, texts and pictures. An agent reads files itself. */
export async function promptOf(request: Pick<vscode.ChatRequest, 'prompt' | 'references'>): Promise<Prompt> {
  const attached: Attached = { places: [], instructions: [], texts: [], pictures: [], leftOut: [] };
  for (const reference of request.references) {
    await attach(reference, attached);
  }
  const { places, instructions, texts, pictures, leftOut } = attached;
  const words = [request.prompt, ...(places.length === 0 ? [] : [`Attached:\n${listed(places)}`]), ...texts].join('\n\n');
  const value = instructions.length === 0 ? words : inContext(instructions, words);
  return { prompt: { role: 'user', content: [{ type: 'text', value }, ...pictures] }, leftOut };
}

async function attach(reference: vscode.ChatPromptReference, attached: Attached): Promise<void> {
  const { id, value } = reference;
  const { name = id } = reference as { name?: string };
  if (typeof value === 'string') {
    if (!id.startsWith(INDEX_ID) && !name.startsWith(OWN_TEXT)) {
      attached.texts.push(`Attached, ${plain(name)}:\n\n${fenced(value)}`);
    }
  } else if (value instanceof vscode.Uri) {
    (id.startsWith(INSTRUCTIONS_ID) ? attached.instructions : attached.places).push(placeOf(value));
  } else if (value instanceof vscode.Location) {
    attached.places.push(`${placeOf(value.uri)}:${value.range.start.line + 1}-${value.range.end.line + 1}`);
  } else {
    const picture = await pictureOf(value);
    if (picture === undefined) {
      attached.leftOut.push(name);
    } else {
      attached.pictures.push(picture);
    }
  }
}

function listed(places: readonly string[]): string {
  return places.map((place) => `- ${place}`).join('\n');
}

function inContext(instructions: readonly string[], words: string): string {
  return `<instructions>\nThe workspace has instructions for agents in these files:\n${listed(instructions)}\n</instructions>\n<userRequest>\n${words}\n</userRequest>`;
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
