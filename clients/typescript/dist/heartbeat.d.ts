export interface HeartbeatData {
    urls: readonly string[];
    token: string | undefined;
    worker: string;
    everyMs: number;
    validMs: number;
    marginMs: number;
    kill: boolean;
    lease: SharedArrayBuffer;
}
export type FromMain = {
    hold: string;
} | {
    drop: string;
};
export type ToMain = {
    cancels: string[];
    fenced: string[];
} | {
    lost: string;
} | {
    failed: string;
    failures: number;
    answered: boolean;
};
/** Until when the lease holds, by the monotonic and the wall clock, and the offset of the server's clock, in milliseconds. */
export declare const mono: number, wall: number, offset: number;
export declare const monotonicMs: () => number;
