/** What a person can ask of the extension itself. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import type { Backend } from './backend';
import { signalOf } from './cancellation';
import { install, locate, type Places } from './locate';
import { settings } from './settings';

const run = promisify(execFile);

export interface Parts {
  readonly backend: Backend;
  readonly log: vscode.LogOutputChannel;
  readonly places: () => Places;
}

export function registerCommands({ backend, log, places }: Parts): vscode.Disposable {
  const commands: Record<string, () => Promise<unknown> | unknown> = {
    restart: () => told(() => backend.restart()),
    showLog: () => log.show(),
    doctor: () => inTerminal(places(), 'doctor'),
    manage: () => manage(places()),
    resetApprovals: () => told(() => resetApprovals(places())),
    install: () => told(() => installWithProgress(places(), backend)),
    menu: () => menu(backend),
  };
  return vscode.Disposable.from(
    ...Object.entries(commands).map(([name, does]) => vscode.commands.registerCommand(`dragoman.${name}`, does)),
  );
}

/** Shown once for each start that finds nothing, with the buttons that help. */
export async function offerInstall(): Promise<void> {
  const chosen = await vscode.window.showErrorMessage(
    'Dragoman is not installed. It can be put into an environment of its own, which nothing else uses.',
    'Install',
    'Choose…',
  );
  if (chosen === 'Install') {
    await vscode.commands.executeCommand('dragoman.install');
  } else if (chosen === 'Choose…') {
    await vscode.commands.executeCommand('workbench.action.openSettings', 'dragoman.command');
  }
}

async function installWithProgress(places: Places, backend: Backend): Promise<void> {
  const options = { location: vscode.ProgressLocation.Notification, title: 'Installing Dragoman', cancellable: true };
  const isDone = await vscode.window.withProgress(options, async (progress, token) => {
    const { signal, dispose } = signalOf(token);
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

/** A terminal shows what it says as it says it, and stays. */
async function inTerminal(places: Places, ...args: string[]): Promise<void> {
  const command = await locate(places);
  if (command === undefined) {
    await offerInstall();
    return;
  }
  const [program = '', ...rest] = [...command, ...args, ...configured()];
  const terminal = vscode.window.createTerminal({ name: `dragoman ${args[0] ?? ''}`, iconPath: new vscode.ThemeIcon('pulse') });
  terminal.sendText([program, ...rest].map(quoted).join(' '));
  terminal.show();
}

export function configured(): string[] {
  const { configuration } = settings();
  return configuration === '' ? [] : ['--config', configuration];
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
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
    await run(program, [...rest, 'approvals', 'reset', ...configured()]);
  }
  await vscode.commands.executeCommand('workbench.action.chat.resetTrustedTools');
}

/** The configuration is a file: it is opened where it is, or begun where it would be. */
async function manage(places: Places): Promise<void> {
  const models = await vscode.lm.selectChatModels({ vendor: 'dragoman' });
  const items: (vscode.QuickPickItem & { does: () => unknown })[] = [
    ...models.map(({ id, name }) => ({
      label: `$(comment-discussion) ${name}`,
      description: id,
      detail: 'Check whether it starts and answers',
      does: () => inTerminal(places, 'doctor', id),
    })),
    { label: '$(edit) Open the configuration', detail: 'Add, change or remove agents', does: openConfiguration },
    {
      label: '$(list-unordered) Choose which models are offered',
      detail: 'dragoman.models',
      does: () => vscode.commands.executeCommand('workbench.action.openSettings', 'dragoman.models'),
    },
    ...(await installable(places)).map(({ id, name, version, description }) => ({
      label: `$(cloud-download) Add ${name}`,
      description: version,
      detail: description,
      // It asks there before it fetches anything. The model is in the picker when it is done.
      does: () => inTerminal(places, 'agents', 'add', id),
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

/** The agents of the catalogue that are no models yet. */
async function installable(places: Places): Promise<CatalogueEntry[]> {
  const [program, ...rest] = (await locate(places)) ?? [];
  if (program === undefined) {
    return [];
  }
  try {
    const { stdout } = await run(program, [...rest, 'agents', 'list', '--json', ...configured()]);
    const entries = stdout.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as CatalogueEntry);
    return entries.filter(({ installed, models }) => installed === null && models.length === 0);
  } catch {
    // What is wrong with it, “Check the Installation” says.
    return [];
  }
}

const BEGINNING = `# An agent is a model with these lines.
#
# [models.helper]
# kind = "acp"
# command = ["my-agent", "--acp"]
`;

async function openConfiguration(): Promise<void> {
  const { configuration } = settings();
  const home = process.env['XDG_CONFIG_HOME'] ?? `${process.env['HOME'] ?? ''}/.config`;
  const file = vscode.Uri.file(
    configuration || process.env['DRAGOMAN_CONFIG'] || (process.platform === 'darwin'
      ? `${process.env['HOME'] ?? ''}/Library/Application Support/dragoman/dragoman.toml`
      : `${home}/dragoman/dragoman.toml`),
  );
  try {
    await vscode.workspace.fs.stat(file);
  } catch {
    await vscode.workspace.fs.writeFile(file, Buffer.from(BEGINNING));
  }
  await vscode.window.showTextDocument(file);
}

async function menu(backend: Backend): Promise<void> {
  const { state } = backend;
  const items = [
    { label: '$(output) Show Log', command: 'showLog' },
    { label: '$(debug-restart) Restart', command: 'restart' },
    { label: '$(settings-gear) Manage Agents', command: 'manage' },
    { label: '$(pulse) Check the Installation', command: 'doctor' },
    { label: '$(discard) Reset Approvals', command: 'resetApprovals' },
    ...(state.name === 'failed' ? [{ label: '$(cloud-download) Install Dragoman', command: 'install' }] : []),
  ];
  const title = state.name === 'failed' ? state.reason : `Dragoman: ${state.name}`;
  const chosen = await vscode.window.showQuickPick(items, { title });
  if (chosen !== undefined) {
    await vscode.commands.executeCommand(`dragoman.${chosen.command}`);
  }
}
