// Compiles src/ into a folder, by default dist/, which is committed: it runs where there is Node and no npm.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const HERE = fileURLToPath(new URL('..', import.meta.url));

export function build(folder = `${HERE}dist`) {
  rmSync(folder, { recursive: true, force: true });
  execFileSync(process.execPath, [`${HERE}node_modules/typescript/bin/tsc`, '--project', HERE, '--outDir', folder], {
    stdio: 'inherit',
  });
}

if (process.argv[1] === import.meta.filename) build();
