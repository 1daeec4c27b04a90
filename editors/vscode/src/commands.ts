/** The commands of the extension. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import * as path from 'node:path';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import type { AgentState } from './agentState';
import type { PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { signalOf, unlessAborted, within } from './cancellation';
import { install } from './install';
import { locate, type Places } from './locate';
import { allowFromNowOn, showQuestion } from './questions';
import { settings } from './settings';
import { openTerminal } from './terminal';
import { showMenu } from './menu';
import { ADD_PROVIDER, offerSetUp } from './welcome';

const run = promisify(execFile);
/** The time limit of a request that a list waits for. */
const LIST_MS = 10_000;
/** The start of a Python program on a busy machine, and a write to a database that another process may lock. */
const RESET_MS = 60_000;

export interface Parts {
  readonly backend: Pick<Backend, 'ready' | 'request' | 'restart' | 'state'>;
  readonly approvals: PendingApprovals;
  readonly agents: Pick<AgentState, 'loginWanted'>;
  readonly log: Pick<vscode.LogOutputChannel, 'show'>;
  readonly places: () => Places;
}

export function registerCommands({ backend, approvals, agents, log, places }: Parts): vscode.Disposable {
  const closing = new vscode.CancellationTokenSource();
  const commands: Record<string, (value?: unknown) => Promise<unknown> | unknown> = {
    restart: () => told(() => backend.restart()),
    showLog: () => log.show(),
    doctor: () => told(() => inTerminal(places(), ['doctor'], configured())),
    manage: () => told(() => manage(places(), backend)),
    allowFromNowOn: () => told(() => allowFromNowOn(backend)),
    showQuestion: (nonce) => told(() => showQuestion(backend, approvals, nonce)),
    resetApprovals: () => told(() => resetApprovals(places())),
    install: () => told(() => installWithProgress(places(), backend, closing.token)),
    menu: () => showMenu({ state: backend.state, waiting: approvals.count, login: agents.loginWanted }),
    builtInChat: () => told(useBuiltInChat),
  };
  return vscode.Disposable.from(
    { dispose: () => closing.cancel() },
    ...Object.entries(commands).map(([name, does]) => vscode.commands.registerCommand(`dragoman.${name}`, does)),
  );
}

async function installWithProgress(
  places: Places,
  backend: Parts['backend'],
  closing: vscode.CancellationToken,
): Promise<void> {
  const options = { location: vscode.ProgressLocation.Notification, title: 'Installing Dragoman', cancellable: true };
  const isDone = await vscode.window.withProgress(options, async (progress, token) => {
    const { signal, dispose } = signalOf(token, closing);
    try {
      await install(places, signal, (message) => progress.report({ message }));
      return true;
    } catch (error) {
      if (signal.aborted) {
        return false;
      }
      throw error;
    } finally {
      dispose();
    }
  });
  if (isDone) {
    await backend.restart();
  }
}

async function told(does: () => Promise<void>): Promise<void> {
  try {
    await does();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if ((await vscode.window.showErrorMessage(message, 'Show Log')) === 'Show Log') {
      await vscode.commands.executeCommand('dragoman.showLog');
    }
  }
}

/**
 * Make our models available in VS Code's own chat without an account.
 *
 * Without an account, that chat asks for one until the user has added a provider of models. Its list of models cannot
 * add a provider that needs no configuration. This adds ours permanently, and opens the list, which updates the chat.
 */
async function useBuiltInChat(): Promise<void> {
  const group = { name: 'Dragoman', vendor: 'dragoman' };
  if (!(await vscode.commands.getCommands(true)).includes(ADD_PROVIDER)) {
    throw new Error('The chat of this VS Code uses models of extensions only with an account. Begin a prompt with @dragoman, or update VS Code.');
  }
  await vscode.commands.executeCommand(ADD_PROVIDER, group).then(undefined, (error: unknown) => {
    // It was added before.
    if (!/exists/i.test(String(error))) {
      throw error;
    }
  });
  await vscode.commands.executeCommand('workbench.action.chat.manage');
}

/** Run Dragoman in a terminal, which shows its output at once and stays open. */
async function inTerminal(places: Places, args: readonly string[], options: readonly string[]): Promise<void> {
  const command = await locate(places);
  if (command === undefined) {
    await offerSetUp();
    return;
  }
  openTerminal(`dragoman ${args[0] ?? ''}`, [...command, ...args, ...options]);
}

