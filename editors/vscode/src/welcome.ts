/**
 * What the extension offers to somebody who has just installed it. Each offer is made once; afterwards the status bar, the
 * commands and the walkthrough have the same.
 */
import * as vscode from 'vscode';

/** Keys of the global state: an offer that was made. */
const OFFERED_SET_UP = 'offeredSetUp';
const OFFERED_CHAT = 'offeredBuiltInChat';

const BUILT_IN_CHAT = 'GitHub.copilot-chat';
/** Older versions of VS Code, and some editors made from it, do not have it: there the chat needs an account. */
export const ADD_PROVIDER = 'lm.addLanguageModelsProviderGroup';
/** After a start, VS Code takes some seconds to activate its own chat for somebody who is signed in. */
const CHAT_STARTS_MS = 8_000;

const SET_UP = 'Set Up';
const CHOOSE = 'Use an Installed One…';
const ASK = 'Ask @dragoman';
const USE_CHAT = 'Use in the Built-in Chat';

/** Offer to install Dragoman. */
export async function offerSetUp(): Promise<void> {
  const chosen = await vscode.window.showInformationMessage(
    'Dragoman brings coding agents into the chat, and asks you before they act. Set it up now? It goes into its own folder, and needs Python 3.11 or newer.',
    SET_UP,
    CHOOSE,
  );
  if (chosen === SET_UP) {
    await vscode.commands.executeCommand('dragoman.install');
  } else if (chosen === CHOOSE) {
    await vscode.commands.executeCommand('workbench.action.openSettings', 'dragoman.command');
  }
}

/** The offer that nobody requested: once on this machine. */
export async function offerSetUpOnce(memory: vscode.Memento): Promise<void> {
  if (memory.get(OFFERED_SET_UP) !== true) {
    await memory.update(OFFERED_SET_UP, true);
    await offerSetUp();
  }
}

/**
 * Offer the ways to talk to a model of ours, once, if VS Code's own chat cannot be used yet.
 *
 * Without an account, that chat answers a first prompt with a request to sign in, and no API reports that moment. So the
 * offer is made before it, when the first models are there.
 */
export async function offerChatOnce(memory: vscode.Memento, chatHasStarted = timeForChat): Promise<void> {
  if (memory.get(OFFERED_CHAT) === true) {
    return;
  }
  await chatHasStarted();
  if (memory.get(OFFERED_CHAT) === true || isBuiltInChatActive()) {
    return;
  }
  await memory.update(OFFERED_CHAT, true);
  const canBeAdded = (await vscode.commands.getCommands(true)).includes(ADD_PROVIDER);
  const chosen = await vscode.window.showInformationMessage(
    canBeAdded
      ? 'Dragoman’s agents are ready, without an account: let VS Code’s own chat use them, or begin a prompt with @dragoman. Until you choose, a prompt without @dragoman asks you to sign in.'
      : 'Dragoman’s agents are ready: begin a prompt with @dragoman. VS Code’s own chat uses them once you are signed in.',
    ...(canBeAdded ? [USE_CHAT] : []),
    ASK,
  );
  if (chosen === USE_CHAT) {
    await vscode.commands.executeCommand('dragoman.builtInChat');
  } else if (chosen === ASK) {
    await vscode.commands.executeCommand('workbench.action.chat.open', { query: '@dragoman ', isPartialQuery: true });
  }
}

/** Whether VS Code's own chat can be used: somebody is signed in, or has added a provider of models. */
export function isBuiltInChatActive(): boolean {
  return vscode.extensions.getExtension(BUILT_IN_CHAT)?.isActive === true;
}

function timeForChat(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, CHAT_STARTS_MS).unref());
}
