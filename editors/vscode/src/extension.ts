/** The extension: wires the backend to the model provider, the permission tools, the participant and the status bar. */
import * as path from 'node:path';
import * as vscode from 'vscode';
import { registerAgentCommands } from './agents';
import { AgentState } from './agentState';
import { PendingApprovals } from './approvals';
import { Backend, type BackendState, type Launch, NotInstalled } from './backend';
import { configured, registerCommands } from './commands';
import { registerConversations } from './conversations';
import { features } from './convert';
import { readTextFile, writeTextFile } from './documents';
import { sweep } from './environments';
import { inheritedEnvironment } from './inherited';
import { locate, type Places } from './locate';
import { PARTICIPANT, respond } from './participant';
import { type Memory, Provider } from './provider';
import { registerQuestionDocuments } from './questions';
import { RememberedModels } from './remembered';
import { registerReview } from './review';
import { isLive, needsRestart, SECTION, settings } from './settings';
import { Status } from './status';
import { AgentTerminals } from './terminals';
import { registerPermissionTools } from './tools';
import { offerChatOnce, offerSetUpOnce } from './welcome';
import type { StoredConversation } from './wire';

/** A context key: an agent may ask for permission here. Without it the permission tools are in no list. */
const ASKS_KEY = 'dragoman.asks';

/** Requests of the backend. */
const served: Record<string, (params: unknown, signal: AbortSignal) => Promise<unknown>> = {
  'fs/readTextFile': readTextFile,
  'fs/writeTextFile': writeTextFile,
};

/** Disposed of in `deactivate`, which VS Code waits for. The backend writes to the log until it ends. */
let lasting: { readonly backend: Backend; readonly log: vscode.LogOutputChannel } | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel('Dragoman', { log: true });
  const status = new Status();
  const agents = new AgentState(context.workspaceState, () => status.agents(agents.lines));
  status.agents(agents.lines);
  const approvals = new PendingApprovals((count) => status.waiting(count));
  const { version } = context.extension.packageJSON as { version: string };
  const places = (): Places => ({
    command: settings().command,
    // Another version of the extension contains another version of Dragoman.
    storage: vscode.Uri.joinPath(context.globalStorageUri, version).fsPath,
    bundled: context.asAbsolutePath('dist/backend'),
    path: process.env['PATH'] ?? '',
    platform: process.platform,
  });
  const running = new Backend({
    launch: async () => {
      const command = await locate(places());
      if (command === undefined) {
        void offerSetUpOnce(context.globalState);
        throw new NotInstalled('Dragoman is not set up yet. Run “Dragoman: Install Dragoman”, or name an installed one in the setting `dragoman.command`.');
      }
      return launchOf(command);
    },
    introduction: () => ({
      client: { name: vscode.env.appName, version: vscode.version },
      workspaceFolders: folders(),
      features: declared(),
    }),
    notification: (method, params) => {
      if (method === 'lm/modelsChanged') {
        provider.modelsChanged();
      } else if (method === 'conversations/changed') {
        conversations.refresh();
      } else if (terminals.notified(method, params)) {
        return;
      } else if (method === 'log') {
        const { level, message } = params as { level: string; message: string };
        write(log, level, message);
      }
    },
    request: (method, params, signal) =>
      method === 'terminal/create' ? terminals.create(params) : served[method]?.(params, signal),
    changed: (state: BackendState) => {
      status.changed(state);
      void vscode.commands.executeCommand('setContext', 'dragoman.ready', state.name === 'ready');
      if (state.name === 'ready') {
        provider.modelsChanged();
        conversations.refresh();
        void offerChatOnce(context.globalState);
      } else {
        approvals.clear();
        terminals.clear();
      }
    },
    log: (level, message) => write(log, level, message),
  });
  const terminals = new AgentTerminals((id) => running.notify('terminal/kill', { id }));
  const conversations = registerConversations(running);
  lasting = { backend: running, log };
  const memory = memoryOf(context.workspaceState, version, running);
  // It stays set: a tool that vanished in the middle of a turn could not be answered.
  const listed = () => vscode.commands.executeCommand('setContext', ASKS_KEY, settings().permission === 'ask');
  const provider = new Provider(running, memory, settings, approvals, (message) => log.warn(message), agents, () => void listed());
  const failure = () => (running.state.name === 'failed' ? running.state.reason : undefined);
  const isMissing = () => running.state.name === 'missing';
  const stored = async (id: string) => (await running.request('conversations/messages', { id })) as StoredConversation;
  const host = { approvals, failure, isMissing, agents, stored };
  const participant = vscode.chat.createChatParticipant(PARTICIPANT, (...asked) => respond(host, ...asked));
  participant.iconPath = new vscode.ThemeIcon('comment-discussion');

  context.subscriptions.push(
    status,
    provider,
    participant,
    vscode.lm.registerLanguageModelChatProvider('dragoman', provider),
    registerPermissionTools(running, approvals),
    registerQuestionDocuments(running),
    registerAgentCommands({ backend: running, state: agents }),
    conversations,
    registerReview(running, approvals),
    registerCommands({ backend: running, approvals, agents, log, places }),
    vscode.workspace.onDidChangeWorkspaceFolders(() =>
      running.notify('workspace/didChangeFolders', { workspaceFolders: folders() }),
    ),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (needsRestart(change) && running.state.name !== 'stopped') {
        void running.restart().catch(() => undefined);
      } else if (change.affectsConfiguration(SECTION)) {
        if (isLive(change)) {
          running.notify('settings/didChange', { features: declared(), logLevel: settings().logLevel });
        }
        provider.modelsChanged();
      }
    }),
  );
  const { storage, platform } = places();
  void sweep(storage, platform).catch((error: unknown) => log.warn(`environments are left over: ${String(error)}`));
  // VS Code lists models only after this event, so every window fires it. It starts the backend only if the models are
  // not remembered. The activation does not wait for it: a slow activation slows the editor.
  provider.modelsChanged();
}