export function configured(): string[] {
  const { configuration } = settings();
  return configuration === '' ? [] : ['--config', configuration];
}

async function resetApprovals(places: Places): Promise<void> {
  const really = await vscode.window.showWarningMessage(
    'Forget every approval, Dragoman’s own and those of this editor’s chat?',
    { modal: true },
    'Forget',
  );
  if (really !== 'Forget') {
    return;
  }
  const [program, ...rest] = (await locate(places)) ?? [];
  if (program !== undefined) {
    await run(program, [...rest, 'approvals', 'reset', ...configured()], { timeout: RESET_MS });
  }
  await vscode.commands.executeCommand('workbench.action.chat.resetTrustedTools');
}

/** List the agents, and open the configuration file. A missing file is created. */
async function manage(places: Places, backend: Parts['backend']): Promise<void> {
  // The backend knows the file in use. If it cannot read the file, it does not start; the user can open the file here.
  const started = within(LIST_MS, undefined, (signal) => unlessAborted(backend.ready(), signal));
  const ready = await started.catch(() => undefined);
  const file = ready?.configuration ?? likelyConfiguration();
  const options = existsSync(file) ? ['--config', file] : configured();
  const models = await vscode.lm.selectChatModels({ vendor: 'dragoman' });
  const items: (vscode.QuickPickItem & { does: () => unknown })[] = [
    ...models.map(({ id, name }) => ({
      label: `$(comment-discussion) ${name}`,
      description: id,
      detail: 'Check whether it starts and answers',
      does: () => inTerminal(places, ['doctor', id], configured()),
    })),
    {
      label: '$(edit) Open the configuration',
      description: file,
      detail: 'Add, change or remove agents',
      does: () => openConfiguration(vscode.Uri.file(file)),
    },
    {
      label: '$(list-unordered) Choose which models are offered',
      detail: 'dragoman.models',
      does: () => vscode.commands.executeCommand('workbench.action.openSettings', 'dragoman.models'),
    },
    ...(await installable(places, options)).map(({ id, name, version, description }) => ({
      label: `$(cloud-download) Add ${name}`,
      description: version,
      detail: description,
      // The command asks before it downloads anything, and writes the model into the file in use.
      does: () => inTerminal(places, ['agents', 'add', id], options),
    })),
  ];
  const chosen = await vscode.window.showQuickPick(items, { title: 'Dragoman: agents', matchOnDetail: true });
  await chosen?.does();
}

interface CatalogueEntry {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly installed: object | null;
  readonly models: readonly string[];
}

/** The agents of the catalogue that are not installed and not configured. */
async function installable(places: Places, options: readonly string[]): Promise<CatalogueEntry[]> {
  try {
    const [program, ...rest] = (await locate(places)) ?? [];
    if (program === undefined) {
      return [];
    }
    const { stdout } = await run(program, [...rest, 'agents', 'list', '--json', ...options], { timeout: LIST_MS });
    const entries = stdout.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as CatalogueEntry);
    return entries.filter(({ installed, models }) => installed === null && models.length === 0);
  } catch {
    // “Check the Installation” shows what is wrong.
    return [];
  }
}

const FILE_NAME = 'dragoman.toml';
const BEGINNING = `# An agent is a model with these lines.
#
# [models.helper]
# kind = "acp"
# command = ["my-agent", "--acp"]
`;

/** The path where `dragoman` looks for its configuration, if the backend does not run. */
function likelyConfiguration(): string {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  const ofFolder = folder?.uri.scheme === 'file' ? path.join(folder.uri.fsPath, FILE_NAME) : '';
  const home = process.env['HOME'] ?? '';
  const user =
    process.platform === 'darwin'
      ? path.join(home, 'Library', 'Application Support')
      : (process.env['XDG_CONFIG_HOME'] ?? path.join(home, '.config'));
  return (
    settings().configuration ||
    process.env['DRAGOMAN_CONFIG'] ||
    (existsSync(ofFolder) ? ofFolder : path.join(user, 'dragoman', FILE_NAME))
  );
}

async function openConfiguration(file: vscode.Uri): Promise<void> {
  try {
    await vscode.workspace.fs.stat(file);
  } catch {
    await vscode.workspace.fs.writeFile(file, Buffer.from(BEGINNING));
  }
  await vscode.window.showTextDocument(file);
}
