export class WebhooksError extends Error {
    constructor(message, options) {
        super(message, options);
        this.name = new.target.name;
    }
}
/** No answer came. With its idempotency key the same request can be sent again, and still counts once. */
export class Unreachable extends WebhooksError {
}
/** The platform's answer, from its problem document. `code` is stable; `detail` is for people. */
export class Refused extends WebhooksError {
    status;
    document;
    retryAfter;
    code;
    detail;
    errors;
    constructor(status, document, 
    /** Seconds, where the answer named a time to wait. */
    retryAfter) {
        const code = document.code || `http_${status}`;
        const detail = document.detail || document.title || `HTTP status ${status}`;
        super(`${code}: ${detail}`);
        this.status = status;
        this.document = document;
        this.retryAfter = retryAfter;
        this.code = code;
        this.detail = detail;
        this.errors = Array.isArray(document.errors) ? document.errors : [];
    }
}
export class Invalid extends Refused {
}
export class NotAuthenticated extends Refused {
}
export class NotAllowed extends Refused {
}
export class NotFound extends Refused {
}
export class Conflict extends Refused {
}
export class RateLimited extends Refused {
}
export class Unavailable extends Refused {
}
const BY_STATUS = new Map([
    [401, NotAuthenticated],
    [403, NotAllowed],
    [404, NotFound],
    [408, Unavailable],
    [409, Conflict],
    [429, RateLimited],
]);
export function refusal(status, document, retryAfter) {
    const kind = BY_STATUS.get(status) ?? (status >= 500 ? Unavailable : Invalid);
    return new kind(status, document, retryAfter);
}
