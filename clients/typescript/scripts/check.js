// Are the generated types those of docs/openapi.json, and is dist/ what src/ compiles to? Compiling checks the types.
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from './build.js';
import { SCHEMA, schema } from './generate.js';

const DIST = fileURLToPath(new URL('../dist', import.meta.url));

function contents(folder) {
  return JSON.stringify(readdirSync(folder).sort().map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

const made = mkdtempSync(join(tmpdir(), 'webhooks-client-'));
try {
  build(join(made, 'dist'));
  const stale = [];
  if ((await readFile(SCHEMA, 'utf8')) !== (await schema())) stale.push('src/schema.ts (npm run generate)');
  if (contents(join(made, 'dist')) !== contents(DIST)) stale.push('dist/ (npm run build)');
  if (stale.length > 0) {
    console.error(`Stale: ${stale.join(', ')}`);
    process.exitCode = 1;
  }
} finally {
  rmSync(made, { recursive: true });
}
