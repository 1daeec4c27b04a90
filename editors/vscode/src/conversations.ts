/** The view of stored conversations: show one, continue it in the chat, delete it. */
import * as vscode from 'vscode';
import { openChat } from './agents';
import type { Backend } from './backend';
import { within } from './cancellation';
import { sentence } from './errors';
import { withoutIcons } from './icons';
import type { ConversationRow } from './wire';

export const CONVERSATION_SCHEME = 'dragoman-conversation';
const VIEW = 'dragoman.conversations';
/** The backend reads them from its file. It may have to start first. */
const LIST_MS = 20_000;
const TITLE_CHARACTERS = 60;
const ICONS: Readonly<Record<string, string>> = {
  answering: 'loading~spin',
  asking: 'bell-dot',
  waiting: 'loading~spin',
  elsewhere: 'lock',
};
const STATES: Readonly<Record<string, string>> = {
  answering: 'The agent is answering.',
  asking: 'The agent waits for your decision.',
  waiting: 'The agent waits for a tool.',
  idle: 'The agent is running.',
  elsewhere: 'It is open in another process.',
  stored: 'It is stored.',
};

type Asked = Pick<Backend, 'request'>;

export class ConversationTree implements vscode.TreeDataProvider<ConversationRow> {
  readonly #backend: Asked;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.#changed.event;

  constructor(backend: Asked) {
    this.#backend = backend;
  }

  refresh(): void {
    this.#changed.fire();
  }

  getTreeItem(row: ConversationRow): vscode.TreeItem {
    const item = new vscode.TreeItem(row.title || row.id);
    item.id = row.id;
    item.contextValue = 'conversation';
    item.description = `${row.agent} · ${when(row.usedAt)}`;
    item.iconPath = new vscode.ThemeIcon(ICONS[row.state] ?? 'comment');
    const memory = row.keepsMemory
      ? 'Continued, the agent goes on with its own memory.'
      : 'Continued, the agent gets a transcript: it was begun by another program or in another folder.';
    item.tooltip = [row.title, `${row.agent}, ${row.client}`, row.folder, STATES[row.state] ?? row.state, memory].join('\n');
    item.command = { command: `${VIEW}.show`, title: 'Show', arguments: [row] };
    return item;
  }

  async getChildren(parent?: ConversationRow): Promise<ConversationRow[]> {
    if (parent !== undefined) {
      return [];
    }
    const { conversations } = (await ask(this.#backend, 'conversations/list', {})) as { conversations: ConversationRow[] };
    return conversations;
  }

  dispose(): void {
    this.#changed.dispose();
  }
}

/** The view and its commands. `refresh`: the list has changed, or the backend that has it is another one. */
export function registerConversations(backend: Asked): vscode.Disposable & { refresh(): void } {
  const tree = new ConversationTree(backend);
  const view = vscode.window.createTreeView(VIEW, { treeDataProvider: tree });
  const told = async (does: () => Promise<void>) => {
    try {
      await does();
    } catch (error) {
      await vscode.window.showErrorMessage(sentence(error));
    }
  };
  const register = (name: string, does: (row: ConversationRow) => Promise<void>) =>
    vscode.commands.registerCommand(`${VIEW}.${name}`, (row?: ConversationRow) =>
      told(async () => {
        const chosen = row ?? (await pick(tree));
        if (chosen !== undefined) {
          await does(chosen);
        }
      }),
    );
  const registered = vscode.Disposable.from(
    tree,
    view,
    // What was said while there was no backend to tell of it changes the list.
    view.onDidChangeVisibility(({ visible }) => visible && tree.refresh()),
    vscode.commands.registerCommand(`${VIEW}.refresh`, () => tree.refresh()),
    register('show', show),
    register('continue', ({ id }) => openChat(`@dragoman /continue ${id} `)),
    register('delete', async (row) => {
      await remove(backend, row);
      tree.refresh();
    }),
    vscode.workspace.registerTextDocumentContentProvider(CONVERSATION_SCHEME, {
      provideTextDocumentContent: async ({ query }) =>
        ((await ask(backend, 'conversations/show', { id: query })) as { text: string }).text,
    }),
  );
  return { refresh: () => tree.refresh(), dispose: () => registered.dispose() as undefined };
}

function ask(backend: Asked, method: string, params: object): Promise<unknown> {
  return within(LIST_MS, undefined, (signal) => backend.request(method, params, { signal }));
}

async function pick(tree: ConversationTree): Promise<ConversationRow | undefined> {
  const items = (await tree.getChildren()).map((row) => ({
    label: withoutIcons(row.title || row.id),
    description: `${row.agent} · ${when(row.usedAt)}`,
    row,
  }));
  if (items.length === 0) {
    await vscode.window.showInformationMessage('No conversation of this folder is stored.');
    return undefined;
  }
  return (await vscode.window.showQuickPick(items, { title: 'Conversations of this folder' }))?.row;
}

/** Open the whole conversation as a read-only document. */
async function show({ id, title }: ConversationRow): Promise<void> {
  const path = `/${(title || id).slice(0, TITLE_CHARACTERS).replace(/[\s/\\?#]+/g, ' ')}.md`;
  const uri = vscode.Uri.from({ scheme: CONVERSATION_SCHEME, path, query: id });
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.window.showTextDocument(document, { preview: true });
}

async function remove(backend: Asked, { id, title, agent }: ConversationRow): Promise<void> {
  const detail = `${title || id}\n\n${agent}\n\nWhat was said is deleted. The decisions about permissions stay, without content.`;
  const chosen = await vscode.window.showWarningMessage('Delete this conversation?', { modal: true, detail }, 'Delete');
  if (chosen === 'Delete') {
    await ask(backend, 'conversations/delete', { id });
  }
}

function when(seconds: number): string {
  const at = new Date(seconds * 1000);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }) : at.toLocaleDateString();
}
