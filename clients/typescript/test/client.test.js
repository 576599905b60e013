import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { test } from 'node:test';
import { Client, Conflict, Invalid, NotAllowed, NotFound, RateLimited, Unavailable, Unreachable } from 'webhooks-client';
import { Platform, all, event, json, problem } from './platform.js';

const NEW = { consumer: 'acme', type: 'a.b', data: { total: 5 } };
const reset = () => new TypeError('fetch failed', { cause: new Error('ECONNRESET') });

test('an emit is a POST with the key, its JSON and an idempotency key of its own', async () => {
  const platform = new Platform(json(202, event()), json(202, event()));
  const client = platform.client();
  assert.equal((await client.emit(NEW)).id, 'evt_1');
  await client.emit(NEW);
  const [first, second] = platform.requests;
  assert.equal(first.url.href, 'http://platform.test/api/v1/events/');
  assert.equal(first.method, 'POST');
  assert.deepEqual(first.json, NEW);
  assert.equal(first.headers.authorization, 'Bearer key');
  assert.equal(first.redirect, 'manual');
  assert.match(first.headers['idempotency-key'], /^[0-9a-f-]{36}$/);
  assert.notEqual(first.headers['idempotency-key'], second.headers['idempotency-key']);
});

test('connection errors, 408, 429 and 5xx are tried again with the same key and growing waits', async () => {
  const platform = new Platform(
    reset(),
    problem(408, 'timeout'),
    problem(429, 'rate_limited'),
    problem(500, 'x'),
    problem(503, 'x'),
    json(202, event()),
  );
  assert.equal((await platform.client().emit(NEW)).id, 'evt_1');
  assert.equal(new Set(platform.keys()).size, 1);
  assert.deepEqual(platform.slept, [0.5, 1, 2, 4, 8]);
});

test('waits are chosen at random below their ceiling', async () => {
  const platform = new Platform(reset(), reset(), json(202, event()));
  await platform.client({ chance: () => 0.25 }).emit(NEW);
  assert.deepEqual(platform.slept, [0.125, 0.25]);
});

test('Retry-After in seconds or as a date is waited for, and nonsense is not', async () => {
  const date = new Date(Date.now() + 30_000).toUTCString();
  for (const [given, least, most] of [['7', 7, 7], [date, 28, 30], ['-5', 0, 0], ['soon', 0, 0], ['1.5', 0, 0]]) {
    const platform = new Platform(problem(429, 'rate_limited', { headers: { 'retry-after': given } }), json(202, event()));
    await platform.client({ chance: () => 0 }).emit(NEW);
    assert.ok(platform.slept[0] >= least && platform.slept[0] <= most, `${given}: ${platform.slept[0]}`);
  }
});

test('a wait that would end after the total is not begun', async () => {
  const platform = new Platform(problem(503, 'down', { headers: { 'retry-after': '91' } }));
  await assert.rejects(platform.client().emit(NEW), (error) => error instanceof Unavailable && error.retryAfter === 91);
  assert.deepEqual(platform.slept, []);
});

test('after every try the last error is thrown', async () => {
  const platform = new Platform(...Array.from({ length: 6 }, reset));
  await assert.rejects(platform.client().emit(NEW), (error) => {
    assert.ok(error instanceof Unreachable);
    assert.equal(error.message, 'POST events/: fetch failed (ECONNRESET)');
    return true;
  });
  assert.equal(platform.requests.length, 6);
});

test('other refusals are thrown at once, with type, code and errors', async () => {
  const kinds = [[400, Invalid], [403, NotAllowed], [404, NotFound], [409, Conflict], [301, Invalid]];
  for (const [status, kind] of kinds) {
    const platform = new Platform(problem(status, 'some_code', { errors: [{ pointer: '/type', detail: 'No.' }] }));
    await assert.rejects(platform.client().emit(NEW), (error) => {
      assert.ok(error instanceof kind);
      assert.equal(error.name, kind.name);
      assert.deepEqual([error.status, error.code, error.errors.length], [status, 'some_code', 1]);
      return true;
    });
    assert.equal(platform.requests.length, 1);
  }
});

test('a conflict that passes by itself is tried again', async () => {
  const platform = new Platform(problem(409, 'idempotency_in_progress'), json(202, event()));
  await platform.client().emit(NEW);
  assert.equal(platform.requests.length, 2);
});

