/** How often and how long a call is tried. Waits grow from `firstSeconds` and are chosen at random below that. */
export interface Retries {
    tries: number;
    firstSeconds: number;
    longestSeconds: number;
    /** No wait begins that would end later than this after the first try. */
    totalSeconds: number;
}
export declare const RETRIES: Retries;
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
/** One call, tried again while that makes sense. Aborted by `signal`, it throws the signal's reason. */
export declare function send<T>(target: Target, call: Call<T>, world: Surroundings, signal?: AbortSignal): Promise<T>;
/** Strict JSON: NaN and Infinity, which JSON.stringify would turn into null, throw here instead. */
export declare function encode(value: unknown): string;
export declare function isObject(value: unknown): value is Record<string, unknown>;
