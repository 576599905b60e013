// A webhook receiver to copy: it verifies, dedupes and answers. Node 18 or later, nothing else.
// WEBHOOK_SECRET=whsec_… node receiver.mjs 8001        (during a rotation: WEBHOOK_SECRET=whsec_new,whsec_old)
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

const secrets = (process.env.WEBHOOK_SECRET ?? '').split(',').filter(Boolean);
const journal = process.env.WEBHOOK_SEEN ?? 'seen.log';
const MAX_BODY_BYTES = 1_000_000;
// Better in your database, as a unique key that commits with the work: then a crash in between repeats nothing.
const seen = new Set(existsSync(journal) ? readFileSync(journal, 'utf8').split('\n') : []);
const running = new Map();

// `t=<seconds>,v1=<hex>[,v1=<hex>]`: HMAC-SHA256 of `<t>.<body>`, over the body's bytes exactly as they came.
function isAuthentic(header, body, now) {
  const fields = header.split(',').map((field) => field.trim().split('='));
  const timestamp = fields.find(([name]) => name === 't')?.[1] ?? '';
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp)) > 300) return false;
  return secrets.some((secret) => {
    const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest();
    return fields.some(([name, value]) => {
      const given = Buffer.from(name === 'v1' ? value ?? '' : '', 'hex');
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
  });
}

async function work(event) {
  console.log(`${event.type} ${event.id}`); // your code goes here
}

async function receive(headers, body) {
  if (!isAuthentic(headers['webhook-signature'] ?? '', body, Date.now() / 1000)) return 401;
  let event;
  try { event = JSON.parse(body); } catch { return 400; }
  if (typeof event?.id !== 'string' || event.id !== headers['webhook-id']) return 400;
  if (seen.has(event.id)) return 200; // a duplicate is answered like the first
  if (!running.has(event.id)) {
    running.set(event.id, work(event).then(() => {
      appendFileSync(journal, `${event.id}\n`, { flush: true });
      seen.add(event.id);
    }).finally(() => running.delete(event.id)));
  }
  try { await running.get(event.id); return 200; } catch (error) { console.error(error); return 500; }
}

createServer(async (request, response) => {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    if ((size += part.length) > MAX_BODY_BYTES) return response.writeHead(413, { connection: 'close' }).end();
    parts.push(part);
  }
  response.writeHead(request.method === 'POST' ? await receive(request.headers, Buffer.concat(parts)) : 405).end();
}).listen(Number(process.argv[2]), '127.0.0.1');
