// Writes src/schema.ts from docs/openapi.json: the shapes of requests and of answers that went well. Descriptions and
// examples are left out (the document has them), and so are refusals, which are all problem documents.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTypescript, { astToString } from 'openapi-typescript';

const DOCUMENT = new URL('../../../docs/openapi.json', import.meta.url);
const TEXTS = new Set(['description', 'summary', 'example', 'examples', 'default']);
const HEAD = '// Generated from docs/openapi.json by `npm run generate`. Do not edit.\n\n';

export const SCHEMA = new URL('../src/schema.ts', import.meta.url);

export async function schema() {
  const document = shapes(JSON.parse(await readFile(DOCUMENT, 'utf8')));
  for (const operation of Object.values(document.paths).flatMap((path) => Object.values(path))) {
    if (!operation.responses) continue;
    const good = Object.entries(operation.responses).filter(([status]) => status.startsWith('2'));
    operation.responses = Object.fromEntries(good.map(([status, { headers, ...answer }]) => [status, answer]));
  }
  delete document.components.responses;
  delete document.components.headers;
  delete document.webhooks;
  return HEAD + astToString(await openapiTypescript(document, { alphabetize: true }));
}

function shapes(value, isNamesOfProperties = false) {
  if (Array.isArray(value)) return value.map((each) => shapes(each));
  if (value === null || typeof value !== 'object') return value;
  const kept = Object.entries(value).filter(([name]) => isNamesOfProperties || !TEXTS.has(name));
  // A property may well be called `description`.
  return Object.fromEntries(kept.map(([name, each]) => [name, shapes(each, name === 'properties' && !isNamesOfProperties)]));
}

if (process.argv[1] === import.meta.filename) await writeFile(SCHEMA, await schema());
