import { type Scheme } from './signatures.js';
export type { Scheme } from './signatures.js';
export type Reason = 'no_secret' | 'missing_header' | 'bad_header' | 'wrong_signature' | 'wrong_time' | 'no_event';
/** As of `fetch`, of Node's `request.headers`, or any object; names in any spelling. */
export type HeadersLike = Headers | Record<string, string | string[] | undefined>;
export declare const TOLERANCE_SECONDS = 300;
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
export declare class VerificationError extends Error {
    #private;
    readonly reason: Reason;
    name: string;
    constructor(reason: Reason, detail: string, find?: () => string | undefined);
    /** The message, and the mistake if it is a classic one. Costs more HMACs: not for every stranger. */
    explain(): string;
}
/**
 * The event in a genuine, fresh request; throws VerificationError for any other.
 *
 * `body` is the raw bytes as they came: in Express from `express.raw({ type: '*\/*' })`, in a fetch handler
 * `new Uint8Array(await request.arrayBuffer())`. `secrets` is one or several: during a rotation, the old and the new one.
 */
export declare function verify(body: Uint8Array, headers: HeadersLike, secrets: string | readonly string[], options?: VerifyOptions): VerifiedEvent;
/** The headers of a genuine request, for tests. */
export declare function sign(body: Uint8Array, { secret, eventId, timestamp, scheme }: {
    secret: string;
    eventId: string;
    timestamp: number;
    scheme?: Scheme;
}): Record<string, string>;
