/**
 * Settings of VS Code that skip the chat's dialog, or make an answer to it last, and that the user did not set.
 *
 * VS Code also reads both from a workspace's `.vscode/settings.json`, without a warning. Only a value in the user settings
 * counts as chosen by the user. A policy or another extension can impose them, too.
 */
import * as vscode from 'vscode';
import { PERMISSION_PREFIX } from './wire';

const SECTION = 'chat';
const ELIGIBLE = 'tools.eligibleForAutoApproval';
const MODE = 'permissions.default';

/** The name of the setting that affects this permission tool; undefined if there is none. */
export function imposedSetting(tool: string): string | undefined {
  const chat = vscode.workspace.getConfiguration(SECTION);
  const risk = tool.slice(PERMISSION_PREFIX.length);
  const name = `dragoman.dragoman/agent${risk.charAt(0).toUpperCase()}${risk.slice(1)}`;
  const chosen = chat.inspect<Record<string, unknown>>(ELIGIBLE)?.globalValue ?? {};
  // A tool that is not mentioned is eligible.
  if (chat.get<Record<string, unknown>>(ELIGIBLE, {})[name] !== false && chosen[name] !== true) {
    return `${SECTION}.${ELIGIBLE}`;
  }
  if (skipsDialogs(chat.get(MODE)) && !skipsDialogs(chat.inspect(MODE)?.globalValue)) {
    return `${SECTION}.${MODE}`;
  }
  return undefined;
}

function skipsDialogs(mode: unknown): boolean {
  return mode !== undefined && mode !== 'default';
}
