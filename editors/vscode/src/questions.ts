/**
 * An agent's permission requests beyond the chat's dialog: the whole question as a document, and lasting approvals.
 *
 * Dragoman stores lasting approvals itself, because those of VS Code hold for a whole tool: every action of every agent.
 */
import * as vscode from 'vscode';
import type { PendingApprovals } from './approvals';
import type { Backend } from './backend';
import { within } from './cancellation';
import { withoutIcons } from './icons';
import { fitsModal } from './modal';
import type { ApprovalLevel, Question, RecentQuestion, RuleOffer } from './wire';

export const QUESTION_SCHEME = 'dragoman';
export const SHOW_QUESTION = 'dragoman.showQuestion';
/** Contributed in package.json, so that its lines wrap and its white space is visible. */
const LANGUAGE = 'dragoman-question';
const NO_PENDING = 'No agent is waiting for permission. A question can be shown while its dialog is open.';
const NO_RECENT = 'No agent has asked for permission yet. A question appears here as soon as its dialog is open.';
/** It ends with empty lines, because the list above the document covers the first lines. */
const HEADER = `An agent asks for permission. This is the whole question.${'\n'.repeat(6)}`;
/** The backend answers from memory, or from its record on disk. It may have to start first. */
const ANSWER_MS = 20_000;
/** The most characters of a title in a tab. */
const TITLE_CHARACTERS = 60;

const TITLE = 'Allow from now on';
const LEVELS: Record<ApprovalLevel, { label: string; description: string }> = {
  session: { label: 'Session', description: 'This chat' },
  workspace: { label: 'Workspace', description: 'This folder, also after a restart' },
  always: { label: 'Always', description: 'Every chat, also after a restart' },
};

type Asked = Pick<Backend, 'request'>;

function ask(backend: Asked, method: string, params: object): Promise<unknown> {
  return within(ANSWER_MS, undefined, (signal) => backend.request(method, params, { signal }));
}

function question(backend: Asked, nonce: string): Promise<Question> {
  return ask(backend, 'permissions/show', { nonce }) as Promise<Question>;
}

export function registerQuestionDocuments(backend: Asked): vscode.Disposable {
  return vscode.workspace.registerTextDocumentContentProvider(QUESTION_SCHEME, {
    provideTextDocumentContent: async (uri) => HEADER + (await question(backend, uri.query)).text,
  });
}

/** Opens the question, uncut, as a read-only document. */
export async function openQuestion(backend: Asked, nonce: string): Promise<void> {
  const { title } = await question(backend, nonce);
  const path = `/${title.slice(0, TITLE_CHARACTERS).replace(/[\s/\\?#]+/g, ' ')}`;
  const document = await vscode.workspace.openTextDocument(
    vscode.Uri.from({ scheme: QUESTION_SCHEME, path, query: nonce }),
  );
  await vscode.languages.setTextDocumentLanguage(document, LANGUAGE);
  await vscode.window.showTextDocument(document, { preview: true });
}

/** Show the question with the nonce from a dialog's link. Without a nonce, the user selects a pending one. */
export async function showQuestion(backend: Asked, approvals: PendingApprovals, nonce: unknown): Promise<void> {
  const chosen = typeof nonce === 'string' ? nonce : await pendingNonce(backend, approvals);
  if (chosen !== undefined) {
    await openQuestion(backend, chosen);
  }
}

export async function pendingNonce(backend: Asked, { nonces }: PendingApprovals): Promise<string | undefined> {
  const found = await Promise.all(
    nonces.map(async (nonce) => {
      // It was answered meanwhile, or its backend has ended.
      const shown = await question(backend, nonce).catch(() => undefined);
      return shown === undefined ? [] : [{ label: withoutIcons(shown.title), nonce }];
    }),
  );
  const items = found.flat();
  if (items.length === 0) {
    await vscode.window.showInformationMessage(NO_PENDING);
    return undefined;
  }
  const only = items.length === 1 ? items[0] : undefined;
  return (only ?? (await vscode.window.showQuickPick(items, { title: 'Questions that wait for an answer' })))?.nonce;
}

/** Lists recent questions, and allows one of them from now on after the user has seen what that covers. */
export async function allowFromNowOn(backend: Asked): Promise<void> {
  const { questions } = (await ask(backend, 'permissions/recent', {})) as { questions: RecentQuestion[] };
  if (questions.length === 0) {
    await vscode.window.showInformationMessage(NO_RECENT);
    return;
  }
  const items = questions.map((asked) => ({
    label: withoutIcons(asked.title),
    description: withoutIcons(`${asked.agent} · ${asked.decision}`),
    detail: withoutIcons(asked.covers.replace(/\s+/g, ' ')),
    asked,
  }));
  const chosen = await vscode.window.showQuickPick(items, { title: TITLE, matchOnDetail: true });
  if (chosen === undefined) {
    return;
  }
  const { asked } = chosen;
  const ways = [
    ...asked.levels.map((level) => ({ ...LEVELS[level], allow: () => approve(backend, asked, level) })),
    // What a person cannot read in the dialog is not offered.
    ...(asked.rules ?? []).filter((rule) => fitsModal(ruleDetail(rule))).map((rule) => ({
      label: withoutIcons(rule.words.replace(/^./, (first) => first.toUpperCase())),
      description: 'A rule, which you see first',
      allow: () => addRule(backend, asked, rule),
    })),
  ];
  if (ways.length === 0) {
    await vscode.window.showInformationMessage('This action can only be allowed once, each time an agent asks.');
    return;
  }
  const way = await vscode.window.showQuickPick(ways, { title: `${TITLE}: for how long?` });
  await way?.allow();
}

/** Stores a lasting approval of exactly this action. */
async function approve(backend: Asked, { id, covers, agent }: RecentQuestion, level: ApprovalLevel): Promise<void> {
  const allow = 'Allow from Now On';
  const { description } = LEVELS[level];
  const detail = `${covers}\n\nAgent: ${agent}\nHolds for: ${description}`;
  if ((await vscode.window.showWarningMessage(`${TITLE}, without asking?`, { modal: true, detail }, allow)) !== allow) {
    return;
  }
  await ask(backend, 'permissions/allow', { id, level });
  // Without the agent's text: a notification turns link syntax into links, also into links to commands.
  const where = description.replace(/^./, (first) => first.toLowerCase());
  await vscode.window.showInformationMessage(`Allowed from now on: ${where}. “Dragoman: Reset Approvals” takes back every approval.`);
}

/** Adds a rule to the user's configuration. The backend writes it only if it still offers exactly the text that was shown. */
async function addRule(backend: Asked, { id }: RecentQuestion, rule: RuleOffer): Promise<void> {
  const add = 'Add the Rule';
  const detail = ruleDetail(rule);
  if ((await vscode.window.showWarningMessage('Add this rule to your configuration?', { modal: true, detail }, add)) !== add) {
    return;
  }
  const { line } = (await ask(backend, 'permissions/addRule', { id, toml: rule.toml })) as { line: number };
  const open = 'Open the Configuration';
  // Without the rule's text, as above.
  if ((await vscode.window.showInformationMessage(`The rule holds from now on. It is at line ${line} of your configuration.`, open)) === open) {
    const at = new vscode.Position(line - 1, 0);
    await vscode.window.showTextDocument(vscode.Uri.file(rule.file), { selection: new vscode.Range(at, at) });
  }
}

function ruleDetail({ toml, file }: RuleOffer): string {
  return `${toml}\nThis goes to the end of ${file}`;
}
