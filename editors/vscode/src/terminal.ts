/** Terminals that run one command. */
import * as vscode from 'vscode';

/**
 * Run the command line in `$@`, then the user's shell: VS Code closes a terminal when its process ends, and with it the
 * output. The words are arguments and never parsed, so none of them needs quoting.
 */
const STAYS_OPEN = '"$@"; exec "${SHELL:-/bin/sh}"';

/** Open a terminal that runs a command line and stays open after it. */
export function openTerminal(name: string, command: readonly string[]): void {
  const terminal = vscode.window.createTerminal({
    name,
    iconPath: new vscode.ThemeIcon('pulse'),
    shellPath: '/bin/sh',
    shellArgs: ['-c', STAYS_OPEN, 'dragoman', ...command],
  });
  terminal.show();
}
