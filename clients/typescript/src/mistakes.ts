/** The classic mistake behind a signature that does not fit: what has to be put right for the request to verify. */
import { type Scheme, type Signed, decoded, fits, key, shown } from './signatures.js';

const LARGEST_BYTES = 1_000_000;
const REWRITTEN = 'the body was parsed and written again before it was verified; verify the raw bytes';

/** A variant of the request's header, key or body, and what it would mean if the request verified with that one. */
type Variant<T> = readonly [T, string];

export function mistake(signed: Signed, body: Uint8Array, secrets: readonly string[]): string | undefined {
  if (body.length > LARGEST_BYTES) return undefined;
  const written = bodies(body);
  for (const [header, headerMistake] of schemes(signed)) {
    for (const [made, keyMistake] of keys(header.scheme, secrets)) {
      for (const [bytes, bodyMistake] of written) {
        if (!fits(header, made, bytes)) continue;
        const found = [headerMistake, keyMistake, bodyMistake].filter(Boolean);
        return found.length > 0 ? `It verifies once this is put right: ${found.join('; ')}.` : undefined;
      }
    }
  }
  return "It was signed with another secret (rotated away? another endpoint's?), or changed on the way.";
}

function* schemes(signed: Signed): Generator<Variant<Signed>> {
  yield [signed, ''];
  // The right bytes, written into the header as the other scheme writes them.
  const other: Scheme = signed.scheme === 'timestamped' ? 'standard' : 'timestamped';
  const from = signed.scheme === 'timestamped' ? 'hex' : 'base64';
  const signatures = signed.signatures.map((each) => shown(other, Buffer.from(each, from))).filter(Boolean);
  if (signatures.length > 0 && (signed.eventId !== '' || other === 'timestamped')) {
    yield [{ ...signed, scheme: other, signatures }, `the signature is written as ${signed.scheme}, but was made as ${other}`];
  }
}

function* keys(scheme: Scheme, secrets: readonly string[]): Generator<Variant<Buffer>> {
  for (const secret of secrets) {
    const bare = secret.trim();
    const spellings: Variant<string>[] = [
      [secret, ''],
      [bare, 'the secret has white space around it'],
      [`whsec_${bare}`, 'the secret lacks its whsec_ at the front'],
      [bare.replace(/^whsec_/, ''), 'the secret has a whsec_ at the front that is not part of it'],
    ];
    for (const [text, why] of spellings) {
      const made = key(scheme, text);
      if (made !== undefined) yield [made, why];
    }
    const inner = decoded(bare);
    if (scheme === 'timestamped' && inner !== undefined) {
      yield [inner, "the sender's key is the decoded secret, which is the other scheme's"];
    }
    if (scheme === 'standard' && bare !== '') {
      yield [Buffer.from(bare), "the sender's key is the secret's text, which is the other scheme's"];
    }
  }
}

function bodies(body: Uint8Array): Variant<Uint8Array>[] {
  const found: Variant<Uint8Array>[] = [[body, '']];
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    found.push([Buffer.from(text.trim()), 'the body has white space around it that was not sent']);
    const compact = JSON.stringify(JSON.parse(text));
    for (const each of [compact, spaced(compact)]) {
      found.push([Buffer.from(each), REWRITTEN], [Buffer.from(escaped(each)), REWRITTEN]);
    }
  } catch {
    // No text, or no JSON: then nobody has parsed it.
  }
  return found;
}

/** As Python writes it by default, with a space behind each comma and colon outside of strings. */
function spaced(compact: string): string {
  return compact.replace(/("(?:[^"\\]|\\.)*")|([,:])/g, (whole, quoted: string | undefined) => (quoted ? whole : `${whole} `));
}

function escaped(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
