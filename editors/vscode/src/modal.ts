/** How much text a modal dialog can show. */

/** VS Code squeezes a taller modal dialog: its title and its end go out of sight, without a scroll bar. */
export const MODAL_ROWS = 24;
export const MODAL_COLUMNS = 48;

export function fitsModal(text: string): boolean {
  return rowsOf(text.split('\n'), MODAL_COLUMNS) <= MODAL_ROWS;
}

/** What is not ASCII may be twice as wide. */
export function rowsOf(lines: string[], width: number): number {
  const columns = lines.map((line) => line.replace(/[^\0-\x7f]/g, '--').length);
  return columns.reduce((rows, each) => rows + Math.max(1, Math.ceil(each / width)), 0);
}
