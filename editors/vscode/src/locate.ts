/** Finds Dragoman: by the settings, on the PATH, or in an environment that this extension has installed. */
import { access, constants } from 'node:fs/promises';
import * as path from 'node:path';
import { currentIn, programIn } from './environments';

export interface Places {
  /** The command line in the setting; empty if it is not set. */
  readonly command: readonly string[];
  /** The folder where this extension may store files. */
  readonly storage: string;
  /** The folder of this extension with a wheel of Dragoman and its requirements. */
  readonly bundled: string;
  /** The PATH. */
  readonly path: string;
  readonly platform: NodeJS.Platform;
}

/** The command line that starts Dragoman; undefined if it is not found. Rejects on an unsupported platform. */
export async function locate(places: Places): Promise<readonly string[] | undefined> {
  if (places.command.length > 0) {
    return places.command;
  }
  refuseWindows(places);
  const environment = await currentIn(places.storage);
  if (environment !== undefined && (await isExecutable(programIn(environment)))) {
    return [programIn(environment)];
  }
  const found = await onPath('dragoman', places.path);
  return found === undefined ? undefined : [found];
}

export function refuseWindows({ platform }: Places): void {
  if (platform === 'win32') {
    throw new Error('Dragoman runs on Linux and macOS. On Windows, open the folder in WSL: “WSL: Reopen Folder in WSL”.');
  }
}

export async function onPath(name: string, searched: string): Promise<string | undefined> {
  for (const folder of searched.split(path.delimiter).filter(path.isAbsolute)) {
    const file = path.join(folder, name);
    if (await isExecutable(file)) {
      return file;
    }
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
