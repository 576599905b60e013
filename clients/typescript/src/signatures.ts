/** The two schemes: which bytes are signed, with which key, and how the signature is written. */
import { createHmac, timingSafeEqual } from 'node:crypto';

export type Scheme = 'timestamped' | 'standard';

/** What the headers say. */
export interface Signed {
  scheme: Scheme;
  eventId: string;
  timestamp: string;
  signatures: readonly string[];
}

export function signature(signed: Signed, made: Uint8Array, body: Uint8Array): Buffer {
  const before = signed.scheme === 'timestamped' ? `${signed.timestamp}.` : `${signed.eventId}.${signed.timestamp}.`;
  return createHmac('sha256', made).update(before).update(body).digest();
}

export function fits(signed: Signed, made: Uint8Array, body: Uint8Array): boolean {
  const expected = Buffer.from(shown(signed.scheme, signature(signed, made, body)));
  let found = false;
  for (const given of signed.signatures) {
    const bytes = Buffer.from(given);
    if (bytes.length === expected.length && timingSafeEqual(bytes, expected)) found = true;
  }
  return found;
}

/** The key that a secret stands for, or undefined where it is none. */
export function key(scheme: Scheme, secret: string): Buffer | undefined {
  if (scheme === 'standard') return decoded(secret);
  return secret === '' ? undefined : Buffer.from(secret);
}

/** Strict, unlike Buffer.from: a secret with a stray character is no secret. */
export function decoded(secret: string): Buffer | undefined {
  const text = secret.startsWith('whsec_') ? secret.slice('whsec_'.length) : secret;
  const isBase64 = text !== '' && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
  return isBase64 ? Buffer.from(text, 'base64') : undefined;
}

export function shown(scheme: Scheme, digest: Buffer): string {
  return digest.toString(scheme === 'timestamped' ? 'hex' : 'base64');
}
