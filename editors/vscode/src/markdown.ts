/** Plain text in Markdown: what others wrote is shown as it is. */

/** In a line. */
export function plain(text: string): string {
  return text.replace(/[\\`*_[\]<>&$~|]/g, '\\$&').replace(/\s+/g, ' ');
}

/** In a block of its own, which nothing in it can end. */
export function fenced(text: string, language = ''): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