test('an answer that is no event does not count as accepted', async () => {
  for (const answer of [json(200, undefined), json(200, {}), new Response('<html>hello</html>'), json(200, [1])]) {
    await assert.rejects(new Platform(answer).client().emit(NEW), Unreachable);
  }
});

test('a page of a proxy in place of a problem document is a refusal with its text', async () => {
  const platform = new Platform(new Response('<h1>Go away</h1>', { status: 403 }));
  await assert.rejects(platform.client().emit(NEW), { code: 'http_403', detail: '<h1>Go away</h1>' });
});

test('numbers that JSON cannot say are refused before anything is sent', async () => {
  const platform = new Platform();
  for (const total of [NaN, Infinity, 10n]) await assert.rejects(platform.client().emit({ ...NEW, data: { total } }), TypeError);
  assert.equal(platform.requests.length, 0);
});

test('a signal ends a call in the middle of its tries, with its own reason', async () => {
  const controller = new AbortController();
  const stop = new Error('enough');
  const platform = new Platform(reset(), () => {
    controller.abort(stop);
    throw controller.signal.reason;
  });
  await assert.rejects(platform.client().emit(NEW, { signal: controller.signal }), stop);
  assert.equal(platform.requests.length, 2);
  await assert.rejects(platform.client().emit(NEW, { signal: controller.signal }), stop);
  assert.equal(platform.requests.length, 2);
});

test('a delete whose answer was lost is done', async () => {
  const platform = new Platform(reset(), problem(404, 'not_found'));
  await platform.client().deleteEndpoint('ep_1', { why: 'old' });
  assert.equal(platform.requests[0].url.search, '?why=old');
  await assert.rejects(new Platform(problem(404, 'not_found')).client().deleteEndpoint('ep_1'), NotFound);
});

test('lists follow their cursor, whatever host the platform believes to have', async () => {
  const platform = new Platform(
    json(200, { results: [{ id: 'a' }], next: 'http://inside:8000/api/v1/consumers/?cursor=c%3D1' }),
    json(200, { results: [{ id: 'b' }], next: null }),
  );
  assert.deepEqual(await all(platform.client().consumers({ limit: 1 })), [{ id: 'a' }, { id: 'b' }]);
  assert.equal(platform.requests[1].url.href, 'http://platform.test/api/v1/consumers/?limit=1&cursor=c%3D1');
});

test('ids are quoted, and what is no id is refused', async () => {
  const platform = new Platform(json(200, event()));
  await platform.client().event('a/b?c', { consumer: 'acme' });
  assert.equal(platform.requests[0].url.href, 'http://platform.test/api/v1/events/a%2Fb%3Fc/?consumer=acme');
  for (const id of ['', '.', '..']) assert.throws(() => platform.client().event(id), TypeError);
});

test('the feed goes on to the present', async () => {
  const platform = new Platform(
    json(200, { results: [event('1'), event('2')], next: 'http://x/?cursor=c1' }),
    json(200, { results: [event('3')], next: null }),
  );
  const found = await all(platform.client().feed('acme', { undelivered: true }));
  assert.deepEqual(found.map(({ id }) => id), ['1', '2', '3']);
  assert.deepEqual(platform.requests.map(({ url }) => url.search), ['?undelivered=true', '?undelivered=true&cursor=c1']);
});

test('a follower waits at the end, goes on from its position, and is never hasty', async () => {
  const platform = new Platform(
    json(200, { results: [event('1')], next: 'http://x/?cursor=c1' }),
    json(200, { results: [], next: null }),
    json(200, { results: [event('2')], next: 'http://x/?cursor=c2' }),
  );
  const found = [];
  for await (const page of platform.client().follow('acme', { cursor: 'c0' })) {
    found.push([page.events.map(({ id }) => id), page.cursor]);
    if (page.cursor === 'c2') break;
  }
  assert.deepEqual(found, [[['1'], 'c1'], [[], 'c1'], [['2'], 'c2']]);
  assert.deepEqual(platform.requests.map(({ url }) => url.searchParams.get('cursor')), ['c0', 'c1', 'c1']);
  assert.deepEqual(platform.slept, [1]);
});

test('an answer that does not come ends with the deadline of the try', async () => {
  const server = createServer(() => {}).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = new Client(`http://127.0.0.1:${server.address().port}`, 'key', { timeoutSeconds: 0.05, retries: { tries: 2, firstSeconds: 0 } });
  await assert.rejects(client.emit(NEW), Unreachable);
  server.closeAllConnections();
  server.close();
});
