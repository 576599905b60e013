/**
 * Everything a call can throw.
 *
 * WebhooksError
 * ├── Unreachable        no answer, after every try: the request may or may not have arrived
 * └── Refused            the platform answered with a problem document
 *     ├── Invalid            400, 411, 413, 415: what was sent cannot be accepted as it is
 *     ├── NotAuthenticated   401
 *     ├── NotAllowed         403
 *     ├── NotFound           404
 *     ├── Conflict           409
 *     ├── RateLimited        429, after every try
 *     └── Unavailable        408 and 5xx, after every try
 */
import type { Problem } from './types.js';

export class WebhooksError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer came. With its idempotency key the same request can be sent again, and still counts once. */
export class Unreachable extends WebhooksError {}

/** The platform's answer, from its problem document. `code` is stable; `detail` is for people. */
export class Refused extends WebhooksError {
  readonly code: string;
  readonly detail: string;
  readonly errors: NonNullable<Problem['errors']>;

  constructor(
    readonly status: number,
    readonly document: Partial<Problem>,
    /** Seconds, where the answer named a time to wait. */
    readonly retryAfter: number | undefined,
  ) {
    const code = document.code || `http_${status}`;
    const detail = document.detail || document.title || `HTTP status ${status}`;
    super(`${code}: ${detail}`);
    this.code = code;
    this.detail = detail;
    this.errors = Array.isArray(document.errors) ? document.errors : [];
  }
}

export class Invalid extends Refused {}
export class NotAuthenticated extends Refused {}
export class NotAllowed extends Refused {}
export class NotFound extends Refused {}
export class Conflict extends Refused {}
export class RateLimited extends Refused {}
export class Unavailable extends Refused {}

const BY_STATUS = new Map([
  [401, NotAuthenticated],
  [403, NotAllowed],
  [404, NotFound],
  [408, Unavailable],
  [409, Conflict],
  [429, RateLimited],
]);

export function refusal(status: number, document: Partial<Problem>, retryAfter: number | undefined): Refused {
  const kind = BY_STATUS.get(status) ?? (status >= 500 ? Unavailable : Invalid);
  return new kind(status, document, retryAfter);
}
