/**
 * The models of this workspace as the backend named them last. A window that only lists models needs no process for
 * it: the backend starts when somebody asks one of them.
 *
 * They are kept with what they were made from. Where that is another now, there is nothing to remember.
 */
import { stat } from 'node:fs/promises';
import type { Memento } from 'vscode';
import type { ModelInformation } from './wire';

const KEY = 'models';

interface Kept {
  readonly files: readonly string[];
  readonly origin: string;
  readonly models: readonly ModelInformation[];
}

export class RememberedModels {
  readonly #memento: Pick<Memento, 'get' | 'update'>;
  readonly #setup: () => readonly string[];

  /** `setup` is what, beside files, decides about the models: versions, settings. */
  constructor(memento: Pick<Memento, 'get' | 'update'>, setup: () => readonly string[]) {
    this.#memento = memento;
    this.#setup = setup;
  }

  async recall(): Promise<readonly ModelInformation[] | undefined> {
    const kept = this.#memento.get<Kept>(KEY);
    return kept !== undefined && kept.origin === (await this.#origin(kept.files)) ? kept.models : undefined;
  }

  async keep(models: readonly ModelInformation[], files: readonly string[]): Promise<void> {
    const kept: Kept = { files, origin: await this.#origin(files), models };
    await this.#memento.update(KEY, kept);
  }

  async #origin(files: readonly string[]): Promise<string> {
    const states = await Promise.all(files.map(stateOf));
    return JSON.stringify([...this.#setup(), ...states]);
  }
}

async function stateOf(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined);
  return found === undefined ? 'missing' : `${found.mtimeMs} ${found.size}`;
}
