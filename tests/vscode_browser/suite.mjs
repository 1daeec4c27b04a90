// One editor for all tests of a file: started before them, and taken down after them. What failed leaves a picture.
import { rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach } from 'node:test';
import { forAllTests } from '../browser/lifetime.mjs';
import { Editor, ROOT } from './editor.mjs';

/** Calls `ready` with the editor before the first test. */
export function withEditor(options, ready) {
  let editor;
  let failed = false;

  const start = async () => {
    editor = await Editor.start({ vsix: process.env.DRAGOMAN_VSIX ?? path.join(ROOT, 'dist/dragoman.vsix'), ...options });
    ready(editor);
  };

  const stop = async () => {
    await editor?.close();
    if (failed) {
      console.log(`pictures and records of it: ${editor.folder}`);
    } else if (editor) {
      rmSync(editor.folder, { recursive: true, force: true, maxRetries: 5 });
    }
  };

  forAllTests(start, stop);

  afterEach(async (context) => {
    if (!context.passed) {
      failed = true;
      await editor.screenshot(editor.at(`${context.name.replace(/\W+/g, '-')}.png`));
      // The next test must not find a menu or a dialog of this one.
      for (let open = 0; open < 3; open += 1) {
        await editor.page.keyboard.press('Escape');
      }
    }
  });
}
