/** `Client`: every call of the API that producers and consumers need. */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS, type Limits, type Result, readResults, sendAll } from './batches.js';
import { type Call, RETRIES, type Retries, type Surroundings, type Target, encode, isObject, send } from './protocol.js';
import type * as types from './types.js';

export interface ClientOptions extends Partial<Surroundings> {
  retries?: Partial<Retries>;
  /** For one try. Longer than the platform works on any request. */
  timeoutSeconds?: number;
}

export interface CallOptions {
  /** Ends the call, its tries and waits; it then throws the signal's reason, and whether it was done is not known. */
  signal?: AbortSignal;
}

export interface PostOptions extends CallOptions {
  /** By default one is made for each call, and used for all its tries. */
  idempotencyKey?: string;
}

export interface FeedPage {
  events: types.FeedEvent[];
  /** The position after this page. Store it once the events are dealt with; it never becomes invalid. */
  cursor: string | undefined;
  /** Whether the feed goes on behind this page. Without, ask again from the same position later. */
  more: boolean;
}

interface Page<T> {
  items: T[];
  cursor: string | undefined;
}

// Where too many wait already, the platform answers at once: nobody asks more often than this.
const IDLE_SECONDS = 1;

export class Client {
  readonly #target: Target;
  readonly #world: Surroundings;

  constructor(baseUrl: string, key: string, options: ClientOptions = {}) {
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
  emit(event: types.NewEvent, options: PostOptions = {}): Promise<types.Event> {
    return this.#post('events/', event, options, stored);
  }

  /**
   * One result for each event, in order. An error means that this batch and what follows was not acknowledged: send
   * those again with the same ids, and what had arrived is a duplicate.
   */
  emitMany(
    items: Iterable<types.NewEvent> | AsyncIterable<types.NewEvent>,
    { maxEvents, maxBytes, signal }: Partial<Limits> & CallOptions = {},
  ): AsyncGenerator<Result, void, undefined> {
    const limits = { maxEvents: maxEvents ?? LIMITS.maxEvents, maxBytes: maxBytes ?? LIMITS.maxBytes };
    return sendAll(items, limits, (body, count) => {
      const read = (answer: unknown): types.BatchResult[] => readResults(answer, count);
      return this.#send({ method: 'POST', path: 'events/batch/', body, headers: newKey(), read }, signal);
    });
  }

  /** One event by the platform's id or by yours; `consumer` where two consumers may share yours. */
  event(id: string, { consumer, signal }: { consumer?: string } & CallOptions = {}): Promise<types.Event> {
    return this.#get(`events/${segment(id)}/`, { consumer }, signal);
  }

  /** Newest first. */
  events(filter: types.EventFilter = {}): AsyncGenerator<types.Event, void, undefined> {
    return this.#all('events/', filter);
  }

  // ── feed ───────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The next events of a consumer, oldest first. With `wait`, an empty page is held back for up to so many seconds. */
  async feedPage(consumer: string, { signal, ...query }: types.FeedOptions & CallOptions = {}): Promise<FeedPage> {
    const path = `consumers/${segment(consumer)}/feed/`;
    const page = await this.#send<Page<types.FeedEvent>>(
      { method: 'GET', path, query, read: readPage, waitSeconds: query.wait ?? 0 },
      signal,
    );
    return { events: page.items, cursor: page.cursor ?? query.cursor, more: page.cursor !== undefined };
  }

  /** Every event of a consumer from a position to the present. */
  async *feed(
    consumer: string,
    options: Omit<types.FeedOptions, 'wait'> & CallOptions = {},
  ): AsyncGenerator<types.FeedEvent, void, undefined> {
    let page: FeedPage | undefined;
    do {
      page = await this.feedPage(consumer, page?.cursor === undefined ? options : { ...options, cursor: page.cursor });
      yield* page.events;
    } while (page.more);
  }

