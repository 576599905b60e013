/** The classic mistake behind a signature that does not fit: what has to be put right for the request to verify. */
import { type Signed } from './signatures.js';
export declare function mistake(signed: Signed, body: Uint8Array, secrets: readonly string[]): string | undefined;
