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
export declare class WebhooksError extends Error {
    constructor(message: string, options?: ErrorOptions);
}
/** No answer came. With its idempotency key the same request can be sent again, and still counts once. */
export declare class Unreachable extends WebhooksError {
}
/** The platform's answer, from its problem document. `code` is stable; `detail` is for people. */
export declare class Refused extends WebhooksError {
    readonly status: number;
    readonly document: Partial<Problem>;
    /** Seconds, where the answer named a time to wait. */
    readonly retryAfter: number | undefined;
    readonly code: string;
    readonly detail: string;
    readonly errors: NonNullable<Problem['errors']>;
    constructor(status: number, document: Partial<Problem>, 
    /** Seconds, where the answer named a time to wait. */
    retryAfter: number | undefined);
}
export declare class Invalid extends Refused {
}
export declare class NotAuthenticated extends Refused {
}
export declare class NotAllowed extends Refused {
}
export declare class NotFound extends Refused {
}
export declare class Conflict extends Refused {
}
export declare class RateLimited extends Refused {
}
export declare class Unavailable extends Refused {
}
export declare function refusal(status: number, document: Partial<Problem>, retryAfter: number | undefined): Refused;
