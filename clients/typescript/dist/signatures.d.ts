export type Scheme = 'timestamped' | 'standard';
/** What the headers say. */
export interface Signed {
    scheme: Scheme;
    eventId: string;
    timestamp: string;
    signatures: readonly string[];
}
export declare function signature(signed: Signed, made: Uint8Array, body: Uint8Array): Buffer;
export declare function fits(signed: Signed, made: Uint8Array, body: Uint8Array): boolean;
/** The key that a secret stands for, or undefined where it is none. */
export declare function key(scheme: Scheme, secret: string): Buffer | undefined;
/** Strict, unlike Buffer.from: a secret with a stray character is no secret. */
export declare function decoded(secret: string): Buffer | undefined;
export declare function shown(scheme: Scheme, digest: Buffer): string;
