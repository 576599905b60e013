// A walk against a running platform, for tests/e2e/test_typescript_client.py: one line of JSON for each step.
// WEBHOOKS_URL, OPERATOR_KEY, CONSUMER_KEY (of acme)
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { Client, Invalid, NotAllowed } from 'webhooks-client';
import { VerificationError, verify } from 'webhooks-client/receive';

const { WEBHOOKS_URL, OPERATOR_KEY, CONSUMER_KEY } = process.env;
const COUNT = 120;
const DEADLINE_MS = 60_000;
const secrets = new Map();
const received = [];
const refused = [];

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  const scheme = request.url.slice(1);
  try {
    const event = verify(body, request.headers, secrets.get(scheme));
    received.push({ scheme, event, body, headers: request.headers });
    response.writeHead(200).end();
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    refused.push(error.explain());
    response.writeHead(401).end();
  }
}).listen(0, '127.0.0.1');
await once(server, 'listening');
const local = `http://127.0.0.1:${server.address().port}`;

function say(step, found) {
  console.log(JSON.stringify({ step, ...found }));
}

async function until(condition, what) {
  const end = Date.now() + DEADLINE_MS;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`${what} did not happen. Refused: ${refused.slice(0, 3)}`);
    await wait(50);
  }
}

// A web server that is killed takes its time to come back on a busy machine.
const retries = { tries: 60, longestSeconds: 2 };
const client = new Client(WEBHOOKS_URL, OPERATOR_KEY, { retries });
const consumer = new Client(WEBHOOKS_URL, CONSUMER_KEY, { retries });

await client.createEventType({ name: 'order.placed', description: 'An order.' });
const endpoints = [];
for (const scheme of ['timestamped', 'standard']) {
  const endpoint = await client.createEndpoint('acme', { url: `${local}/${scheme}`, signature_scheme: scheme });
  secrets.set(scheme, endpoint.secret);
  endpoints.push(endpoint.id);
}
const listed = [];
for await (const endpoint of client.endpoints('acme', { limit: 1 })) listed.push(endpoint.id);
say('endpoints', { all: listed.length === 2 && endpoints.every((id) => listed.includes(id)) });

const order = (number, more = {}) => ({ consumer: 'acme', type: 'order.placed', data: { number, name: 'Zoë 🐢' }, ...more });
const first = await client.emit(order(0), { idempotencyKey: 'walk-0' });
const again = await client.emit(order(0), { idempotencyKey: 'walk-0' });
say('emit', { sameId: first.id === again.id });

const results = [];
for await (const { status } of client.emitMany([order(1), order(2, { type: '' }), order(3), order(4, { id: 'o-4' }), order(4, { id: 'o-4' })])) {
  results.push(status);
}
say('emitMany', { results });

// The web server is killed meanwhile: see the test.
say('emitting', {});
for (let number = 10; number < 10 + COUNT; number += 1) await client.emit(order(number));
const numbers = [];
for await (const event of consumer.feed('acme', { limit: 50 })) numbers.push(event.data.number);
say('feed', { numbers });

const distinct = (scheme) => new Set(received.filter((each) => each.scheme === scheme).map(({ event }) => event.id)).size;
await until(() => distinct('timestamped') === numbers.length && distinct('standard') === numbers.length, 'every delivery');
say('received', { timestamped: distinct('timestamped'), standard: distinct('standard'), refused: refused.length });

// A delivery that really came, judged in every wrong way.
const judged = (change, secret = secrets.get('timestamped')) => {
  const { body, headers } = received.find(({ scheme }) => scheme === 'timestamped');
  try {
    const changed = change({ body, headers, now: Number(headers['webhook-timestamp']) });
    return verify(changed.body, changed.headers, secret, { now: changed.now }).id;
  } catch (error) {
    return error.reason;
  }
};
say('judged', {
  reasons: [
    judged((given) => ({ ...given, body: Buffer.from(String(given.body).replace('Zoë', 'Eve')) })),
    judged((given) => ({ ...given, body: Buffer.from(JSON.stringify(JSON.parse(given.body), null, 1)) })),
    judged((given) => ({ ...given, now: given.now + 301 })),
    judged((given) => given, secrets.get('standard')),
    judged((given) => ({ ...given, headers: { ...given.headers, 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` } })),
  ],
});

const old = secrets.get('timestamped');
const { secret } = await client.rotateSecret(endpoints[0]);
secrets.set('timestamped', [old, secret]);
const rotated = await client.emit(order(1000));
await until(() => received.some(({ scheme, event }) => scheme === 'timestamped' && event.id === rotated.id), 'the rotated delivery');
const { body, headers } = received.find(({ scheme, event }) => scheme === 'timestamped' && event.id === rotated.id);
say('rotation', { verifiesWith: [old, secret].map((each) => verify(body, headers, each).id === rotated.id) });

const before = received.length;
const job = await client.startReplay({ endpoint: endpoints[1], state: 'delivered', event_type: 'order.placed' });
await until(async () => (await client.replay(job.id)).status === 'done', 'the replay');
await until(() => received.length >= before + job.matched, 'what was replayed');
say('replay', { matched: job.matched === numbers.length + 1, newIds: distinct('standard') - numbers.length - 1 });

const controller = new AbortController();
const followed = [];
for await (const page of consumer.follow('acme', { wait: 5, limit: 200, signal: controller.signal })) {
  followed.push(...page.events);
  if (!page.more || page.events.length === 0) break;
}
say('follow', { count: followed.length });

const problems = [];
await client.emit(order(1, { type: '' })).catch((error) => problems.push(error instanceof Invalid, error.code));
await consumer.emit(order(1)).catch((error) => problems.push(error instanceof NotAllowed, error.code));
say('problems', { problems });

const report = await client.checkUp(endpoints[1]);
say('checkUp', { verdicts: report.findings.filter(({ verdict }) => verdict === 'pass').length > 0 });
server.closeAllConnections();
server.close();
