/** `Client`: every call of the API that producers and consumers need. */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS, readResults, sendAll } from './batches.js';
import { RETRIES, encode, isObject, send } from './protocol.js';
// Where too many wait already, the platform answers at once: nobody asks more often than this.
const IDLE_SECONDS = 1;
export class Client {
    #target;
    #world;
    constructor(baseUrl, key, options = {}) {
        const { retries, timeoutSeconds = 30, ...world } = options;
        this.#target = { base: api(baseUrl), key, timeoutSeconds, retries: { ...RETRIES, ...retries } };
        this.#world = {
            fetch: globalThis.fetch,
            sleep: async (seconds, signal) => {
                await wait(seconds * 1000, undefined, signal ? { signal } : {});
            },
            clock: () => performance.now() / 1000,
            chance: Math.random,
            ...world,
        };
    }
    // ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    /** When this resolves, the event is stored, and will be delivered or shown as a dead letter. */
    emit(event, options = {}) {
        return this.#post('events/', event, options, stored);
    }
    /**
     * One result for each event, in order. An error means that this batch and what follows was not acknowledged: send
     * those again with the same ids, and what had arrived is a duplicate.
     */
    emitMany(items, { maxEvents, maxBytes, signal } = {}) {
        const limits = { maxEvents: maxEvents ?? LIMITS.maxEvents, maxBytes: maxBytes ?? LIMITS.maxBytes };
        return sendAll(items, limits, (body, count) => {
            const read = (answer) => readResults(answer, count);
            return this.#send({ method: 'POST', path: 'events/batch/', body, headers: newKey(), read }, signal);
        });
    }
    /** One event by the platform's id or by yours; `consumer` where two consumers may share yours. */
    event(id, { consumer, signal } = {}) {
        return this.#get(`events/${segment(id)}/`, { consumer }, signal);
    }
    /** Newest first. */
    events(filter = {}) {
        return this.#all('events/', filter);
    }
    // ── feed ───────────────────────────────────────────────────────────────────────────────────────────────────────────
    /** The next events of a consumer, oldest first. With `wait`, an empty page is held back for up to so many seconds. */
    async feedPage(consumer, { signal, ...query } = {}) {
        const path = `consumers/${segment(consumer)}/feed/`;
        const page = await this.#send({ method: 'GET', path, query, read: readPage, waitSeconds: query.wait ?? 0 }, signal);
        return { events: page.items, cursor: page.cursor ?? query.cursor, more: page.cursor !== undefined };
    }
    /** Every event of a consumer from a position to the present. */
    async *feed(consumer, options = {}) {
        let page;
        do {
            page = await this.feedPage(consumer, page?.cursor === undefined ? options : { ...options, cursor: page.cursor });
            yield* page.events;
        } while (page.more);
    }
    /**
     * Pages of events as they come, until the signal ends it; an empty one when nothing has come for `wait` seconds.
     * Store `cursor` after the events of its page are dealt with: killed in between, you get that page again.
     */
    async *follow(consumer, { wait: seconds = 25, ...options } = {}) {
        let cursor = options.cursor;
        while (true) {
            const begun = this.#world.clock();
            const page = await this.feedPage(consumer, { ...options, wait: seconds, ...(cursor === undefined ? {} : { cursor }) });
            yield page;
            cursor = page.cursor;
            const idle = IDLE_SECONDS - (this.#world.clock() - begun);
            if (!page.more && idle > 0)
                await this.#world.sleep(idle, options.signal);
        }
    }
    // ── consumers, endpoints, event types ──────────────────────────────────────────────────────────────────────────────
    consumers(page = {}) {
        return this.#all('consumers/', page);
    }
    consumer(id, options = {}) {
        return this.#get(`consumers/${segment(id)}/`, {}, options.signal);
    }
    createConsumer(fields, options = {}) {
        return this.#post('consumers/', fields, options);
    }
    updateConsumer(id, fields, options = {}) {
        return this.#patch(`consumers/${segment(id)}/`, fields, options);
    }
    deleteConsumer(id, options = {}) {
        return this.#delete(`consumers/${segment(id)}/`, options);
    }
    endpoints(consumer, page = {}) {
        return this.#all(`consumers/${segment(consumer)}/endpoints/`, page);
    }
    endpoint(id, options = {}) {
        return this.#get(`endpoints/${segment(id)}/`, {}, options.signal);
    }
    /** The answer carries the endpoint's `secret`, this once. */
    createEndpoint(consumer, fields, options = {}) {
        return this.#post(`consumers/${segment(consumer)}/endpoints/`, fields, options);
    }
    updateEndpoint(id, fields, options = {}) {
        return this.#patch(`endpoints/${segment(id)}/`, fields, options);
    }
    deleteEndpoint(id, options = {}) {
        return this.#delete(`endpoints/${segment(id)}/`, options);
    }
    rotateSecret(id, fields = {}, options = {}) {
        return this.#post(`endpoints/${segment(id)}/rotate-secret/`, fields, options);
    }
    pauseEndpoint(id, fields = {}, options = {}) {
        return this.#post(`endpoints/${segment(id)}/pause/`, fields, options);
    }
    resumeEndpoint(id, fields = {}, options = {}) {
        return this.#post(`endpoints/${segment(id)}/resume/`, fields, options);
    }
    testEndpoint(id, fields = {}, options = {}) {
        return this.#post(`endpoints/${segment(id)}/test/`, fields, options);
    }
    /** Sends the endpoint a genuine, a forged, an old and a doubled request; the report says how it did. */
    checkUp(id, options = {}) {
        return this.#post(`endpoints/${segment(id)}/check-up/`, {}, options);
    }
    eventTypes(filter = {}) {
        return this.#all('event-types/', filter);
    }
    eventType(name, options = {}) {
        return this.#get(`event-types/${segment(name)}/`, {}, options.signal);
    }
    createEventType(fields, options = {}) {
        return this.#post('event-types/', fields, options);
    }
    updateEventType(name, fields, options = {}) {
        return this.#patch(`event-types/${segment(name)}/`, fields, options);
    }
    deleteEventType(name, options = {}) {
        return this.#delete(`event-types/${segment(name)}/`, options);
    }
    // ── deliveries and replays ─────────────────────────────────────────────────────────────────────────────────────────
    /** Newest first. */
    deliveries(filter = {}) {
        return this.#all('deliveries/', filter);
    }
    delivery(id, options = {}) {
        return this.#get(`deliveries/${segment(id)}/`, {}, options.signal);
    }
    replayDelivery(id, fields = {}, options = {}) {
        return this.#post(`deliveries/${segment(id)}/replay/`, fields, options);
    }
    /** Deliveries again: by `endpoint`, `consumer`, `event_type`, `since`, `until` and so on, or `all: true`. */
    startReplay(filter, options = {}) {
        return this.#post('replays/', filter, options);
    }
    /** What a replay with this filter would take; nothing is sent. */
    previewReplay(filter, options = {}) {
        return this.#post('replays/', { ...filter, dry_run: true }, options);
    }
    replays(page = {}) {
        return this.#all('replays/', page);
    }
    replay(id, options = {}) {
        return this.#get(`replays/${segment(id)}/`, {}, options.signal);
    }
    cancelReplay(id, fields = {}, options = {}) {
        return this.#post(`replays/${segment(id)}/cancel/`, fields, options);
    }
    // ── what they share ────────────────────────────────────────────────────────────────────────────────────────────────
    #send(call, signal) {
        return send(this.#target, call, this.#world, signal);
    }
    #get(path, query, signal) {
        return this.#send({ method: 'GET', path, query, read: readObject }, signal);
    }
    async #post(path, fields, options, read = readObject) {
        const call = { method: 'POST', path, read, body: encode(fields), headers: newKey(options.idempotencyKey) };
        return this.#send(call, options.signal);
    }
    async #patch(path, fields, options) {
        return this.#send({ method: 'PATCH', path, read: readObject, body: encode(fields) }, options.signal);
    }
    #delete(path, { why, signal }) {
        return this.#send({ method: 'DELETE', path, query: { why }, read: () => undefined }, signal);
    }
    async *#all(path, query) {
        let { cursor } = query;
        do {
            const page = await this.#send({ method: 'GET', path, query: { ...query, cursor }, read: readPage });
            yield* page.items;
            cursor = page.cursor;
        } while (cursor !== undefined);
    }
}
function api(baseUrl) {
    const base = baseUrl.replace(/\/+$/, '');
    return base.endsWith('/api/v1') ? `${base}/` : `${base}/api/v1/`;
}
/** With a key of its own, the same on every try, so that the platform does it once. */
function newKey(given) {
    return { 'idempotency-key': given ?? randomUUID() };
}
/** An event that is stored has an id; an empty answer of somebody in between has none. */
function stored(document) {
    if (!isObject(document) || typeof document['id'] !== 'string')
        throw new TypeError('The answer is no event.');
    return document;
}
function readObject(document) {
    if (!isObject(document))
        throw new TypeError('The answer is no object.');
    return document;
}
function readPage(document) {
    if (!isObject(document) || !Array.isArray(document['results']))
        throw new TypeError('The answer is no page.');
    const next = document['next'];
    // Only the cursor: the host in that URL is the platform's own view of itself, behind whatever proxy.
    const cursor = typeof next === 'string' ? new URL(next).searchParams.get('cursor') : null;
    return { items: document['results'], cursor: cursor ?? undefined };
}
function segment(text) {
    if (text === '' || text === '.' || text === '..')
        throw new TypeError(`${JSON.stringify(text)} is no id.`);
    return encodeURIComponent(text);
}
