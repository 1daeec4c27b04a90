/** VS Code would draw `$(name)` in a label as an icon. */
export function withoutIcons(text: string): string {
  return text.replaceAll('$(', '\\$(');
}
