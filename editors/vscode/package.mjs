// The .vsix: the bundle, and the Dragoman that it can install, as a wheel with the hashes of what it needs.
// Usage: node package.mjs PYTHON OUT
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';

const [python, out] = process.argv.slice(2).map((name) => path.resolve(name));
const root = path.resolve('../..');
const backend = path.resolve('dist/backend');
const run = (command, args, output = 'ignore') =>
  execFileSync(command, args, { stdio: ['ignore', output, 'inherit'] });
const say = (what) => console.error(`${what} ...`);

rmSync('dist', { recursive: true, force: true });
mkdirSync(backend, { recursive: true });
mkdirSync(path.dirname(out), { recursive: true });
say('checking and bundling the extension');
// What is wrong the compiler says on standard output.
run(process.execPath, ['node_modules/typescript/bin/tsc', '--noEmit'], process.stderr);
run(process.execPath, ['build.mjs']);
say('building the Dragoman that it brings along');
run(python, ['-m', 'pip', '--quiet', 'wheel', '--no-deps', '--no-build-isolation', '--wheel-dir', backend, root]);
cpSync(path.join(root, 'requirements', 'run.txt'), path.join(backend, 'requirements.txt'));
cpSync(path.join(root, 'LICENSE'), 'LICENSE');
say('packaging the extension');
run(process.execPath, [
  'packaging/node_modules/@vscode/vsce/vsce',
  ...['package', '--no-dependencies', '--allow-missing-repository', '--out', out],
]);
console.log(`${path.relative(root, out)}, ${Math.round(statSync(out).size / 1000)} kB`);
