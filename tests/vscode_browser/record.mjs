// Runs a command with its standard input and output passed through, and writes down every line of either.
// Usage: node record.mjs FILE COMMAND...
import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';

const [file, command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const record = (entry) => appendFileSync(file, `${JSON.stringify(entry)}\n`);

function tap(from, to, direction) {
  let held = Buffer.alloc(0);
  from.on('data', (chunk) => {
    held = Buffer.concat([held, chunk]);
    for (let end = held.indexOf(10); end !== -1; end = held.indexOf(10)) {
      const line = held.subarray(0, end).toString('utf8');
      held = held.subarray(end + 1);
      try {
        record({ direction, ...JSON.parse(line) });
      } catch {
        record({ direction, line });
      }
    }
    to.write(chunk);
  });
  from.on('end', () => to.end());
}

record({ event: 'started', pid: child.pid });
child.stdin.on('error', () => undefined);
tap(process.stdin, child.stdin, 'in');
tap(child.stdout, process.stdout, 'out');
child.on('close', (code, signal) => {
  record({ event: 'ended', pid: child.pid, code, signal });
  process.exit(code ?? 1);
});
// Whoever ends us means the command.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
