export { Client } from './client.js';
export { Conflict, Invalid, NotAllowed, NotAuthenticated, NotFound, RateLimited, Refused, Unavailable, Unreachable, WebhooksError, } from './errors.js';
