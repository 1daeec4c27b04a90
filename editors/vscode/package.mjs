// The .vsix: the bundle, and the Dragoman that it can install, as a wheel with the hashes of what it needs.
// Usage: node package.mjs PYTHON OUT
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';

// The pictures of README.md, from those that the tests in a real VS Code take.
const PICTURES = {
  permission: 'vscode-permission-participant.png',
  models: 'vscode-models.png',
  edit: 'vscode-edit-participant.png',
};
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
// The documents that its links lead to are not packaged.
const changelog = readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8');
writeFileSync('CHANGELOG.md', changelog.replace(/ \(\[[^\]]+\]\((?!https?:)[^)]*\)\)/g, '').replace(/\[([^\]]+)\]\((?!https?:)[^)]*\)/g, '$1'));
for (const [name, picture] of Object.entries(PICTURES)) {
  cpSync(path.join(root, 'docs', 'images', picture), path.join('media', 'pictures', `${name}.png`));
}
say('packaging the extension');
// The pictures are in the package, so their links stay as they are.
const options = ['--no-dependencies', '--allow-missing-repository', '--no-rewrite-relative-links', '--out', out];
const vsce = ['packaging/node_modules/@vscode/vsce/vsce', 'package', ...options];
const packaged = spawnSync(process.execPath, vsce, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const told = `${packaged.stdout}${packaged.stderr}`;
// A warning of today is a complaint of a user tomorrow.
if (packaged.status !== 0 || /\bWARN/i.test(told)) {
  console.error(told);
  process.exit(1);
}
console.log(`${path.relative(root, out)}, ${Math.round(statSync(out).size / 1000)} kB`);
