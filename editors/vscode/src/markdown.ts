/** Escapes plain text for Markdown. */

/** Text for a line. */
export function plain(text: string): string {
  return text.replace(/[\\`*_[\]<>&$~|]/g, '\\$&').replace(/\s+/g, ' ');
}

/** Text as a code block, which no line of the text can end. */
export function fenced(text: string, language = ''): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