  /**
   * Pages of events as they come, until the signal ends it; an empty one when nothing has come for `wait` seconds.
   * Store `cursor` after the events of its page are dealt with: killed in between, you get that page again.
   */
  async *follow(
    consumer: string,
    { wait: seconds = 25, ...options }: types.FeedOptions & CallOptions = {},
  ): AsyncGenerator<FeedPage, void, undefined> {
    let cursor = options.cursor;
    while (true) {
      const begun = this.#world.clock();
      const page = await this.feedPage(consumer, { ...options, wait: seconds, ...(cursor === undefined ? {} : { cursor }) });
      yield page;
      cursor = page.cursor;
      const idle = IDLE_SECONDS - (this.#world.clock() - begun);
      if (!page.more && idle > 0) await this.#world.sleep(idle, options.signal);
    }
  }

  // ── consumers, endpoints, event types ──────────────────────────────────────────────────────────────────────────────

  consumers(page: types.PageOptions = {}): AsyncGenerator<types.Consumer, void, undefined> {
    return this.#all('consumers/', page);
  }

  consumer(id: string, options: CallOptions = {}): Promise<types.Consumer> {
    return this.#get(`consumers/${segment(id)}/`, {}, options.signal);
  }

  createConsumer(fields: types.NewConsumer, options: PostOptions = {}): Promise<types.Consumer> {
    return this.#post('consumers/', fields, options);
  }

  updateConsumer(id: string, fields: types.ConsumerChange, options: CallOptions = {}): Promise<types.Consumer> {
    return this.#patch(`consumers/${segment(id)}/`, fields, options);
  }

  deleteConsumer(id: string, options: { why?: string } & CallOptions = {}): Promise<void> {
    return this.#delete(`consumers/${segment(id)}/`, options);
  }

  endpoints(consumer: string, page: types.PageOptions = {}): AsyncGenerator<types.Endpoint, void, undefined> {
    return this.#all(`consumers/${segment(consumer)}/endpoints/`, page);
  }

  endpoint(id: string, options: CallOptions = {}): Promise<types.Endpoint> {
    return this.#get(`endpoints/${segment(id)}/`, {}, options.signal);
  }

  /** The answer carries the endpoint's `secret`, this once. */
  createEndpoint(consumer: string, fields: types.NewEndpoint, options: PostOptions = {}): Promise<types.CreatedEndpoint> {
    return this.#post(`consumers/${segment(consumer)}/endpoints/`, fields, options);
  }

  updateEndpoint(id: string, fields: types.EndpointChange, options: CallOptions = {}): Promise<types.Endpoint> {
    return this.#patch(`endpoints/${segment(id)}/`, fields, options);
  }

  deleteEndpoint(id: string, options: { why?: string } & CallOptions = {}): Promise<void> {
    return this.#delete(`endpoints/${segment(id)}/`, options);
  }

  rotateSecret(id: string, fields: types.Rotation = {}, options: PostOptions = {}): Promise<types.RotatedSecret> {
    return this.#post(`endpoints/${segment(id)}/rotate-secret/`, fields, options);
  }

  pauseEndpoint(id: string, fields: { why?: string } = {}, options: PostOptions = {}): Promise<types.Endpoint> {
    return this.#post(`endpoints/${segment(id)}/pause/`, fields, options);
  }

  resumeEndpoint(id: string, fields: { why?: string } = {}, options: PostOptions = {}): Promise<types.Endpoint> {
    return this.#post(`endpoints/${segment(id)}/resume/`, fields, options);
  }

  testEndpoint(id: string, fields: types.TestEvent = {}, options: PostOptions = {}): Promise<types.Trial> {
    return this.#post(`endpoints/${segment(id)}/test/`, fields, options);
  }

  /** Sends the endpoint a genuine, a forged, an old and a doubled request; the report says how it did. */
  checkUp(id: string, options: PostOptions = {}): Promise<types.CheckUp> {
    return this.#post(`endpoints/${segment(id)}/check-up/`, {}, options);
  }

  eventTypes(filter: types.EventTypeFilter = {}): AsyncGenerator<types.EventType, void, undefined> {
    return this.#all('event-types/', filter);
  }

  eventType(name: string, options: CallOptions = {}): Promise<types.EventType> {
    return this.#get(`event-types/${segment(name)}/`, {}, options.signal);
  }

  createEventType(fields: types.NewEventType, options: PostOptions = {}): Promise<types.EventType> {
    return this.#post('event-types/', fields, options);
  }

  updateEventType(name: string, fields: types.EventTypeChange, options: CallOptions = {}): Promise<types.EventType> {
    return this.#patch(`event-types/${segment(name)}/`, fields, options);
  }

  deleteEventType(name: string, options: { why?: string } & CallOptions = {}): Promise<void> {
    return this.#delete(`event-types/${segment(name)}/`, options);
  }

  // ── deliveries and replays ─────────────────────────────────────────────────────────────────────────────────────────

  /** Newest first. */
  deliveries(filter: types.DeliveryFilter = {}): AsyncGenerator<types.Delivery, void, undefined> {
    return this.#all('deliveries/', filter);
  }

  delivery(id: string, options: CallOptions = {}): Promise<types.DeliveryDetail> {
    return this.#get(`deliveries/${segment(id)}/`, {}, options.signal);
  }

  replayDelivery(id: string, fields: { why?: string } = {}, options: PostOptions = {}): Promise<types.Delivery> {
    return this.#post(`deliveries/${segment(id)}/replay/`, fields, options);
  }

  /** Deliveries again: by `endpoint`, `consumer`, `event_type`, `since`, `until` and so on, or `all: true`. */
  startReplay(filter: Omit<types.NewReplay, 'dry_run'>, options: PostOptions = {}): Promise<types.Replay> {
    return this.#post('replays/', filter, options);
  }

  /** What a replay with this filter would take; nothing is sent. */
  previewReplay(filter: Omit<types.NewReplay, 'dry_run'>, options: PostOptions = {}): Promise<types.ReplayPreview> {
    return this.#post('replays/', { ...filter, dry_run: true }, options);
  }

  replays(page: types.PageOptions = {}): AsyncGenerator<types.Replay, void, undefined> {
    return this.#all('replays/', page);
  }

  replay(id: string, options: CallOptions = {}): Promise<types.ReplayDetail> {
    return this.#get(`replays/${segment(id)}/`, {}, options.signal);
  }

  cancelReplay(id: string, fields: { why?: string } = {}, options: PostOptions = {}): Promise<types.Replay> {
    return this.#post(`replays/${segment(id)}/cancel/`, fields, options);
  }

  // ── what they share ────────────────────────────────────────────────────────────────────────────────────────────────

  #send<T>(call: Call<T>, signal?: AbortSignal): Promise<T> {
    return send(this.#target, call, this.#world, signal);
  }

  #get<T>(path: string, query: object, signal?: AbortSignal): Promise<T> {
    return this.#send<T>({ method: 'GET', path, query, read: readObject }, signal);
  }

