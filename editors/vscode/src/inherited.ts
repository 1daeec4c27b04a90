/** The environment of the processes that this extension starts. */

const RUN_AS_NODE = 'ELECTRON_RUN_AS_NODE';
const OF_VSCODE = 'VSCODE_';

/** The environment without the variables that VS Code sets for itself. They change what `node`, `code` and `git` do. */
export function inheritedEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => name !== RUN_AS_NODE && !name.startsWith(OF_VSCODE)),
  );
}
