// What all tests of a file use: started before the first of them, stopped after the last.
import { after, before } from 'node:test';

/**
 * With a name filter, a file may have no test to run. Node then calls `after` at once, while `before` is still starting
 * things: what is started later would never be stopped, and would keep the process from ending. So `stop` waits for it.
 */
export function forAllTests(start, stop, hooks = { before, after }) {
  let starting;

  hooks.before(() => {
    starting = start();
    return starting;
  });

  hooks.after(async () => {
    // A start that fails is the failure of `before`. What it has begun is stopped all the same.
    await starting?.catch(() => undefined);
    await stop();
  });
}
