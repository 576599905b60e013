import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { test } from 'node:test';
import { VerificationError, sign, verify } from 'webhooks-client/receive';

// Requests that every client of ours judges in the same way.
const VECTORS = JSON.parse(readFileSync(new URL('../../vectors.json', import.meta.url), 'utf8'));
const SECRET = 'whsec_c2VjcmV0';
const NOW = 1_700_000_000;
const BODY = Buffer.from('{"id":"evt_1","type":"a.b","data":{"name":"Zoë"},"created_at":"2026-01-01T00:00:00Z","sequence":3}');

function signed(body = BODY, scheme = 'timestamped') {
  return sign(body, { secret: SECRET, eventId: 'evt_1', timestamp: NOW, scheme });
}

function refused(reason, call) {
  assert.throws(call, (error) => error instanceof VerificationError && error.reason === reason);
}

for (const vector of VECTORS) {
  test(`vector: ${vector.name}`, () => {
    const options = { now: vector.now, ...(vector.tolerance ? { toleranceSeconds: vector.tolerance } : {}) };
    const judge = () => verify(Buffer.from(vector.body), vector.headers, vector.secrets, options);
    if (vector.id) return assert.equal(judge().id, vector.id);
    assert.throws(judge, (error) => {
      assert.equal(error.reason, vector.reason);
      assert.ok(error.explain().startsWith(vector.explained), error.explain());
      return true;
    });
  });
}

test('a genuine request is its event', () => {
  const { payload, ...event } = verify(BODY, { ...signed(), 'webhook-attempt': '4' }, SECRET, { now: NOW });
  assert.deepEqual(event, {
    id: 'evt_1',
    type: 'a.b',
    data: { name: 'Zoë' },
    timestamp: '2026-01-01T00:00:00Z',
    apiVersion: undefined,
    orderingKey: undefined,
    sequence: 3,
    attempt: 4,
  });
  assert.equal(payload.created_at, '2026-01-01T00:00:00Z');
});

test('headers come as fetch has them, as Node has them, or in any spelling', () => {
  const headers = signed();
  const respelled = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]]));
  for (const given of [headers, new Headers(headers), respelled, { ...headers, cookie: undefined }]) {
    assert.equal(verify(BODY, given, SECRET, { now: NOW }).id, 'evt_1');
  }
});

test('text in place of bytes is a mistake of the caller', () => {
  assert.throws(() => verify(BODY.toString(), signed(), SECRET), /raw bytes/);
});

test('a byte that is no UTF-8 does not pass for the one it would be replaced by', () => {
  const body = Buffer.from('{"id":"evt_1","type":"a.b","data":{"name":"\xff"}}', 'latin1');
  refused('no_event', () => verify(body, signed(body), SECRET, { now: NOW }));
});

test('a tolerance or a time that is no number lets nothing pass', () => {
  refused('wrong_time', () => verify(BODY, signed(), SECRET, { now: NOW, toleranceSeconds: NaN }));
  refused('wrong_time', () => verify(BODY, signed(), SECRET, { now: NaN }));
});

test('without a secret nothing verifies, and an unreadable one signs nothing', () => {
  for (const secrets of ['', [], ['', '']]) refused('no_secret', () => verify(BODY, signed(), secrets));
  for (const secret of ['whsec_', 'whsec_!!!', 'whsec_c2Vj!cmV0', 'whsec_c2VjcmV0=']) {
    refused('wrong_signature', () => verify(BODY, signed(BODY, 'standard'), secret, { now: NOW }));
  }
});

test('a signature that is longer, shorter or not ASCII is refused, not thrown over', () => {
  for (const value of ['00', `${'0'.repeat(5000)}`, 'é'.repeat(64), '']) {
    refused('wrong_signature', () => verify(BODY, { ...signed(), 'webhook-signature': `t=${NOW},v1=${value}` }, SECRET));
  }
});

test('neither secrets nor bodies show in an error', () => {
  try {
    verify(BODY, signed(), 'whsec_b3RoZXI=');
    assert.fail('it verified');
  } catch (error) {
    const shown = inspect(error, { depth: 9, showHidden: true });
    assert.ok(!shown.includes('b3RoZXI') && !shown.includes('Zoë'));
  }
});

test('names that every object has are no headers', () => {
  refused('missing_header', () => verify(BODY, { constructor: 'x', __proto__: null }, SECRET));
});
