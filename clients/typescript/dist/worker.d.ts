import type { GroupEnd, GroupMember, Item, Occurrence, Parent } from "./api.js";
import type { Handler, Kinesin } from "./index.js";
/** An attempt of a task, as its handler gets it. */
export interface Task<P> {
    id: string;
    lambda: string;
    payload: P;
    key?: string;
    priority?: string;
    collection?: string;
    tags: Record<string, string>;
    /** The fencing number: it rises with every attempt. What the handler changes can refuse a lower number. */
    attempt: number;
    failures: number;
    maxAttempts: number;
    workerLost: number;
    created: Date;
    due: Date;
    /** How long after its due time this attempt started. */
    latenessMs: number;
    /** When the attempt times out; not set: never. */
    deadline?: Date;
    /** W3C trace context of the attempt. */
    traceparent?: string;
    occurrence?: Occurrence;
    member?: GroupMember;
    group?: GroupEnd;
    /** The task before it, as it ended. */
    parent?: Parent;
    chain?: string;
    /** Has more tasks follow, if the handler succeeds. */
    addThen(...items: Item[]): void;
}
export interface HandlerOptions {
    /** Slots of the lambda's own, which tasks of other lambdas cannot take. */
    concurrency?: number;
}
export interface Registration {
    handle: Handler<unknown>;
    concurrency: number | undefined;
    ensure: () => Promise<unknown>;
}
export interface RunOptions {
    /** How many tasks run at a time, of all lambdas together that have no concurrency of their own; 100 when not set. */
    slots?: number;
    /** How long without a heartbeat until the tasks start elsewhere: "3s" to "1h", and "15s" when not set. */
    lease?: string;
    /** How long handlers may go on when the worker stops; "25s" when not set. */
    grace?: string;
    /** How long they then have to return after their signal; "5s" when not set. */
    killAfter?: string;
    /** Shown with attempts; host and process id when not set. */
    name?: string;
    version?: string;
    /** Stops the worker, as SIGTERM and SIGINT do. */
    signal?: AbortSignal;
    /** Called when the worker has registered, also again after a lost lease. */
    onRegister?: () => void;
    /** Whether SIGTERM and SIGINT drain the worker; a second one ends the process. True when not set. */
    handleSignals?: boolean;
    /** Ends the process when the lease is lost and handlers do not return; process.exit when not set. */
    exit?: (code: number) => void;
}
/** Runs the handlers of an app until it is told to stop. */
export declare function run(app: Kinesin, options: RunOptions): Promise<void>;
