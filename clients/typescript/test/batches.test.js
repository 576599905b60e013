import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Invalid, Unavailable, Unreachable } from 'webhooks-client';
import { Platform, all, event, json, problem } from './platform.js';

const items = (count) => Array.from({ length: count }, (_, number) => ({ consumer: 'acme', type: 'a.b', data: { number } }));

/** Accepts whatever a batch holds. */
const accepts = ({ body }) => json(202, { results: JSON.parse(body).events.map(() => ({ status: 'accepted', event: event() })) });

function sizes(platform) {
  return platform.requests.map((request) => request.json.events.length);
}

test('many events go in few requests, in order, one result for each', async () => {
  const platform = new Platform(accepts, accepts, accepts);
  const results = await all(platform.client().emitMany(items(5), { maxEvents: 2 }));
  assert.deepEqual(sizes(platform), [2, 2, 1]);
  assert.deepEqual(results.map(({ item }) => item.data.number), [0, 1, 2, 3, 4]);
  assert.equal(new Set(platform.keys()).size, 3);
});

test('an asynchronous source is read as its events are sent', async () => {
  async function* source() {
    yield* items(3);
  }
  assert.equal((await all(new Platform(accepts).client().emitMany(source()))).length, 3);
});

test('batches stay below the limit of bytes', async () => {
  const platform = new Platform(accepts, accepts);
  const big = items(2).map((item) => ({ ...item, data: { text: 'é'.repeat(100) } }));
  await all(platform.client().emitMany(big, { maxBytes: 300 }));
  assert.deepEqual(sizes(platform), [1, 1]);
});

test('a refused event says why, and the others are accepted', async () => {
  const answer = { results: [{ status: 'accepted', event: event() }, { status: 'refused', problem: { code: 'invalid' } }] };
  const results = await all(new Platform(json(202, answer)).client().emitMany(items(2)));
  assert.deepEqual(results.map(({ status }) => status), ['accepted', 'refused']);
  assert.equal(results[1].problem.code, 'invalid');
});

test('what is no JSON is refused here, and the others are sent', async () => {
  const platform = new Platform(accepts);
  const [first, second] = items(2);
  const results = await all(platform.client().emitMany([{ ...first, data: { total: NaN } }, second]));
  assert.deepEqual(results.map(({ status }) => status), ['refused', 'accepted']);
  assert.deepEqual(platform.requests[0].json.events, [second]);
});

test('nothing but what is no JSON asks the platform nothing', async () => {
  const platform = new Platform();
  const results = await all(platform.client().emitMany([{ ...items(1)[0], data: { total: NaN } }]));
  assert.deepEqual(results.map(({ problem }) => problem.code), ['not_json']);
  assert.equal(platform.requests.length, 0);
});

test('a batch that is too large is halved, down to the one event that is refused', async () => {
  const judge = (init) => (init.body.includes('"number":2') ? problem(413, 'payload_too_large') : accepts(init));
  const platform = new Platform(...Array.from({ length: 5 }, () => judge));
  const results = await all(platform.client().emitMany(items(4)));
  assert.deepEqual(results.map(({ status }) => status), ['accepted', 'accepted', 'refused', 'accepted']);
  assert.deepEqual(sizes(platform), [4, 2, 2, 1, 1]);
});

test('one event that makes the whole batch unreadable is refused, and the others go', async () => {
  const judge = (init) => (init.body.includes('"number":1') ? problem(400, 'invalid_json') : accepts(init));
  const results = await all(new Platform(judge, judge, judge).client().emitMany(items(2)));
  assert.deepEqual(results.map(({ status }) => status), ['accepted', 'refused']);
  assert.equal(results[1].problem.code, 'invalid_json');
});

test('a proxy\'s 400 refuses no event', async () => {
  await assert.rejects(all(new Platform(new Response('<h1>Bad request</h1>', { status: 400 })).client().emitMany(items(2))), Invalid);
});

test('a refusal that is not about the events ends it', async () => {
  await assert.rejects(all(new Platform(problem(301, 'moved')).client().emitMany(items(2))), Invalid);
});

test('an outage ends it after the tries, and results of before were given', async () => {
  const platform = new Platform(accepts, ...Array.from({ length: 6 }, () => problem(503, 'down')));
  const given = [];
  const reading = (async () => {
    for await (const result of platform.client().emitMany(items(2), { maxEvents: 1 })) given.push(result.status);
  })();
  await assert.rejects(reading, Unavailable);
  assert.deepEqual(given, ['accepted']);
});

test('an answer without a result for each event counts for none', async () => {
  for (const results of [[], [{ status: 'accepted', event: event() }], null]) {
    await assert.rejects(all(new Platform(json(202, { results })).client().emitMany(items(2))), Unreachable);
  }
});
