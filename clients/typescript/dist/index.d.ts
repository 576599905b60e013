/** For producers, and for consumers of the feed. What verifies deliveries is in `webhooks-client/receive`. */
export type { Limits, Result } from './batches.js';
export { Client, type CallOptions, type ClientOptions, type FeedPage, type PostOptions } from './client.js';
export { Conflict, Invalid, NotAllowed, NotAuthenticated, NotFound, RateLimited, Refused, Unavailable, Unreachable, WebhooksError, } from './errors.js';
export type { Retries } from './protocol.js';
export type * from './types.js';
