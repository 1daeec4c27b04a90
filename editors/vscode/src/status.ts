/** The item in the status bar: the state of Dragoman, and the number of pending permission requests. */
import * as vscode from 'vscode';
import type { BackendState } from './backend';

export class Status {
  readonly #item = vscode.window.createStatusBarItem('dragoman.status', vscode.StatusBarAlignment.Right);
  #state: BackendState = { name: 'stopped' };
  #waiting = 0;
  #agents: readonly string[] = [];

  constructor() {
    this.#item.name = 'Dragoman';
    this.#item.command = 'dragoman.menu';
    this.#draw();
    this.#item.show();
  }

  changed(state: BackendState): void {
    this.#state = state;
    this.#draw();
  }

  waiting(count: number): void {
    this.#waiting = count;
    this.#draw();
  }

  /** Lines about the agents: chosen options, and the last usage. */
  agents(lines: readonly string[]): void {
    this.#agents = lines;
    this.#draw();
  }

  dispose(): void {
    this.#item.dispose();
  }

  #draw(): void {
    const { icon, tooltip, name = 'Dragoman', background } = this.#shown();
    this.#item.text = `${icon} ${name}${this.#waiting > 0 ? ` $(bell-dot) ${this.#waiting}` : ''}`;
    const waiting = this.#waiting > 0 ? [`Requests of agents that wait for you: ${this.#waiting}`] : [];
    this.#item.tooltip = [tooltip, ...waiting, ...this.#agents].join('\n');
    this.#item.backgroundColor = background === undefined ? undefined : new vscode.ThemeColor(background);
  }

  #shown(): { icon: string; tooltip: string; name?: string; background?: string } {
    switch (this.#state.name) {
      case 'ready':
        return { icon: '$(comment-discussion)', tooltip: `Dragoman ${this.#state.version} is running.` };
      case 'starting':
        return { icon: '$(loading~spin)', tooltip: 'Dragoman is starting.' };
      case 'missing':
        return { icon: '$(rocket)', name: 'Set Up Dragoman', tooltip: 'Set up Dragoman: coding agents in the chat, and you decide what they may do.' };
      case 'failed':
        return { icon: '$(error)', tooltip: this.#state.reason, background: 'statusBarItem.errorBackground' };
      case 'stopped':
        return { icon: '$(circle-outline)', tooltip: 'Dragoman is not running. It starts with your next prompt.' };
    }
  }
}
