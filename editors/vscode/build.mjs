// The bundle, or with the word `test` the tests, each in a bundle of its own with a `vscode` that needs no editor.
import { readdirSync } from 'node:fs';
import { build } from 'esbuild';

const common = { bundle: true, platform: 'node', format: 'cjs', target: 'node20', logLevel: 'warning' };

if (process.argv[2] === 'test') {
  const tests = readdirSync('test').filter((name) => name.endsWith('.test.ts'));
  await build({
    ...common,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: process.argv[3] ?? 'dist/test',
    alias: { vscode: './test/vscode.ts' },
    sourcemap: 'inline',
  });
} else {
  await build({
    ...common,
    entryPoints: ['src/extension.ts'],
    outfile: 'dist/extension.js',
    external: ['vscode'],
    minify: true,
  });
}
