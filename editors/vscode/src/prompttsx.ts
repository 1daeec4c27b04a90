/**
 * Extracts the text of a prompt-tsx part: the JSON that a VS Code tool builds with `@vscode/prompt-tsx`.
 *
 * The JSON is a tree of pieces and texts. A text may begin on a new line; so may a piece, by its first text.
 */
const TEXT = 2;
/** The text for a picture. VS Code also replaces it by a word where only text is possible. */
const IMAGE = 3;

interface Node {
  readonly type?: number;
  readonly ctor?: number;
  readonly text?: string;
  readonly lineBreakBefore?: boolean;
  readonly children?: readonly Node[];
}

export function promptTsxText(value: unknown): string {
  if (typeof value === 'string') {
    return value;
  }
  const root = (value as { node?: Node } | null | undefined)?.node;
  if (root === undefined) {
    return value === undefined ? '' : JSON.stringify(value);
  }
  const pieces: string[] = [];
  collect(root, pieces);
  return pieces.join('');
}

function collect(node: Node, pieces: string[]): void {
  if (node.type === TEXT || typeof node.text === 'string') {
    const isFirst = pieces.length === 0;
    pieces.push(node.lineBreakBefore === true && !isFirst ? `\n${node.text ?? ''}` : (node.text ?? ''));
    return;
  }
  if (node.ctor === IMAGE) {
    pieces.push('<image>');
    return;
  }
  for (const child of node.children ?? []) {
    collect(child, pieces);
  }
}