  async #post<T>(path: string, fields: object, options: PostOptions, read: (answer: unknown) => T = readObject): Promise<T> {
    const call = { method: 'POST' as const, path, read, body: encode(fields), headers: newKey(options.idempotencyKey) };
    return this.#send(call, options.signal);
  }

  async #patch<T>(path: string, fields: object, options: CallOptions): Promise<T> {
    return this.#send<T>({ method: 'PATCH', path, read: readObject, body: encode(fields) }, options.signal);
  }

  #delete(path: string, { why, signal }: { why?: string } & CallOptions): Promise<void> {
    return this.#send({ method: 'DELETE', path, query: { why }, read: () => undefined }, signal);
  }

  async *#all<T>(path: string, query: { cursor?: string }): AsyncGenerator<T, void, undefined> {
    let { cursor } = query;
    do {
      const page = await this.#send<Page<T>>({ method: 'GET', path, query: { ...query, cursor }, read: readPage });
      yield* page.items;
      cursor = page.cursor;
    } while (cursor !== undefined);
  }
}

function api(baseUrl: string): string {
  const base = baseUrl.replace(/\/+$/, '');
  return base.endsWith('/api/v1') ? `${base}/` : `${base}/api/v1/`;
}

/** With a key of its own, the same on every try, so that the platform does it once. */
function newKey(given?: string): Record<string, string> {
  return { 'idempotency-key': given ?? randomUUID() };
}

/** An event that is stored has an id; an empty answer of somebody in between has none. */
function stored(document: unknown): types.Event {
  if (!isObject(document) || typeof document['id'] !== 'string') throw new TypeError('The answer is no event.');
  return document as types.Event;
}

function readObject<T>(document: unknown): T {
  if (!isObject(document)) throw new TypeError('The answer is no object.');
  return document as T;
}

function readPage<T>(document: unknown): Page<T> {
  if (!isObject(document) || !Array.isArray(document['results'])) throw new TypeError('The answer is no page.');
  const next = document['next'];
  // Only the cursor: the host in that URL is the platform's own view of itself, behind whatever proxy.
  const cursor = typeof next === 'string' ? new URL(next).searchParams.get('cursor') : null;
  return { items: document['results'] as T[], cursor: cursor ?? undefined };
}

function segment(text: string): string {
  if (text === '' || text === '.' || text === '..') throw new TypeError(`${JSON.stringify(text)} is no id.`);
  return encodeURIComponent(text);
}
