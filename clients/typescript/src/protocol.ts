/** One call: what to send, what an answer means, how long to wait before the next try. */
import { type Refused, Unreachable, type WebhooksError, refusal } from './errors.js';
import type { Problem } from './types.js';

/** How often and how long a call is tried. Waits grow from `firstSeconds` and are chosen at random below that. */
export interface Retries {
  tries: number;
  firstSeconds: number;
  longestSeconds: number;
  /** No wait begins that would end later than this after the first try. */
  totalSeconds: number;
}

export const RETRIES: Retries = { tries: 6, firstSeconds: 0.5, longestSeconds: 20, totalSeconds: 90 };

export interface Call<T> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  read: (document: unknown) => T;
  body?: string;
  query?: object;
  headers?: Record<string, string>;
  /** Seconds for which the platform may hold its answer back on purpose. */
  waitSeconds?: number;
}

/** The world outside, which tests replace. */
export interface Surroundings {
  fetch: typeof fetch;
  /** Rejects with the signal's reason as soon as that is aborted. */
  sleep: (seconds: number, signal?: AbortSignal) => Promise<void>;
  /** Seconds, from whenever. */
  clock: () => number;
  /** At least 0, less than 1. */
  chance: () => number;
}

export interface Target {
  base: string;
  key: string;
  timeoutSeconds: number;
  retries: Retries;
}

// Refusals that say "not now": an earlier try of this call, whose answer was lost, may still be under way.
const TRY_AGAIN_CODES = new Set(['idempotency_in_progress', 'event_id_in_progress']);

interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** One call, tried again while that makes sense. Aborted by `signal`, it throws the signal's reason. */
export async function send<T>(target: Target, call: Call<T>, world: Surroundings, signal?: AbortSignal): Promise<T> {
  const begun = world.clock();
  for (let made = 1; ; made += 1) {
    signal?.throwIfAborted();
    let error: WebhooksError;
    let atLeast = 0;
    try {
      const answer = await once(target, call, world, signal);
      if (answer.status >= 200 && answer.status < 300) return read(call, answer.text);
      // An earlier try of this call deleted it, and its answer was lost.
      if (answer.status === 404 && call.method === 'DELETE' && made > 1) return read(call, '');
      const refused = refusal(answer.status, problem(answer.text), retryAfter(answer.headers));
      if (!mayPass(refused)) throw refused;
      error = refused;
      atLeast = refused.retryAfter ?? 0;
    } catch (failure) {
      signal?.throwIfAborted();
      if (!(failure instanceof NoAnswer)) throw failure;
      error = new Unreachable(`${call.method} ${call.path}: ${words(failure.cause)}`, { cause: failure.cause });
    }
    const ceiling = Math.min(target.retries.longestSeconds, target.retries.firstSeconds * 2 ** (made - 1));
    const seconds = atLeast + ceiling * world.chance();
    if (made >= target.retries.tries || world.clock() - begun + seconds > target.retries.totalSeconds) throw error;
    await world.sleep(seconds, signal);
  }
}

class NoAnswer extends Error {}

async function once(target: Target, call: Call<unknown>, world: Surroundings, signal?: AbortSignal): Promise<Answer> {
  const deadline = AbortSignal.timeout((target.timeoutSeconds + (call.waitSeconds ?? 0)) * 1000);
  try {
    const response = await world.fetch(`${target.base}${call.path}${search(call.query)}`, {
      method: call.method,
      headers: {
        authorization: `Bearer ${target.key}`,
        accept: 'application/json',
        'user-agent': 'webhooks-client-typescript',
        ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...call.headers,
      },
      redirect: 'manual',
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      ...(call.body === undefined ? {} : { body: call.body }),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  } catch (cause) {
    // `fetch` throws TypeError for a broken connection, and the deadline's reason when that has passed.
    throw new NoAnswer('no answer', { cause });
  }
}

function read<T>(call: Call<T>, text: string): T {
  try {
    return call.read(text === '' ? undefined : JSON.parse(text));
  } catch (cause) {
    const shown = JSON.stringify(text.slice(0, 200));
    throw new Unreachable(`${call.method} ${call.path}: the answer is not the platform's: ${shown}`, { cause });
  }
}

function mayPass(error: Refused): boolean {
  return error.status === 408 || error.status === 429 || error.status >= 500 || TRY_AGAIN_CODES.has(error.code);
}

/** The problem document; something like it for an answer of another kind, such as a proxy's page. */
function problem(text: string): Partial<Problem> {
  try {
    const document: unknown = JSON.parse(text);
    if (isObject(document)) return document;
  } catch {
    // Not JSON.
  }
  return { detail: text.slice(0, 200).trim() };
}

function retryAfter(headers: Headers): number | undefined {
  const text = headers.get('retry-after')?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text);
  // Date.parse reads "-5" and "1.5" as years.
  const time = /^[A-Z][a-z]{2}/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(time) ? undefined : Math.max(0, (time - Date.now()) / 1000);
}

function search(query: object = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? '' : `?${text}`;
}

function words(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // undici says "fetch failed", and why in its cause.
  return cause.cause instanceof Error ? `${cause.message} (${cause.cause.message})` : cause.message;
}

/** Strict JSON: NaN and Infinity, which JSON.stringify would turn into null, throw here instead. */
export function encode(value: unknown): string {
  const text = JSON.stringify(value, (name, each: unknown) => {
    if (typeof each === 'number' && !Number.isFinite(each)) throw new TypeError(`${name || 'It'} is ${each}, which JSON cannot say.`);
    return each;
  });
  if (text === undefined) throw new TypeError('This is no JSON.');
  return text;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
