/** Commands for what belongs to the agent: its options, its commands, its login. */
import * as vscode from 'vscode';
import type { AgentState } from './agentState';
import type { Backend } from './backend';
import { signalOf, within } from './cancellation';
import { isCancellation, sentence } from './errors';
import { withoutIcons } from './icons';
import { fitsModal } from './modal';
import type { AgentOffer, AgentOption, Login, OptionValue } from './wire';

export const SIGN_IN = 'dragoman.signIn';
/** Includes the start of an agent. */
const OFFER_MS = 120_000;
/** Dragoman itself gives up after ten minutes, and says so. */
const LOGIN_MS = OFFER_MS + 600_000;
const CONFIGURED = 'As configured';
const NO_OPTIONS = 'This agent offers no options.';
const NO_COMMANDS = 'This agent has reported no commands. Most do when their first session begins: send it a prompt, then try again.';
const NO_LOGIN = 'This agent does not say how to log in. Log in with its own program in a terminal; your next prompt then works.';
const TOO_LONG = 'The agent’s command for the login is too long to be shown here, so it is not run. Log in with the agent’s own program in a terminal; your next prompt then works.';
const RUN = 'Run in Terminal';
/** A command that is longer has a line for each word. */
const LINE_CHARACTERS = 80;

interface Parts {
  readonly backend: Pick<Backend, 'request'>;
  readonly state: AgentState;
}

export function registerAgentCommands(parts: Parts): vscode.Disposable {
  const told = async (does: () => Promise<void>) => {
    try {
      await does();
    } catch (error) {
      if (!isCancellation(error)) {
        await vscode.window.showErrorMessage(sentence(error));
      }
    }
  };
  const register = (name: string, does: (parts: Parts, modelId: string) => Promise<void>) =>
    vscode.commands.registerCommand(name, (given?: unknown) =>
      told(async () => {
        const modelId = typeof given === 'string' ? given : await pickModel();
        if (modelId !== undefined) {
          await does(parts, modelId);
        }
      }),
    );
  return vscode.Disposable.from(
    register('dragoman.agentOptions', chooseOptions),
    register('dragoman.agentCommands', chooseCommand),
    register(SIGN_IN, signIn),
  );
}

async function pickModel(): Promise<string | undefined> {
  const models = await vscode.lm.selectChatModels({ vendor: 'dragoman' });
  const items = models.map(({ id, name }) => ({ label: withoutIcons(name), description: id, id }));
  if (items.length === 0) {
    await vscode.window.showInformationMessage('There is no model yet. Run “Dragoman: Manage Agents”.');
    return undefined;
  }
  const chosen = items.length === 1 ? items[0] : await vscode.window.showQuickPick(items, { title: 'Which agent?' });
  return chosen?.id;
}

/** What the agent offers. If it has said nothing yet, it is started, which takes a while. */
async function offerOf({ backend }: Parts, modelId: string, isKnown: (offer: AgentOffer) => boolean): Promise<AgentOffer> {
  const known = (await ask(backend, 'agent/options', { modelId })) as AgentOffer;
  if (isKnown(known)) {
    return known;
  }
  return progressing('Asking the agent what it offers', (signal) =>
    backend.request('agent/options', { modelId, look: true }, { signal }),
  ) as Promise<AgentOffer>;
}

function ask(backend: Parts['backend'], method: string, params: object): Promise<unknown> {
  return within(OFFER_MS, undefined, (signal) => backend.request(method, params, { signal }));
}

async function progressing<T>(title: string, does: (signal: AbortSignal) => Promise<T>, limit = OFFER_MS): Promise<T> {
  const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
  return vscode.window.withProgress(options, async (_progress, token) => {
    const { signal, dispose } = signalOf(token);
    try {
      return await within(limit, signal, does);
    } finally {
      dispose();
    }
  });
}

/** Choose an option, then a value. It holds for this model in this workspace, from the next prompt on. */
async function chooseOptions(parts: Parts, modelId: string): Promise<void> {
  const { options = [] } = await offerOf(parts, modelId, (offer) => (offer.options ?? []).length > 0);
  if (options.length === 0) {
    await vscode.window.showInformationMessage(NO_OPTIONS);
    return;
  }
  const chosen = parts.state.chosen(modelId);
  const items = options.map((option) => ({
    label: withoutIcons(option.name),
    description: withoutIcons(valueName(option, chosen[option.id]) ?? CONFIGURED),
    detail: withoutIcons(option.description ?? ''),
    option,
  }));
  const picked = await vscode.window.showQuickPick(items, { title: 'Agent options for this workspace', matchOnDetail: true });
  if (picked === undefined) {
    return;
  }
  const { option } = picked;
  const current = chosen[option.id];
  const values: (vscode.QuickPickItem & { value: OptionValue | undefined })[] = [
    { label: CONFIGURED, description: current === undefined ? 'chosen' : '', detail: 'As the model’s configuration or the agent has it', value: undefined },
    ...option.values.map(({ value, name, description }) => ({
      label: withoutIcons(name),
      description: value === current ? 'chosen' : '',
      // The agent's own words: they say whether a mode acts without asking.
      detail: withoutIcons(description ?? ''),
      value,
    })),
  ];
  const wanted = await vscode.window.showQuickPick(values, { title: withoutIcons(option.name), matchOnDetail: true });
  if (wanted !== undefined) {
    await parts.state.choose(modelId, option.id, wanted.value);
  }
}

