/**
 * Settings of VS Code that skip the chat's dialog, or make an answer to it last, and are not the person's own.
 *
 * VS Code reads both also from a workspace's `.vscode/settings.json`, and warns of neither. Only what stands in the user
 * settings counts as chosen by the person. A policy or another extension can impose them, too.
 */
import * as vscode from 'vscode';
import { PERMISSION_PREFIX } from './wire';

const SECTION = 'chat';
const ELIGIBLE = 'tools.eligibleForAutoApproval';
const MODE = 'permissions.default';

/** The name of the setting that this permission tool is affected by; undefined if there is none. */
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
