/**
 * Draws an agent's activities in the answer of `@dragoman`. A running step is a progress message of the chat, which
 * disappears. A step that has ended is a line, with its files, its changes and the end of its output.
 */
import * as path from 'node:path';
import * as vscode from 'vscode';
import { usageText } from './agentState';
import { fenced, plain } from './markdown';
import type { Activity, Plan, ProgressPart, Usage } from './wire';

/** Steps of one turn that are remembered, so that none is drawn twice. The oldest are discarded first. */
const KNOWN_STEPS = 1_000;
/** Links in one line. */
const MAX_LOCATIONS = 5;
/** The limits of a change or an output in the chat: in lines, and in characters for long lines. */
const DIFF_LINES = 60;
const OUTPUT_LINES = 20;
const BLOCK_CHARACTERS = 8_000;

const MARKS = { completed: '✓', failed: '✗' } as const;
const PLAN_MARKS = { pending: '☐', in_progress: '◐', completed: '☑' } as const;

export class Steps {
  readonly #stream: vscode.ChatResponseStream;
  /** The last drawn title of each running step; undefined for a step that has ended. */
  readonly #drawn = new Map<string, string | undefined>();
  #plan: Plan['entries'] = [];
  #usage: Usage | undefined;

  constructor(stream: vscode.ChatResponseStream) {
    this.#stream = stream;
  }

  take(part: ProgressPart): void {
    switch (part.type) {
      case 'activity':
        this.#step(part);
        break;
      case 'plan':
        this.#planned(part);
        break;
      case 'usage':
        this.#usage = part;
        break;
    }
  }

  /** The last usage, for the foot of the answer; only the numbers that were reported. */
  get usage(): string | undefined {
    return usageText(this.#usage);
  }

  #step(step: Activity): void {
    const { id, title, status } = step;
    if (this.#drawn.has(id) && this.#drawn.get(id) === undefined) {
      return;
    }
    if (status === 'completed' || status === 'failed') {
      this.#remember(id, undefined);
      this.#ended(step, MARKS[status]);
    } else if (this.#drawn.get(id) !== title) {
      this.#remember(id, title);
      this.#stream.progress(plain(title));
    }
  }

  #ended({ title, locations, diff, output, exitStatus }: Activity, mark: string): void {
    const status = exitStatus === undefined || exitStatus === 0 ? '' : ` (exit status ${exitStatus})`;
    this.#stream.markdown(`\n\n${mark} ${plain(title)}${status}`);
    for (const place of locations.filter(({ path: file }) => path.isAbsolute(file)).slice(0, MAX_LOCATIONS)) {
      const uri = vscode.Uri.file(place.path);
      this.#stream.markdown(' ');
      this.#stream.anchor(
        place.line === undefined ? uri : new vscode.Location(uri, new vscode.Position(Math.max(0, place.line - 1), 0)),
      );
    }
    const changed = diff === undefined || diff === '' ? '' : `${fenced(first(diff), 'diff')}\n\n`;
    const printed = output === undefined || output.trim() === '' ? '' : `${fenced(last(output))}\n\n`;
    this.#stream.markdown(`\n\n${changed}${printed}`);
  }

  /** Draw the whole first plan, and then only the changed entries. */
  #planned({ entries }: Plan): void {
    const texts = new Set(this.#plan.map(({ text }) => text));
    const states = new Set(this.#plan.map(({ text, status }) => `${status} ${text}`));
    this.#plan = entries;
    const changed = entries.filter(({ text, status }) => !states.has(`${status} ${text}`));
    const isNew = entries.some(({ text }) => !texts.has(text));
    for (const { text } of changed.filter(({ status }) => status === 'in_progress')) {
      this.#stream.progress(plain(text));
    }
    const shown = isNew ? entries : changed.filter(({ status }) => status === 'completed');
    if (shown.length > 0) {
      const lines = shown.map(({ text, status }) => `${PLAN_MARKS[status]} ${plain(text)}  \n`);
      this.#stream.markdown(`\n\n${lines.join('')}\n`);
    }
  }

  #remember(id: string, title: string | undefined): void {
    const [oldest] = this.#drawn.keys();
    if (oldest !== undefined && !this.#drawn.has(id) && this.#drawn.size >= KNOWN_STEPS) {
      this.#drawn.delete(oldest);
    }
    this.#drawn.set(id, title);
  }
}

/** The beginning of a change. */
function first(text: string): string {
  const lines = text.trimEnd().split('\n');
  const kept = lines.slice(0, DIFF_LINES).join('\n').slice(0, BLOCK_CHARACTERS);
  return kept.length < text.trimEnd().length ? `${kept}\n…` : kept;
}

/** The end of an output: there it says how it went. */
function last(text: string): string {
  const lines = text.trimEnd().split('\n');
  const kept = lines.slice(-OUTPUT_LINES).join('\n').slice(-BLOCK_CHARACTERS);
  return kept.length < text.trimEnd().length ? `…\n${kept}` : kept;
}
