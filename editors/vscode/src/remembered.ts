/**
 * The last list of models of this workspace, stored by VS Code. A window that only lists models needs no backend: it
 * starts with the first request to a model.
 *
 * The list is stored with the versions, settings and file states that it was made from. If these differ now, it is ignored.
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

  /** `setup` returns what determines the models beside files: versions and settings. */
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
