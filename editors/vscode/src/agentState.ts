/**
 * What this window knows of the agents: the options that the user has chosen, the last usage, and which agents require a
 * login. The choices are stored with the workspace, for each model, and go with every request.
 */
import type { Memento } from 'vscode';
import type { OptionValue, Usage } from './wire';

const KEY = 'agentOptions';

export type Chosen = Readonly<Record<string, OptionValue>>;

export class AgentState {
  readonly #memento: Pick<Memento, 'get' | 'update'>;
  readonly #changed: () => void;
  readonly #names = new Map<string, string>();
  readonly #usage = new Map<string, Usage>();
  readonly #loginNeeded = new Set<string>();

  constructor(memento: Pick<Memento, 'get' | 'update'>, changed: () => void = () => undefined) {
    this.#memento = memento;
    this.#changed = changed;
  }

  named(models: readonly { id: string; name: string }[]): void {
    models.forEach(({ id, name }) => this.#names.set(id, name));
  }

  chosen(modelId: string): Chosen {
    return this.#all()[modelId] ?? {};
  }

  /** Choose a value for the next requests; undefined: the model's configuration decides again. */
  async choose(modelId: string, option: string, value: OptionValue | undefined): Promise<void> {
    const { [option]: _before, ...others } = this.chosen(modelId);
    const after: Chosen = value === undefined ? others : { ...others, [option]: value };
    await this.#memento.update(KEY, { ...this.#all(), [modelId]: after });
    this.#changed();
  }

  used(modelId: string, usage: Usage): void {
    this.#usage.set(modelId, { ...this.#usage.get(modelId), ...usage });
    this.#changed();
  }

  loginNeeded(modelId: string, isNeeded: boolean): void {
    if (isNeeded) {
      this.#loginNeeded.add(modelId);
    } else {
      this.#loginNeeded.delete(modelId);
    }
  }

  needsLogin(modelId: string): boolean {
    return this.#loginNeeded.has(modelId);
  }

  /** An agent that requires a login, the first of them. */
  get loginWanted(): { id: string; name: string } | undefined {
    const [id] = this.#loginNeeded;
    return id === undefined ? undefined : { id, name: this.#names.get(id) ?? id };
  }

  /** One line for each model of which there is something to say. */
  get lines(): string[] {
    const ids = new Set([...Object.keys(this.#all()), ...this.#usage.keys()]);
    return [...ids].flatMap((id) => {
      const options = Object.entries(this.chosen(id)).map(([option, value]) => `${option}: ${value}`);
      const said = [...options, usageText(this.#usage.get(id))].filter((text) => text !== undefined);
      return said.length === 0 ? [] : [`${this.#names.get(id) ?? id}: ${said.join(' • ')}`];
    });
  }

  #all(): Record<string, Chosen> {
    return this.#memento.get<Record<string, Chosen>>(KEY) ?? {};
  }
}

/** Only the numbers that were reported. */
export function usageText(usage: Usage | undefined): string | undefined {
  const { input, output, contextUsed, contextSize, cost, currency } = usage ?? {};
  const said = [
    input === undefined ? '' : `${count(input)} tokens in`,
    output === undefined ? '' : `${count(output)} tokens out`,
    contextUsed === undefined ? '' : `context ${count(contextUsed)}${contextSize === undefined ? '' : ` of ${count(contextSize)}`}`,
    cost === undefined ? '' : `${cost.toFixed(2)} ${currency ?? ''}`.trim(),
  ].filter((text) => text !== '');
  return said.length > 0 ? said.join(' • ') : undefined;
}

function count(tokens: number): string {
  return tokens.toLocaleString('en');
}

/** The context and the cost in a data part for VS Code's context indicator. */
export function usageOf(data: string): Usage | undefined {
  try {
    const { total_tokens, context_size, cost, currency } = JSON.parse(Buffer.from(data, 'base64').toString()) as Record<string, never>;
    return {
      type: 'usage',
      ...(context_size === undefined ? {} : { contextUsed: total_tokens, contextSize: context_size }),
      ...(cost === undefined ? {} : { cost, currency }),
    };
  } catch {
    return undefined;
  }
}
