/**
 * Is this request the platform's, whole and fresh? If not: what is wrong with it?
 *
 * Two schemes, told apart by the header itself. `timestamped` is `t=<seconds>,v1=<hex>[,v1=<hex>]` over
 * `<seconds>.<body>`, keyed with the whole secret. `standard` is Standard Webhooks: `v1,<base64>[ v1,<base64>]` over
 * `<id>.<seconds>.<body>`, keyed with the base64-decoded part after `whsec_`.
 *
 * Verifying takes one HMAC for each secret and compares in constant time. Looking for the mistake takes more, and parses
 * what nobody signed, so it happens only when somebody asks: see `VerificationError.explain`.
 */
import { mistake } from './mistakes.js';
import { type Scheme, type Signed, fits, key, shown, signature } from './signatures.js';

export type { Scheme } from './signatures.js';
export type Reason = 'no_secret' | 'missing_header' | 'bad_header' | 'wrong_signature' | 'wrong_time' | 'no_event';

/** As of `fetch`, of Node's `request.headers`, or any object; names in any spelling. */
export type HeadersLike = Headers | Record<string, string | string[] | undefined>;

export const TOLERANCE_SECONDS = 300;

/** What a request carried, after its signature was verified. */
export interface VerifiedEvent {
  id: string;
  type: string;
  data: Record<string, unknown>;
  /** When it happened, as ISO 8601 text. */
  timestamp: string | undefined;
  apiVersion: string | undefined;
  orderingKey: string | undefined;
  sequence: number | undefined;
  /** Which try of the sender this was; 1 for the first. */
  attempt: number;
  /** Everything the body held. */
  payload: Record<string, unknown>;
}

export interface VerifyOptions {
  toleranceSeconds?: number;
  /** Seconds since 1970; by default the clock's. */
  now?: number;
}

/**
 * The request is not to be trusted: answer 401 (400 for `no_event`) and do nothing.
 *
 * `reason` is a stable word, the message a sentence. `explain()` looks for the classic mistake behind a wrong signature.
 */
export class VerificationError extends Error {
  override name = 'VerificationError';
  // Not a field that is printed: it holds secrets.
  readonly #find: (() => string | undefined) | undefined;

  constructor(
    readonly reason: Reason,
    detail: string,
    find?: () => string | undefined,
  ) {
    super(detail);
    this.#find = find;
  }

  /** The message, and the mistake if it is a classic one. Costs more HMACs: not for every stranger. */
  explain(): string {
    const found = this.#find?.();
    return found === undefined ? this.message : `${this.message} ${found}`;
  }
}

/**
 * The event in a genuine, fresh request; throws VerificationError for any other.
 *
 * `body` is the raw bytes as they came: in Express from `express.raw({ type: '*\/*' })`, in a fetch handler
 * `new Uint8Array(await request.arrayBuffer())`. `secrets` is one or several: during a rotation, the old and the new one.
 */
export function verify(
  body: Uint8Array,
  headers: HeadersLike,
  secrets: string | readonly string[],
  options: VerifyOptions = {},
): VerifiedEvent {
  if (!(body instanceof Uint8Array)) {
    throw new TypeError('verify() needs the raw bytes of the body, before anything has decoded or parsed it.');
  }
  const known = typeof secrets === 'string' ? [secrets] : [...secrets];
  if (!known.some(Boolean)) {
    throw new VerificationError('no_secret', 'No secret is configured, so nothing can be verified.');
  }
  const found = named(headers);
  const signed = read(found);
  // Every secret and every signature is looked at, whichever fits.
  const fitting = known.filter((secret) => {
    const made = key(signed.scheme, secret);
    return made !== undefined && fits(signed, made, body);
  });
  if (fitting.length === 0) {
    const detail = 'No signature of this request fits its body and the configured secrets.';
    throw new VerificationError('wrong_signature', detail, () => mistake(signed, body, known));
  }
  const age = (options.now ?? Date.now() / 1000) - Number(signed.timestamp);
  // Not `>`: a tolerance or a clock that is no number lets nothing pass.
  if (!(Math.abs(age) <= (options.toleranceSeconds ?? TOLERANCE_SECONDS))) {
    const when = age > 0 ? 'old.' : 'in the future: is the clock right?';
    const detail = `The signature is right, but its time is ${Math.round(Math.abs(age))} s ${when}`;
    throw new VerificationError('wrong_time', detail);
  }
  return event(body, found, signed);
}