function valueName({ values }: AgentOption, value: OptionValue | undefined): string | undefined {
  return value === undefined ? undefined : (values.find((choice) => choice.value === value)?.name ?? String(value));
}

/** Put one of the agent's commands into the chat's input. */
async function chooseCommand(parts: Parts, modelId: string): Promise<void> {
  const { commands = [] } = await offerOf(parts, modelId, (offer) => (offer.commands ?? []).length > 0);
  if (commands.length === 0) {
    await vscode.window.showInformationMessage(NO_COMMANDS);
    return;
  }
  const items = commands.map(({ name, description, hint }) => ({
    label: withoutIcons(`/${name}`),
    description: withoutIcons(hint ?? ''),
    detail: withoutIcons(description ?? ''),
    name,
  }));
  const chosen = await vscode.window.showQuickPick(items, { title: 'Commands of the agent', matchOnDetail: true });
  if (chosen !== undefined) {
    await openChat(`@dragoman /${chosen.name} `);
  }
}

/** Open the chat with these words in its input. */
export async function openChat(query: string): Promise<void> {
  await vscode.commands.executeCommand('workbench.action.chat.open', { query, isPartialQuery: true });
}

/** Log in as the agent does: in a terminal with its own program, or by asking it to. */
async function signIn({ backend, state }: Parts, modelId: string): Promise<void> {
  const { logins } = (await progressing('Asking the agent how to log in', (signal) =>
    backend.request('agent/logins', { modelId }, { signal }),
  )) as { logins: Login[] };
  const items = logins.map((login) => ({
    label: withoutIcons(login.name),
    description: login.kind === 'terminal' ? 'in a terminal' : login.kind === 'env_var' ? 'needs an environment variable' : '',
    // What would run says more than the agent's description of it.
    detail: withoutIcons(login.terminal === undefined ? (login.description ?? '') : words(login.terminal.command).join(' ')),
    login,
  }));
  if (items.length === 0) {
    await vscode.window.showInformationMessage(NO_LOGIN);
    return;
  }
  const chosen = items.length === 1 ? items[0] : await vscode.window.showQuickPick(items, { title: 'How to log in' });
  if (chosen === undefined) {
    return;
  }
  const { login } = chosen;
  if (login.terminal !== undefined) {
    if (!(await mayRun(login.terminal))) {
      return;
    }
    const [shellPath = '', ...shellArgs] = login.terminal.command;
    const name = `Log in: ${login.name}`;
    vscode.window.createTerminal({ name, shellPath, shellArgs, env: login.terminal.env ?? {} }).show();
    return;
  }
  if (login.kind === 'env_var') {
    await vscode.window.showInformationMessage(
      'Set the variable in `env` of this model: “Dragoman: Manage Agents” opens the configuration. Then run “Dragoman: Restart”.',
    );
    return;
  }
  const logIn = (signal: AbortSignal) => backend.request('agent/login', { modelId, methodId: login.id }, { signal });
  await progressing('The agent logs in', logIn, LOGIN_MS);
  state.loginNeeded(modelId, false);
  await vscode.window.showInformationMessage('The agent is logged in. Send your prompt again.');
}

/** The command is the agent's, and it runs here with the rights of the user, also if the agent runs elsewhere. */
async function mayRun({ command, env = {} }: NonNullable<Login['terminal']>): Promise<boolean> {
  const line = words(command).join(' ');
  const shown = line.length <= LINE_CHARACTERS ? line : words(command).join('\n');
  // Their values may be secrets of the configuration.
  const variables = words(Object.keys(env)).join(', ');
  const where = `It runs on this computer, in a terminal of VS Code, as you.${variables === '' ? '' : ` It gets the variables ${variables}.`}`;
  const detail = `${shown}\n\n${where}`;
  if (!fitsModal(detail)) {
    await vscode.window.showWarningMessage(TOO_LONG, { modal: true });
    return false;
  }
  return (await vscode.window.showWarningMessage('Run this command of the agent to log in?', { modal: true, detail }, RUN)) === RUN;
}

/** Words that can be told apart, and that hide nothing: any but a plain one is a JSON string, with codes for what has no shape. */
function words(command: string[]): string[] {
  const code = (letter: string) => `\\u{${(letter.codePointAt(0) ?? 0).toString(16)}}`;
  return command.map((word) =>
    /^[\w@%+=:,./~-]+$/.test(word) ? word : JSON.stringify(word).replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, code),
  );
}
