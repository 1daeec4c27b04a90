// Texts that an agent, or what it has read, could put into a question.
const SCRIPT = '<script>globalThis.canary = 1</script><img src=x onerror="globalThis.canary = 1"><svg onload="globalThis.canary = 1">';
const LINK = '[click](javascript:globalThis.canary=1) ![x](https://evil.test/pixel.png) <https://evil.test/>';

export const HOSTILE = {
  html: `"'\`>${SCRIPT}</textarea></style></title><a href="javascript:globalThis.canary=1">go</a> \${1} {{1}} <base href="https://evil.test/">`,
  markdown: `# Allowed\n\n${LINK}\n\n| a | b |\n|---|---|\n| ${SCRIPT} | x |\n`,
  bidi: 'rm -rf \u202e\u2066txt.eteled\u2069\u202c \u200b\u200d\ufeff',
  control: 'a\u0000b\u0007c\u001b[31md\u001b]0;title\u0007e\rf\u0085g\u2028h',
  // A long word; letters that no line can break; and marks that pile up over what stands above them.
  wide: `${'w'.repeat(2_000)} ${'\u0937\u094d'.repeat(500)} e${'\u0301'.repeat(300)}`,
  lines: Array.from({ length: 300 }, (_, index) => `line ${index}`).join('\n'),
};

const KINDS = ['allow_once', 'allow_always', 'reject_once'];

/** A question with all of them, and with the words `wide-mark`. */
export const hostileQuestion = () => [
  'ask',
  {
    toolCallId: 'hostile-1',
    title: `wide-mark ${HOSTILE.html}\n${HOSTILE.bidi}${HOSTILE.control}${HOSTILE.wide}`,
    kind: 'execute',
    rawInput: {
      command: `echo wide-mark '${HOSTILE.html}' ${HOSTILE.bidi} ${HOSTILE.control} ${HOSTILE.wide}\n${HOSTILE.lines}`,
      description: HOSTILE.markdown,
      [HOSTILE.html]: HOSTILE.wide,
    },
  },
  KINDS,
];

/** A change of 200 kB, with the words `diff-mark`. */
export function hostileDiff() {
  const line = `${HOSTILE.html} ${HOSTILE.bidi} ${HOSTILE.control}\n`;
  const text = `diff-mark\n${line.repeat(Math.ceil(200_000 / line.length))}`;
  return [
    'ask',
    {
      toolCallId: 'hostile-2',
      title: 'diff-mark </script>',
      kind: 'edit',
      content: [{ type: 'diff', path: `diff-mark-${HOSTILE.html.slice(0, 80)}.html`, oldText: 'before\n', newText: text }],
      rawInput: { file_path: 'diff-mark.html' },
    },
    KINDS,
  ];
}
