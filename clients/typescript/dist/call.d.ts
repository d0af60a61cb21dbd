import { KinesinError } from "./errors.js";
/** The servers over one store, of which one is used until it fails. */
export declare class Servers {
    #private;
    readonly urls: readonly string[];
    readonly token: string | undefined;
    readonly tries: number;
    readonly callTimeoutMs: number;
    constructor(urls: readonly string[], token: string | undefined, tries: number, callTimeoutMs: number);
    static parse(text: string): string[];
    /** Makes one try of a call. */
    once<T>(method: string, path: string, o?: CallOptions): Promise<T>;
    /** Makes a call, again and again while no server answers, until its tries are used up. */
    call<T>(method: string, path: string, o?: CallOptions): Promise<T>;
    retry<T>(once: (tries: number) => Promise<T>, signal?: AbortSignal): Promise<T>;
}
export interface CallOptions {
    body?: unknown;
    lines?: string[];
    timeoutMs?: number;
    signal?: AbortSignal | undefined;
}
/** Returns the pause after n failures, at random between the shortest and a bound that doubles. */
export declare function backoff(n: number, minMs: number, maxMs: number): number;
/** Waits, and fails with the reason of the signal if that comes first. */
export declare function sleep(ms: number, signal?: AbortSignal): Promise<void>;
/** Returns a UUIDv7: with it, a call that is repeated does no more. */
export declare function requestId(): string;
/** Returns a value as the API has it: names with underscores, times as text, bytes in base64. */
export declare function toWire(value: unknown): unknown;
/** Returns a value of the API as programs have it. */
export declare function fromWire(value: unknown): unknown;
/** Refuses an answer that is not as long as it has to be. */
export declare function checkCount(have: number, want: number): void;
/** Returns the error of a problem that a server sent. */
export declare function errorOf(problem: {
    reason?: string;
    detail?: string;
    title?: string;
    status?: number;
    retryAfter?: string;
}): KinesinError;
/** Returns the milliseconds of a duration such as "1m30s". */
export declare function millis(text: string): number;
