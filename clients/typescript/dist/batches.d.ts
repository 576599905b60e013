import type { BatchResult, Event, NewEvent, Problem } from './types.js';
/** What became of one event. `accepted` and `duplicate` both mean that the platform has it. */
export type Result = {
    item: NewEvent;
    status: 'accepted' | 'duplicate';
    event: Event;
} | {
    item: NewEvent;
    status: 'refused';
    problem: Partial<Problem>;
};
/** The platform's defaults. Where it was given smaller ones, a batch that it finds too large is halved. */
export interface Limits {
    maxEvents: number;
    maxBytes: number;
}
export declare const LIMITS: Limits;
/** Sends the body of a batch with so many events, under one idempotency key for all its tries. */
type Post = (body: string, count: number) => Promise<BatchResult[]>;
export declare function sendAll(items: Iterable<NewEvent> | AsyncIterable<NewEvent>, limits: Limits, post: Post): AsyncGenerator<Result, void, undefined>;
/** The answer to a batch; throws for one that has not a result for each event. */
export declare function readResults(document: unknown, count: number): BatchResult[];
export {};
