/** Many events in few requests: split within the platform's limits, in order, one result for each event. */
import { Invalid, type Refused } from './errors.js';
import { encode, isObject } from './protocol.js';
import type { BatchResult, Event, NewEvent, Problem } from './types.js';

/** What became of one event. `accepted` and `duplicate` both mean that the platform has it. */
export type Result =
  | { item: NewEvent; status: 'accepted' | 'duplicate'; event: Event }
  | { item: NewEvent; status: 'refused'; problem: Partial<Problem> };

/** The platform's defaults. Where it was given smaller ones, a batch that it finds too large is halved. */
export interface Limits {
  maxEvents: number;
  maxBytes: number;
}

export const LIMITS: Limits = { maxEvents: 1000, maxBytes: 8 * 1024 * 1024 };

interface Item {
  given: NewEvent;
  /** Undefined for what is no JSON. */
  body: string | undefined;
  whyNot: string;
}

/** Sends the body of a batch with so many events, under one idempotency key for all its tries. */
type Post = (body: string, count: number) => Promise<BatchResult[]>;

export async function* sendAll(
  items: Iterable<NewEvent> | AsyncIterable<NewEvent>,
  limits: Limits,
  post: Post,
): AsyncGenerator<Result, void, undefined> {
  for await (const batch of split(items, limits)) yield* sendBatch(batch, post);
}

async function* sendBatch(batch: Item[], post: Post): AsyncGenerator<Result> {
  const bodies = batch.flatMap((item) => item.body ?? []);
  let answers: BatchResult[];
  try {
    answers = bodies.length === 0 ? [] : await post(`{"events":[${bodies.join(',')}]}`, bodies.length);
  } catch (error) {
    if (!(error instanceof Invalid) || !isAboutItems(error)) throw error;
    if (batch.length === 1) {
      yield { item: batch[0]!.given, status: 'refused', problem: error.document };
      return;
    }
    // Nothing of it was stored. Halves, down to the one event that is at fault.
    const middle = Math.floor(batch.length / 2);
    yield* sendBatch(batch.slice(0, middle), post);
    yield* sendBatch(batch.slice(middle), post);
    return;
  }
  const following = answers.values();
  for (const item of batch) {
    yield item.body === undefined ? notJson(item) : ({ item: item.given, ...following.next().value } as Result);
  }
}

/** Whether a refusal is about what the batch held. Others (a redirect, a proxy's page) fit every batch. */
function isAboutItems(error: Refused): boolean {
  return error.status === 413 || error.code === 'invalid' || error.code === 'invalid_json';
}

async function* split(items: Iterable<NewEvent> | AsyncIterable<NewEvent>, limits: Limits): AsyncGenerator<Item[]> {
  const around = '{"events":[]}'.length;
  let batch: Item[] = [];
  let size = around;
  for await (const given of items) {
    const item = encoded(given);
    const length = Buffer.byteLength(item.body ?? '') + 1;
    if (batch.length > 0 && (batch.length >= limits.maxEvents || size + length > limits.maxBytes)) {
      yield batch;
      batch = [];
      size = around;
    }
    batch.push(item);
    size += length;
  }
  if (batch.length > 0) yield batch;
}

function encoded(given: NewEvent): Item {
  try {
    return { given, body: encode(given), whyNot: '' };
  } catch (error) {
    return { given, body: undefined, whyNot: error instanceof Error ? error.message : String(error) };
  }
}

function notJson(item: Item): Result {
  return { item: item.given, status: 'refused', problem: { code: 'not_json', status: 400, detail: item.whyNot } };
}

/** The answer to a batch; throws for one that has not a result for each event. */
export function readResults(document: unknown, count: number): BatchResult[] {
  if (!isObject(document) || !Array.isArray(document['results']) || document['results'].length !== count) {
    throw new TypeError(`${count} results were expected.`);
  }
  return document['results'] as BatchResult[];
}
