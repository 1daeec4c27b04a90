import * as vscode from 'vscode';
import type { ProviderSettings } from './provider';

export const SECTION = 'dragoman';

export interface Settings extends ProviderSettings {
  readonly command: readonly string[];
  readonly configuration: string;
  readonly logLevel: string;
}

export function settings(): Settings {
  const section = vscode.workspace.getConfiguration(SECTION);
  return {
    command: section.get<string[]>('command', []),
    configuration: section.get('configuration', ''),
    models: section.get<string[]>('models', []),
    permission: section.get('permission', 'ask'),
    thinking: section.get('thinking', 'show'),
    logLevel: section.get('logLevel', 'info'),
  };
}

/** The settings that say what to start: a change restarts the backend. */
export function needsRestart(change: vscode.ConfigurationChangeEvent): boolean {
  return affects(change, ['command', 'configuration']);
}

/** The settings that a running backend takes over, with `settings/didChange`. */
export function isLive(change: vscode.ConfigurationChangeEvent): boolean {
  return affects(change, ['thinking', 'logLevel']);
}

function affects(change: vscode.ConfigurationChangeEvent, names: readonly string[]): boolean {
  return names.some((name) => change.affectsConfiguration(`${SECTION}.${name}`));
}
