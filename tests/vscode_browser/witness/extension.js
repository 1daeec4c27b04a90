// Beside the extension that is tested: a tool that agents can call, and what the editor knows, in a file.
'use strict';
const fs = require('node:fs');
const vscode = require('vscode');

const RECORD = process.env.WITNESS_RECORD;

function record(entry) {
  fs.appendFileSync(RECORD, `${JSON.stringify(entry)}\n`);
}

exports.activate = (context) => {
  let waiting = [];
  const measure = {
    invoke: async ({ input }) => {
      record({ event: 'measure', word: input.word });
      // Measured together, or not at all: two that come one after the other would wait for ever.
      await new Promise((resolve) => {
        waiting.push(resolve);
        if (waiting.length >= (input.together ?? 1)) {
          waiting.forEach((release) => release());
          waiting = [];
        }
      });
      const text = `${input.word} has ${input.word.length} letters`;
      return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart(text)]);
    },
  };
  context.subscriptions.push(vscode.lm.registerTool('witness_measure', measure));
  // A tool, called as an extension does it that has no chat.
  const call = async () => {
    const { name, input } = JSON.parse(fs.readFileSync(process.env.WITNESS_CALL, 'utf8'));
    const { content } = await vscode.lm
      .invokeTool(name, { input, toolInvocationToken: undefined })
      .then(undefined, (error) => ({ content: [{ value: String(error) }] }));
    record({ event: 'called', text: content.map(({ value }) => value).join('') });
  };
  context.subscriptions.push(vscode.commands.registerCommand('witness.call', call));
  const opened = (document) => {
    if (document.uri.scheme === 'dragoman') {
      record({ event: 'document', text: document.getText() });
    }
  };
  context.subscriptions.push(vscode.workspace.onDidOpenTextDocument(opened));
  const setting = () => {
    const chosen = vscode.workspace.getConfiguration('chat');
    record({ event: 'settings', eligible: chosen.get('tools.eligibleForAutoApproval'), mode: chosen.get('permissions.default') });
  };
  context.subscriptions.push(vscode.workspace.onDidChangeConfiguration(setting));
  const look = setInterval(() => {
    if (vscode.extensions.getExtension('GitHub.copilot-chat')?.isActive) {
      clearInterval(look);
      record({ event: 'built-in chat' });
    }
  }, 200);
  context.subscriptions.push({ dispose: () => clearInterval(look) });
  record({ event: 'activated', version: vscode.version });
};
