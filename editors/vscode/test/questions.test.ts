/** Requests for permission: what the dialogs show, what a person’s answer sends, and approvals that last. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PendingApprovals } from '../src/approvals';
import { registerCommands } from '../src/commands';
import { registerQuestionDocuments } from '../src/questions';
import { ALLOW_ONCE, PermissionTool, REFUSE, REFUSED, SHOW_ALL } from '../src/tools';
import { isPermissionTool, PERMISSION_PREFIX, type PreparedInvocation, RISK_CLASSES } from '../src/wire';
import * as vscode from './vscode';

const PREPARED: PreparedInvocation = {
  invocationMessage: 'Claude asks',
  confirmationMessages: { title: 'Claude: run a command?', message: '```\ngit status\n```' },
  modal: { message: 'Claude wants to change a file outside the workspace', detail: 'File: /etc/hosts' },
  isSensitive: false,
  isCut: false,
};
const SENSITIVE = { ...PREPARED, isSensitive: true };
const TOKEN = [{ type: 'text', value: 'token' }];

function asking(prepared: PreparedInvocation, others: Record<string, unknown> = {}) {
  const editor = vscode.anotherEditor();
  const asked: [method: string, params: unknown][] = [];
  const answers: Record<string, unknown> = {
    'tools/prepareInvocation': prepared,
    'tools/invoke': { content: TOKEN },
    'permissions/show': { title: 'Claude: run `a/b`?', text: 'every word of it' },
    ...others,
  };
  const backend = {
    request: async (method: string, params: unknown) => {
      asked.push([method, params]);
      const answer = answers[method];
      if (answer instanceof Error) {
        throw answer;
      }
      return answer;
    },
  };
  const approvals = new PendingApprovals(() => undefined);
  registerQuestionDocuments(backend);
  registerCommands({ backend: backend as never, agents: { loginWanted: undefined }, approvals, log: { show: () => undefined }, places: () => assert.fail() });
  const name = `${PERMISSION_PREFIX}${prepared.isSensitive ? 'sensitive' : 'execute'}`;
  const tool = new PermissionTool(name, backend, approvals);
  const source = new vscode.CancellationTokenSource();
  const token = source.token as never;
  const invoke = async (input: object = { nonce: 'n1' }) => {
    const { content } = await tool.invoke({ input } as never, token);
    return (content as unknown as { value: string }[]).map(({ value }) => value).join('');
  };
  const dialog = async () => (await tool.prepareInvocation({ input: { nonce: 'n1' } }, token)).confirmationMessages;
  const sent = () => asked.filter(([method]) => method === 'tools/invoke').map(([, params]) => params);
  const run = async (command: string, ...values: unknown[]) => {
    await editor.commands.get(`dragoman.${command}`)?.(...values);
  };
  return { editor, asked, approvals, name, source, invoke, dialog, sent, run };
}

test('an ordinary action: the nonce alone is sent, and no dialog of ours is shown', async () => {
  const { editor, name, invoke, sent } = asking(PREPARED);
  assert.equal(await invoke(), 'token');
  assert.deepEqual(sent(), [{ name, input: { nonce: 'n1' } }]);
  assert.deepEqual([editor.messages, editor.picks], [[], []]);
});

test('a sensitive action: “Allow Once” in our modal dialog, and only that, sends `confirmed`', async () => {
  const { editor, name, invoke, sent } = asking(SENSITIVE);
  editor.answers = [ALLOW_ONCE];
  // VS Code has not called prepareInvocation.
  assert.equal(await invoke(), 'token');
  assert.deepEqual(sent(), [{ name, input: { nonce: 'n1' }, confirmed: true }]);
  const { message: text, detail } = SENSITIVE.modal;
  // The first button has the focus, and must not be the one that allows.
  assert.deepEqual(editor.messages, [{ text, detail, buttons: [SHOW_ALL, ALLOW_ONCE] }]);
});

test('a sensitive action: the dialog is dismissed, and nothing is sent', async () => {
  const { invoke, sent, approvals } = asking(SENSITIVE);
  const call = { type: 'tool_call' as const, callId: 'dg_1', name: `${PERMISSION_PREFIX}sensitive`, input: { nonce: 'n1' } };
  approvals.emitted(call);
  assert.equal(await invoke(), REFUSED);
  assert.deepEqual(sent(), []);
  assert.equal(approvals.count, 0);
});

test('a sensitive action: stopped while the dialog is open, a late “Allow Once” sends nothing', async () => {
  const { editor, invoke, sent, source } = asking(SENSITIVE);
  editor.answers = [ALLOW_ONCE];
  editor.whileShown = () => source.cancel();
  assert.equal(await invoke(), REFUSED);
  assert.deepEqual(sent(), []);
});

test('a sensitive action: the modal dialog is written anew, whatever the chat’s dialog said before', async () => {
  let isSensitive = false;
  const changing = { ...PREPARED, get isSensitive() { return isSensitive; } };
  const { dialog, editor, invoke, sent } = asking(changing);
  await dialog();
  isSensitive = true;
  assert.equal(await invoke(), REFUSED);
  assert.deepEqual([editor.messages.length, sent()], [1, []]);
});

test('a sensitive action: “Show All” opens the question, and then the person decides beside it', async () => {
  for (const [answer, says, count] of [[ALLOW_ONCE, 'token', 1], [REFUSE, REFUSED, 0], ['', REFUSED, 0]] as const) {
    const { editor, invoke, sent } = asking(SENSITIVE);
    editor.answers = [SHOW_ALL, answer || 'Escape'];
    assert.equal(await invoke(), says);
    assert.match(editor.opened.join(), /^An agent asks.*\n{6}every word of it$/);
    assert.deepEqual(editor.picks.map(({ items }) => items.map(({ label }) => label)), [[REFUSE, ALLOW_ONCE]]);
    assert.equal(sent().length, count);
  }
});

test('a sensitive action that a modal dialog cannot show whole is shown from both ends, and only “Show All” leads on', async () => {
  const lines = Array.from({ length: 100 }, (_, number) => `line ${number}`);
  const long = { ...SENSITIVE, modal: { message: 'Claude', detail: lines.join('\n') } };
  const { editor, invoke, sent } = asking(long);
  editor.answers = [SHOW_ALL, ALLOW_ONCE];
  assert.equal(await invoke(), 'token');
  const [{ detail = '', buttons } = assert.fail()] = editor.messages;
  assert.deepEqual(buttons, [SHOW_ALL]);
  assert.match(detail, /^line 0\n[^]*line 11\n⟨76 lines left out: press “Show All” to read and decide⟩\nline 88\n[^]*line 99$/);
  assert.equal(sent().length, 1);
});

const ELIGIBLE = { 'tools.eligibleForAutoApproval': { 'dragoman.dragoman/agentExecute': true } };
const MODE = { 'permissions.default': 'autopilot' };
for (const [setting, settings] of [
  ['chat.tools.eligibleForAutoApproval', ELIGIBLE],
  ['chat.tools.eligibleForAutoApproval', { 'tools.eligibleForAutoApproval': {} }],
  ['chat.permissions.default', MODE],
] as const) {
  test(`an ordinary action, and a workspace that sets ${setting} to ${JSON.stringify(Object.values(settings)[0])}: our modal dialog asks`, async () => {
    for (const [answers, says] of [[[ALLOW_ONCE], 'token'], [[], REFUSED]] as const) {
      const { editor, invoke, sent } = asking(PREPARED);
      editor.settings = settings;
      editor.answers = [...answers];
      assert.equal(await invoke(), says);
      assert.equal(sent().length, answers.length);
      const [{ detail = '' } = {}, ...others] = editor.messages;
      assert(detail.startsWith(PREPARED.modal.detail) && detail.includes(setting), detail);
      assert.deepEqual(others, []);
    }
  });
}

for (const settings of [ELIGIBLE, MODE]) {
  test(`an ordinary action, and a person whose own settings have ${JSON.stringify(settings)}: no dialog of ours`, async () => {
    const { editor, invoke } = asking(PREPARED);
    editor.settings = settings;
    editor.userSettings = settings;
    assert.equal(await invoke(), 'token');
    assert.deepEqual(editor.messages, []);
  });
}

test('a backend that cannot be asked whether an action is sensitive allows nothing', async () => {
  const { invoke, sent } = asking(PREPARED, { 'tools/prepareInvocation': new Error('gone') });
  await assert.rejects(invoke(), /gone/);
  assert.deepEqual(sent(), []);
});

test('the refusal is told in words that the backend reads as a person’s', () => {
  const table = readFileSync('../../src/dragoman/conversations/vscode_results.py', 'utf8');
  assert(table.includes(`(r"${REFUSED}", "denied")`));
});

test('a short question is not trusted: it can hold no command link', async () => {
  const { dialog } = asking(PREPARED);
  const message = (await dialog())?.message as unknown as vscode.MarkdownString;
  assert.deepEqual([message.value, message.isTrusted], ['```\ngit status\n```', undefined]);
});

const tall = '```\n' + 'line\n'.repeat(20) + '```';
for (const [why, changes, settings] of [
  ['is cut', { isCut: true }, {}],
  ['is taller than the dialog', { confirmationMessages: { title: 't', message: tall } }, {}],
  ['may be wider than the dialog', {}, { 'editor.wordWrap': 'off' }],
] as const) {
  test(`a question that ${why} begins with a link to the whole, and that command is the only one`, async () => {
    const { dialog, editor } = asking({ ...PREPARED, ...changes });
    editor.settings = settings;
    const message = (await dialog())?.message as unknown as vscode.MarkdownString;
    const [, values] = /^\*\*\[↗ Show the whole question\]\(command:dragoman\.showQuestion\?([^)]*)\)\*\*\n\n/.exec(message.value) ?? assert.fail(message.value);
    assert.deepEqual(JSON.parse(decodeURIComponent(values ?? '')), ['n1']);
    assert.deepEqual(message.isTrusted, { enabledCommands: ['dragoman.showQuestion'] });
  });
}

test('a question about changes has a link to the diff, beside the one to the whole if that is needed', async () => {
  const short = asking({ ...PREPARED, hasChanges: true });
  const message = (await short.dialog())?.message as unknown as vscode.MarkdownString;
  assert.match(message.value, /^\*\*\[↗ Open the change as a diff\]\(command:dragoman\.showChanges\?%5B%22n1%22%5D\)\*\*\n\n/);
  assert.deepEqual(message.isTrusted, { enabledCommands: ['dragoman.showChanges'] });
  const cut = asking({ ...PREPARED, hasChanges: true, isCut: true });
  const both = (await cut.dialog())?.message as unknown as vscode.MarkdownString;
  assert.deepEqual(both.isTrusted, { enabledCommands: ['dragoman.showQuestion', 'dragoman.showChanges'] });
});

test('Show Question opens the one of the link; from the palette, one that waits', async () => {
  const { editor, approvals, asked, run } = asking(PREPARED);
  await run('showQuestion', 'n7');
  assert.match(editor.opened.join(), /every word of it$/);
  assert.deepEqual(asked.at(-1), ['permissions/show', { nonce: 'n7' }]);
  await run('showQuestion');
  assert.match(editor.messages[0]?.text ?? '', /No agent is waiting for permission/);
  for (const nonce of ['n1', 'n2']) {
    approvals.emitted({ type: 'tool_call', callId: nonce, name: `${PERMISSION_PREFIX}read`, input: { nonce } });
  }
  editor.answers = ['Claude'];
  await run('showQuestion');
  assert.equal(editor.picks[0]?.items.length, 2);
  assert.equal(editor.opened.length, 2);
});

const RECENT = {
  id: 'q1',
  title: 'Run $(rocket) `make`',
  agent: 'claude',
  detail: 'make',
  decision: 'allowed once',
  at: 1,
  covers: 'The command `make`\nin /w, by claude',
  levels: ['session', 'workspace'],
};

test('Allow from Now On: a question, a level, a dialog that says what it covers, and then it is stored', async () => {
  const { editor, asked, run } = asking(PREPARED, { 'permissions/recent': { questions: [RECENT] }, 'permissions/allow': { covers: '' } });
  editor.answers = ['make', 'Workspace', 'Allow from Now On'];
  await run('allowFromNowOn');
  assert.deepEqual(asked, [['permissions/recent', {}], ['permissions/allow', { id: 'q1', level: 'workspace' }]]);
  const [questions, levels] = editor.picks;
  const [item] = questions?.items ?? [];
  assert.deepEqual([item?.label, item?.description, item?.detail], ['Run \\$(rocket) `make`', 'claude · allowed once', 'The command `make` in /w, by claude']);
  assert.deepEqual(levels?.items.map(({ label }) => label), ['Session', 'Workspace']);
  const [modal, done] = editor.messages;
  assert.equal(modal?.detail, `${RECENT.covers}\n\nAgent: claude\nHolds for: This folder, also after a restart`);
  assert.match(done?.text ?? '', /^Allowed from now on: this folder, also after a restart\./);
});

test('Allow from Now On: whoever leaves it at any step has allowed nothing', async () => {
  for (const answers of [[], ['make'], ['make', 'Session']]) {
    const { editor, asked, run } = asking(PREPARED, { 'permissions/recent': { questions: [RECENT] } });
    editor.answers = answers;
    await run('allowFromNowOn');
    assert.deepEqual(asked.map(([method]) => method), ['permissions/recent']);
  }
});

test('Allow from Now On: without a question, and for one that can only be allowed once, it says so', async () => {
  const none = asking(PREPARED, { 'permissions/recent': { questions: [] } });
  await none.run('allowFromNowOn');
  assert.match(none.editor.messages[0]?.text ?? '', /as soon as its dialog is open/);
  const once = asking(PREPARED, { 'permissions/recent': { questions: [{ ...RECENT, levels: [] }] } });
  once.editor.answers = ['make'];
  await once.run('allowFromNowOn');
  assert.match(once.editor.messages[0]?.text ?? '', /only be allowed once/);
  assert.deepEqual(once.asked.map(([method]) => method), ['permissions/recent']);
});

const RULE = { words: 'always allow `make` with any arguments here', toml: '[[policy]]\ndecision = "allow"\ncommand = ["make"]\n', file: '/home/her/dragoman.toml' };
const WITH_RULE = { 'permissions/recent': { questions: [{ ...RECENT, rules: [RULE] }] }, 'permissions/addRule': { line: 7 } };

test('Allow from Now On: a rule is added after a dialog that has its text and its file', async () => {
  const { editor, asked, run } = asking(PREPARED, WITH_RULE);
  editor.answers = ['make', 'any arguments', 'Add the Rule', 'Open the Configuration'];
  await run('allowFromNowOn');
  assert.deepEqual(asked, [['permissions/recent', {}], ['permissions/addRule', { id: 'q1', toml: RULE.toml }]]);
  assert.deepEqual(editor.picks[1]?.items.map(({ label }) => label), ['Session', 'Workspace', 'Always allow `make` with any arguments here']);
  const [modal, done] = editor.messages;
  assert.equal(modal?.detail, `${RULE.toml}\nThis goes to the end of ${RULE.file}`);
  assert.match(done?.text ?? '', /^The rule holds from now on\. It is at line 7/);
  assert.deepEqual(editor.opened, [RULE.file]);
});

test('Allow from Now On: a rule that a modal dialog cannot show whole is not offered', async () => {
  const long = { ...RULE, toml: RULE.toml.repeat(8) };
  const { editor, run } = asking(PREPARED, { 'permissions/recent': { questions: [{ ...RECENT, rules: [long] }] } });
  editor.answers = ['make'];
  await run('allowFromNowOn');
  assert.deepEqual(editor.picks[1]?.items.map(({ label }) => label), ['Session', 'Workspace']);
});

test('Allow from Now On: a rule whose dialog is left is not added, and one that cannot be added is told', async () => {
  const left = asking(PREPARED, WITH_RULE);
  left.editor.answers = ['make', 'any arguments'];
  await left.run('allowFromNowOn');
  assert.deepEqual(left.asked.map(([method]) => method), ['permissions/recent']);
  const failed = asking(PREPARED, { ...WITH_RULE, 'permissions/addRule': new Error('The rule was not written. The disk is full.') });
  failed.editor.answers = ['make', 'any arguments', 'Add the Rule'];
  await failed.run('allowFromNowOn');
  assert.deepEqual(failed.editor.messages.slice(1).map(({ text }) => text), ['The rule was not written. The disk is full.']);
});

test('every permission tool is promised, takes a nonce alone, and is ineligible for auto-approval', () => {
  const { contributes } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    contributes: {
      languageModelTools: { name: string; toolReferenceName: string; inputSchema: { properties: object } }[];
      configurationDefaults: Record<string, Record<string, boolean>>;
    };
  };
  const tools = contributes.languageModelTools.filter(({ name }) => isPermissionTool(name));
  assert.deepEqual(tools.map(({ name }) => name), RISK_CLASSES.map((risk) => `${PERMISSION_PREFIX}${risk}`));
  tools.forEach(({ inputSchema }) => assert.deepEqual(Object.keys(inputSchema.properties), ['nonce']));
  const ineligible = Object.fromEntries(tools.map(({ toolReferenceName }) => [`dragoman.dragoman/${toolReferenceName}`, false]));
  assert.deepEqual(contributes.configurationDefaults['chat.tools.eligibleForAutoApproval'], ineligible);
});
