/**
 * The menu of the item in the status bar. Its first entry is the one next step; a few others follow, and *More…* has the
 * rest.
 */
import * as vscode from 'vscode';
import type { BackendState } from './backend';
import { ADD_PROVIDER, isBuiltInChatActive } from './welcome';

/** The agent that is there from the start. */
const DEMO = 'demo';
const WALKTHROUGH = 'dragoman.dragoman#start';

interface Entry extends vscode.QuickPickItem {
  readonly command: string;
  readonly values?: readonly unknown[];
}

/** What the next step depends on. */
export interface Situation {
  readonly state: BackendState;
  /** How many requests of agents wait for the user. */
  readonly waiting: number;
  /** An agent that has answered that it requires a login. */
  readonly login: { readonly id: string; readonly name: string } | undefined;
}

const INSTALL: Entry = {
  label: '$(cloud-download) Install Dragoman',
  detail: 'Into a folder of the extension. Needs Python 3.11 or newer.',
  command: 'dragoman.install',
};
const USE_INSTALLED: Entry = {
  label: '$(folder) Use an Installed One…',
  detail: 'Name its command in the settings',
  command: 'workbench.action.openSettings',
  values: ['dragoman.command'],
};
const WALK: Entry = {
  label: '$(book) Read the First Steps',
  command: 'workbench.action.openWalkthrough',
  values: [WALKTHROUGH, false],
};
const CHECK: Entry = { label: '$(pulse) Check the Installation', command: 'dragoman.doctor' };
const LOG: Entry = { label: '$(output) Show Log', command: 'dragoman.showLog' };
const RESTART: Entry = { label: '$(debug-restart) Restart', command: 'dragoman.restart' };
const MANAGE: Entry = { label: '$(settings-gear) Manage Agents', command: 'dragoman.manage' };
const OPTIONS: Entry = { label: '$(settings) Agent Options…', command: 'dragoman.agentOptions' };
const BUILT_IN_CHAT: Entry = { label: '$(comment-discussion) Use in the Built-in Chat', command: 'dragoman.builtInChat' };
const ASK: Entry = {
  label: '$(comment) Ask @dragoman',
  command: 'workbench.action.chat.open',
  values: [{ query: '@dragoman ', isPartialQuery: true }],
};
const SIGN_IN: Entry = { label: '$(sign-in) Sign In…', command: 'dragoman.signIn' };
const OTHERS: readonly Entry[] = [
  { label: '$(terminal) Agent Commands…', command: 'dragoman.agentCommands' },
  SIGN_IN,
  { label: '$(pass) Allow from Now On…', command: 'dragoman.allowFromNowOn' },
  { label: '$(discard) Reset Approvals', command: 'dragoman.resetApprovals' },
  BUILT_IN_CHAT,
  CHECK,
  LOG,
  RESTART,
];

export async function showMenu(situation: Situation): Promise<void> {
  const { state } = situation;
  const isBroken = state.name === 'failed' || state.name === 'missing';
  const title = state.name === 'missing' ? 'Set Up Dragoman' : isBroken ? state.reason : `Dragoman: ${state.name}`;
  const first = await entriesOf(situation);
  const more = { label: '$(ellipsis) More…', command: '' };
  const rest = OTHERS.filter(({ command }) => !first.some((entry) => entry.command === command));
  let chosen = await vscode.window.showQuickPick<Entry>(isBroken ? first : [...first, more], { title });
  if (chosen === more) {
    chosen = await vscode.window.showQuickPick<Entry>(rest, { title });
  }
  if (chosen !== undefined) {
    await vscode.commands.executeCommand(chosen.command, ...(chosen.values ?? []));
  }
}

/** A few entries, the next step first. */
async function entriesOf({ state, waiting, login }: Situation): Promise<Entry[]> {
  if (state.name === 'missing') {
    return [INSTALL, USE_INSTALLED, WALK, LOG];
  }
  if (state.name === 'failed') {
    return [{ ...CHECK, detail: 'Says what is wrong, and what to do' }, LOG, MANAGE, RESTART, INSTALL];
  }
  const next = waiting > 0 ? waitingQuestion(waiting) : login !== undefined ? signIn(login) : await nextOf();
  return [next, ...[ASK, MANAGE, OPTIONS].filter(({ command }) => command !== next.command)];
}

function waitingQuestion(count: number): Entry {
  const detail = count === 1 ? 'An agent waits for your decision' : `Agents wait for your decision ${count} times`;
  return { label: '$(bell-dot) Show Question', detail, command: 'dragoman.showQuestion' };
}

function signIn({ id, name }: { id: string; name: string }): Entry {
  return { ...SIGN_IN, detail: `${name} requires a login`, values: [id] };
}

async function nextOf(): Promise<Entry> {
  const models = await vscode.lm.selectChatModels({ vendor: 'dragoman' });
  if (models.every(({ id }) => id === DEMO)) {
    return { ...MANAGE, label: '$(add) Add an Agent', detail: 'Until then there is only the demo agent' };
  }
  if (!isBuiltInChatActive() && (await vscode.commands.getCommands(true)).includes(ADD_PROVIDER)) {
    return { ...BUILT_IN_CHAT, detail: 'Without @dragoman, and without an account' };
  }
  return { ...ASK, detail: 'Or choose an agent in the chat’s list of models' };
}
