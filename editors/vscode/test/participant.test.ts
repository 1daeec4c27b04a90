import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { respond } from '../src/participant';
import * as vscode from './vscode';

const select = vscode.lm.selectChatModels;

afterEach(() => {
  vscode.lm.selectChatModels = select;
});

function model(id: string, vendor: string, said: string[]) {
  return {
    id,
    vendor,
    sendRequest: async () => ({
      stream: (async function* () {
        said.push(id);
        yield new vscode.LanguageModelTextPart(`from ${id}`);
      })(),
    }),
  };
}

async function answered(selected: object | undefined) {
  const shown: string[] = [];
  const stream = { markdown: (text: string) => shown.push(text), progress: () => undefined };
  const request = { model: selected, prompt: 'hello', references: [], toolReferences: [], command: undefined };
  const { token } = new vscode.CancellationTokenSource();
  const result = await respond(request as never, { history: [] } as never, stream as never, token as never);
  return { shown: shown.join(''), error: result.errorDetails?.message };
}

test('a model is looked up before it is asked: after a reload VS Code shows one that it does not know yet', async () => {
  const said: string[] = [];
  const unknown = {
    id: 'demo',
    vendor: 'dragoman',
    sendRequest: () => Promise.reject(new Error('Chat provider for model dragoman/demo is not registered.')),
  };
  const selectors: object[] = [];
  vscode.lm.selectChatModels = async (selector) => {
    selectors.push(selector);
    return [model('demo', 'dragoman', said)];
  };
  assert.deepEqual(await answered(unknown), { shown: 'from demo', error: undefined });
  assert.deepEqual(selectors, [{ vendor: 'dragoman', id: 'demo' }]);
  assert.deepEqual(said, ['demo']);
});

test('where the picker stands on a model of somebody else, one of ours answers', async () => {
  const theirs: string[] = [];
  const ours: string[] = [];
  vscode.lm.selectChatModels = async () => [model('demo', 'dragoman', ours)];
  assert.equal((await answered(model('auto', 'copilot', theirs))).shown, 'from demo');
  assert.deepEqual([theirs, ours], [[], ['demo']]);
});

test('without any model the error says what to do', async () => {
  assert.match((await answered(undefined)).error ?? '', /Dragoman: Manage Agents/);
});