export async function deactivate(): Promise<void> {
  await lasting?.backend.dispose();
  // Writing to a closed channel throws, so it closes after the backend.
  lasting?.log.dispose();
}

/** The remembered models, valid for these versions, settings, start folder and configuration files. */
function memoryOf(memento: vscode.Memento, version: string, running: Backend): Memory {
  const setup = () => {
    const { configuration, command } = settings();
    const [cwd = ''] = folders();
    return [version, process.env['DRAGOMAN_CONFIG'] ?? '', configuration, cwd, ...command];
  };
  const remembered = new RememberedModels(memento, setup);
  return {
    recall: () => remembered.recall(),
    keep: async (models) => {
      const { state } = running;
      const used = state.name === 'ready' ? state.configuration : undefined;
      const files = [used, ...folders().slice(0, 1).map((folder) => path.join(folder, 'dragoman.toml'))];
      await remembered.keep(models, files.flatMap((file) => file ?? []));
    },
  };
}

function launchOf([command = '', ...words]: readonly string[]): Launch {
  const [cwd] = folders();
  return {
    command,
    args: [...words, 'vscode', '--log-level', settings().logLevel, ...configured()],
    ...(cwd === undefined ? {} : { cwd }),
    env: inheritedEnvironment(process.env),
  };
}

/** The features of this VS Code, as the settings want them. */
function declared(): object {
  return { ...features(), fs: true, terminal: true, ...(settings().thinking === 'text' ? { thinking: false } : {}) };
}

function folders(): string[] {
  return (vscode.workspace.workspaceFolders ?? []).flatMap(({ uri }) => (uri.scheme === 'file' ? [uri.fsPath] : []));
}

/**
 * Write a line to the log. `dragoman.logLevel` has decided that it is wanted. VS Code's own level of the channel is `info`
 * unless the user changes it, and would drop a debug line: that is then written as information.
 */
function write(log: vscode.LogOutputChannel, level: string, message: string): void {
  switch (level) {
    case 'error':
      log.error(message);
      break;
    case 'warning':
      log.warn(message);
      break;
    case 'debug':
      if (log.logLevel === vscode.LogLevel.Debug || log.logLevel === vscode.LogLevel.Trace) {
        log.debug(message);
      } else {
        log.info(`[debug] ${message}`);
      }
      break;
    case 'trace':
      log.trace(message);
      break;
    default:
      log.info(message);
  }
}