/** The headers of a genuine request, for tests. */
export function sign(
  body: Uint8Array,
  { secret, eventId, timestamp, scheme = 'timestamped' }: { secret: string; eventId: string; timestamp: number; scheme?: Scheme },
): Record<string, string> {
  const made = key(scheme, secret);
  if (made === undefined) throw new TypeError('This secret cannot sign: it is empty, or no base64 after whsec_.');
  const signed = { scheme, eventId, timestamp: String(timestamp), signatures: [] };
  const value = shown(scheme, signature(signed, made, body));
  return {
    'content-type': 'application/json',
    'webhook-id': eventId,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': scheme === 'timestamped' ? `t=${timestamp},v1=${value}` : `v1,${value}`,
    'webhook-attempt': '1',
    'idempotency-key': eventId,
  };
}

function named(headers: HeadersLike): Map<string, string> {
  const pairs = headers instanceof Headers ? [...headers] : Object.entries(headers);
  return new Map(
    pairs.flatMap(([name, value]) => (value === undefined ? [] : [[spelled(name), [value].flat().join(', ')]])),
  );
}

/** Also as gateways and CGI spell it: HTTP_WEBHOOK_ID. */
function spelled(name: string): string {
  return name.toLowerCase().replaceAll('_', '-').replace(/^http-/, '');
}

function read(headers: Map<string, string>): Signed {
  const header = headers.get('webhook-signature')?.trim() ?? '';
  const eventId = headers.get('webhook-id')?.trim() ?? '';
  if (header === '') {
    const detail = 'There is no webhook-signature header. Does a proxy remove it, or is this no webhook?';
    throw new VerificationError('missing_header', detail);
  }
  return header.startsWith('t=') ? timestamped(header, eventId) : standard(header, eventId, headers);
}

function timestamped(header: string, eventId: string): Signed {
  const fields = header.split(',').map((part) => {
    const [name = '', ...rest] = part.trim().split('=');
    return { name, value: rest.join('=') };
  });
  const timestamp = fields[0]?.value ?? '';
  const signatures = fields.filter(({ name }) => name === 'v1').map(({ value }) => value);
  if (!isTime(timestamp) || signatures.length === 0) {
    throw new VerificationError('bad_header', 'The webhook-signature is cut short: t=<seconds>,v1=<hex> is whole.');
  }
  return { scheme: 'timestamped', eventId, timestamp, signatures };
}

function standard(header: string, eventId: string, headers: Map<string, string>): Signed {
  const signatures = header.split(/\s+/).filter((part) => part.startsWith('v1,')).map((part) => part.slice(3));
  const timestamp = headers.get('webhook-timestamp')?.trim() ?? '';
  if (signatures.length === 0) {
    const detail = 'The webhook-signature has no v1 signature in a form that is known here.';
    throw new VerificationError('bad_header', detail);
  }
  const missing = [...(eventId ? [] : ['webhook-id']), ...(timestamp ? [] : ['webhook-timestamp'])];
  if (missing.length > 0) {
    throw new VerificationError('missing_header', `This scheme also signs ${missing.join(' and ')}: missing.`);
  }
  if (!isTime(timestamp)) throw new VerificationError('bad_header', 'The webhook-timestamp is no number of seconds.');
  return { scheme: 'standard', eventId, timestamp, signatures };
}

function isTime(text: string): boolean {
  return /^[0-9]{1,12}$/.test(text);
}

function event(body: Uint8Array, headers: Map<string, string>, signed: Signed): VerifiedEvent {
  const payload = parsed(body);
  const { id, type, data, sequence } = payload;
  if (typeof id !== 'string' || id === '' || typeof type !== 'string' || type === '') {
    throw noEvent('The body has no `id` and `type`.');
  }
  // The timestamped scheme signs the body and not the headers, so the id inside is the one to trust.
  if (signed.eventId !== '' && signed.eventId !== id) {
    throw new VerificationError('no_event', 'The webhook-id header is not the id in the signed body.');
  }
  const attempt = headers.get('webhook-attempt') ?? '';
  return {
    id,
    type,
    data: isRecord(data) ? data : {},
    timestamp: text(payload['timestamp']) ?? text(payload['occurred_at']) ?? text(payload['created_at']),
    apiVersion: text(payload['api_version']),
    orderingKey: text(payload['ordering_key']),
    sequence: Number.isSafeInteger(sequence) ? (sequence as number) : undefined,
    attempt: /^[0-9]{1,9}$/.test(attempt) ? Number(attempt) : 1,
    payload,
  };
}

function parsed(body: Uint8Array): Record<string, unknown> {
  let payload: unknown;
  try {
    payload = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (error) {
    throw noEvent(error instanceof Error ? error.message : String(error));
  }
  if (!isRecord(payload)) throw noEvent('The body is no JSON object.');
  return payload;
}

function noEvent(why: string): VerificationError {
  return new VerificationError('no_event', `The signature is right, but this is no event: ${why}`);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
