/** Estimates tokens, as the backend does. The chat counts thousands of pieces for one prompt, so no process is asked. */
import { ACTIVITY, type Message, type Part, STATEFUL_MARKER } from './wire';

/** About the average of recent tokenizers, in any script. */
const BYTES_A_TOKEN = 4;
/** For the role of a message, and what separates it from the next. */
const TOKENS_A_MESSAGE = 4;
/** About a picture of a screen. */
const TOKENS_AN_IMAGE = 1_600;

export function tokensOfText(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_A_TOKEN);
}

export function tokensOfMessage({ content }: Message): number {
  return TOKENS_A_MESSAGE + sum(content);
}

function sum(parts: readonly Part[]): number {
  return parts.reduce((total, part) => total + ofPart(part), 0);
}

function ofPart(part: Part): number {
  switch (part.type) {
    case 'text':
      return tokensOfText(part.value);
    case 'thinking':
      return tokensOfText(Array.isArray(part.value) ? part.value.join('') : part.value);
    case 'tool_call':
      return TOKENS_A_MESSAGE + tokensOfText(part.name) + tokensOfText(JSON.stringify(part.input));
    case 'tool_result':
      return TOKENS_A_MESSAGE + sum(part.content);
    case 'data':
      return ofData(part.mimeType, part.data);
    default:
      return 0;
  }
}

/** `data` is base64: four characters for three bytes. */
function ofData(mimeType: string, data: string): number {
  if (mimeType === STATEFUL_MARKER || mimeType === ACTIVITY) {
    return 0;
  }
  return mimeType.startsWith('image/') ? TOKENS_AN_IMAGE : Math.ceil((data.length * 3) / 4 / BYTES_A_TOKEN);
}
