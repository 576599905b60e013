import { type Limits, type Result } from './batches.js';
import { type Retries, type Surroundings } from './protocol.js';
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
export declare class Client {
    #private;
    constructor(baseUrl: string, key: string, options?: ClientOptions);
    /** When this resolves, the event is stored, and will be delivered or shown as a dead letter. */
    emit(event: types.NewEvent, options?: PostOptions): Promise<types.Event>;
    /**
     * One result for each event, in order. An error means that this batch and what follows was not acknowledged: send
     * those again with the same ids, and what had arrived is a duplicate.
     */
    emitMany(items: Iterable<types.NewEvent> | AsyncIterable<types.NewEvent>, { maxEvents, maxBytes, signal }?: Partial<Limits> & CallOptions): AsyncGenerator<Result, void, undefined>;
    /** One event by the platform's id or by yours; `consumer` where two consumers may share yours. */
    event(id: string, { consumer, signal }?: {
        consumer?: string;
    } & CallOptions): Promise<types.Event>;
    /** Newest first. */
    events(filter?: types.EventFilter): AsyncGenerator<types.Event, void, undefined>;
    /** The next events of a consumer, oldest first. With `wait`, an empty page is held back for up to so many seconds. */
    feedPage(consumer: string, { signal, ...query }?: types.FeedOptions & CallOptions): Promise<FeedPage>;
    /** Every event of a consumer from a position to the present. */
    feed(consumer: string, options?: Omit<types.FeedOptions, 'wait'> & CallOptions): AsyncGenerator<types.FeedEvent, void, undefined>;
    /**
     * Pages of events as they come, until the signal ends it; an empty one when nothing has come for `wait` seconds.
     * Store `cursor` after the events of its page are dealt with: killed in between, you get that page again.
     */
    follow(consumer: string, { wait: seconds, ...options }?: types.FeedOptions & CallOptions): AsyncGenerator<FeedPage, void, undefined>;
    consumers(page?: types.PageOptions): AsyncGenerator<types.Consumer, void, undefined>;
    consumer(id: string, options?: CallOptions): Promise<types.Consumer>;
    createConsumer(fields: types.NewConsumer, options?: PostOptions): Promise<types.Consumer>;
    updateConsumer(id: string, fields: types.ConsumerChange, options?: CallOptions): Promise<types.Consumer>;
    deleteConsumer(id: string, options?: {
        why?: string;
    } & CallOptions): Promise<void>;
    endpoints(consumer: string, page?: types.PageOptions): AsyncGenerator<types.Endpoint, void, undefined>;
    endpoint(id: string, options?: CallOptions): Promise<types.Endpoint>;
    /** The answer carries the endpoint's `secret`, this once. */
    createEndpoint(consumer: string, fields: types.NewEndpoint, options?: PostOptions): Promise<types.CreatedEndpoint>;
    updateEndpoint(id: string, fields: types.EndpointChange, options?: CallOptions): Promise<types.Endpoint>;
    deleteEndpoint(id: string, options?: {
        why?: string;
    } & CallOptions): Promise<void>;
    rotateSecret(id: string, fields?: types.Rotation, options?: PostOptions): Promise<types.RotatedSecret>;
    pauseEndpoint(id: string, fields?: {
        why?: string;
    }, options?: PostOptions): Promise<types.Endpoint>;
    resumeEndpoint(id: string, fields?: {
        why?: string;
    }, options?: PostOptions): Promise<types.Endpoint>;
    testEndpoint(id: string, fields?: types.TestEvent, options?: PostOptions): Promise<types.Trial>;
    /** Sends the endpoint a genuine, a forged, an old and a doubled request; the report says how it did. */
    checkUp(id: string, options?: PostOptions): Promise<types.CheckUp>;
    eventTypes(filter?: types.EventTypeFilter): AsyncGenerator<types.EventType, void, undefined>;
    eventType(name: string, options?: CallOptions): Promise<types.EventType>;
    createEventType(fields: types.NewEventType, options?: PostOptions): Promise<types.EventType>;
    updateEventType(name: string, fields: types.EventTypeChange, options?: CallOptions): Promise<types.EventType>;
    deleteEventType(name: string, options?: {
        why?: string;
    } & CallOptions): Promise<void>;
    /** Newest first. */
    deliveries(filter?: types.DeliveryFilter): AsyncGenerator<types.Delivery, void, undefined>;
    delivery(id: string, options?: CallOptions): Promise<types.DeliveryDetail>;
    replayDelivery(id: string, fields?: {
        why?: string;
    }, options?: PostOptions): Promise<types.Delivery>;
    /** Deliveries again: by `endpoint`, `consumer`, `event_type`, `since`, `until` and so on, or `all: true`. */
    startReplay(filter: Omit<types.NewReplay, 'dry_run'>, options?: PostOptions): Promise<types.Replay>;
    /** What a replay with this filter would take; nothing is sent. */
    previewReplay(filter: Omit<types.NewReplay, 'dry_run'>, options?: PostOptions): Promise<types.ReplayPreview>;
    replays(page?: types.PageOptions): AsyncGenerator<types.Replay, void, undefined>;
    replay(id: string, options?: CallOptions): Promise<types.ReplayDetail>;
    cancelReplay(id: string, fields?: {
        why?: string;
    }, options?: PostOptions): Promise<types.Replay>;
}
