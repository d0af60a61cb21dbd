import type { BackfillSettings, CancelResult, ChainChange, ChainInfo, ChangeResult, Count, CronHistory, CronInfo, CronPauseSettings, CronSettings, GroupCancelled, GroupInfo, GroupSettings, Item, Job, LambdaInfo, LambdaSettings, Member, RedriveOptions, Scheduled, TaskChanges, TaskInfo, Time } from "./api.js";
import { KinesinError } from "./errors.js";
import type { HandlerOptions, RunOptions, Task } from "./worker.js";
export type * from "./api.js";
export * from "./errors.js";
export type { HandlerOptions, RunOptions, Task } from "./worker.js";
export interface Options {
    /** For a server that wants one. */
    token?: string;
    /** Of one try of a call; 10,000 when not set. */
    callTimeoutMs?: number;
    /** How often a call is tried when no server answers; 9 when not set, 1: no second try. */
    tries?: number;
    /** Returns the W3C trace context of the caller, for tasks that are given none. */
    traceparent?: () => string | undefined;
    /** Where a worker logs; the console when not set. Never gets payloads. */
    log?: Log;
}
export type Log = (level: "info" | "warn" | "error", message: string, fields: Record<string, unknown>) => void;
/** What a task may be given: all but its lambda and payload. */
export type TaskOptions = Omit<Item, "lambda" | "payload" | "requestId">;
/** A task by its id, or the newest one with a key. */
export type Name = string | {
    lambda: string;
    key: string;
};
/** Runs one attempt. What it returns becomes the result of the task. */
export type Handler<P> = (task: Task<P>, signal: AbortSignal) => unknown;
/** Wraps every handler: call `next` to go on. The first one is the outermost. */
export type Middleware = (task: Task<unknown>, signal: AbortSignal, next: () => Promise<unknown>) => unknown;
export interface ListQuery {
    lambda?: string;
    state?: string;
    where?: string;
    order?: "due" | "-created" | "-ended";
    maxExamined?: number;
    limit?: number;
}
export interface CallSignal {
    signal?: AbortSignal;
}
/** Schedules tasks, reads and changes them, and runs them. */
export declare class Kinesin {
    #private;
    readonly options: Options;
    readonly chains: {
        /** Reads a chain by the id of any of its tasks. */
        get: (id: string) => Promise<ChainInfo>;
        cancel: (id: string) => Promise<ChainChange>;
        pause: (id: string) => Promise<ChainChange>;
        resume: (id: string) => Promise<ChainChange>;
        redrive: (id: string) => Promise<ChainChange>;
        extend: (id: string, startBefore: Time) => Promise<ChainChange>;
    };
    readonly groups: {
        create: (settings: Omit<GroupSettings, "requestId">) => Promise<GroupInfo>;
        add: (id: string, have: number, items: Item[]) => Promise<number>;
        seal: (id: string, members?: number) => Promise<GroupInfo>;
        /** Makes a group, adds its members and seals it. */
        schedule: (members: Item[], settings: Omit<GroupSettings, "requestId">) => Promise<GroupInfo>;
        get: (id: string) => Promise<GroupInfo>;
        cancel: (id: string) => Promise<GroupCancelled>;
        /** Lists members in their order, with their results. */
        members: (id: string) => AsyncGenerator<Member, void, void>;
    };
    readonly crons: {
        /** Creates a cron; one with the same settings is returned as it is, and with others the error is Exists. */
        create: (settings: CronSettings) => Promise<CronInfo>;
        get: (name: string) => Promise<CronInfo>;
        list: (lambda?: string) => Promise<CronInfo[]>;
        /** Replaces all settings of the cron that was read at `version`. */
        update: (settings: CronSettings & {
            version: number;
        }) => Promise<CronInfo>;
        delete: (name: string) => Promise<object>;
        pause: (name: string, settings: CronPauseSettings) => Promise<CronInfo>;
        resume: (name: string) => Promise<CronInfo>;
        /** Schedules a task as the cron would, now. */
        run: (name: string) => Promise<{
            id: string;
        }>;
        backfill: (name: string, settings: Omit<BackfillSettings, "requestId">) => Promise<Job>;
        history: (name: string, o?: {
            from?: string;
            to?: string;
            limit?: number;
        }) => Promise<CronHistory>;
    };
    readonly lambdas: {
        /** Creates a lambda if it does not exist; one that exists stays as it is. */
        ensure: (settings: LambdaSettings) => Promise<LambdaInfo>;
        get: (name: string) => Promise<LambdaInfo>;
    };
    /** The URL may name several servers over one store, with commas between them. */
    constructor(url: string, options?: Options);
    /** Sets the handler of a lambda's tasks. The options are those of every task that is scheduled through it. */
    handler<P = unknown>(lambda: string, ...rest: [Handler<P>] | [TaskOptions & HandlerOptions, Handler<P>]): Lambda<P>;
    /** Returns a lambda to schedule tasks of, which this process does not handle. */
    lambda<P = unknown>(name: string, defaults?: TaskOptions): Lambda<P>;
    /** Creates the lambdas of the handlers; one that exists stays as it is. */
    ensure(): Promise<void>;
    /** Wraps every handler. */
    use(...middleware: Middleware[]): this;
    /** Runs tasks until SIGTERM, SIGINT or the signal; then drains. Lambdas that are missing are created. Fails with a refusal of the server, LeaseLost or Abandoned. */
    run(options?: RunOptions): Promise<void>;
    /** Schedules a task with all that follows it. When it returns, the task is durable. Lambdas of handlers that are missing are created. */
    schedule(item: Item, o?: CallSignal): Promise<Scheduled>;
    /** Schedules any number of tasks and returns a result for each, in order: a task, or an error. Lambdas of handlers that are missing are created. */
    scheduleMany(items: Item[], o?: CallSignal): Promise<(Scheduled | KinesinError)[]>;
    get<R = unknown>(task: Name, o?: {
        payload?: boolean;
    } & CallSignal): Promise<TaskInfo & {
        result?: R;
    }>;
    /** Waits for the end of a task. Bound it with a signal, such as AbortSignal.timeout(60_000). */
    wait<R = unknown>(task: Name, o?: CallSignal): Promise<TaskInfo & {
        result?: R;
    }>;
    /** A waiting task never starts; the handler of a running one is told to stop. */
    cancel(task: Name, o?: {
        ifSeq?: number;
    } & CallSignal): Promise<CancelResult>;
    /** Moves a task to another time; failed attempts still count. Without a time: now. */
    reschedule(task: Name, when?: {
        delay?: string;
        due?: Time;
    }, o?: {
        ifSeq?: number;
    } & CallSignal): Promise<ChangeResult>;
    /** Replaces payload, settings, priority or time in one write; null is the lambda's setting again. */
    update(task: Name, changes: TaskChanges, o?: CallSignal): Promise<ChangeResult>;
    runNow(task: Name, o?: {
        ifSeq?: number;
    } & CallSignal): Promise<ChangeResult>;
    /** Starts an ended task anew under the same id; with `force` also one that succeeded. */
    redrive(task: Name, options?: Omit<RedriveOptions, "requestId">, o?: CallSignal): Promise<ChangeResult>;
    /** Lists tasks, page by page as the loop goes on. */
    list(query?: ListQuery, o?: CallSignal): AsyncGenerator<TaskInfo, void, void>;
    /** Counts the tasks that a filter selects; with `exact` each is counted, whatever that costs. */
    count(where?: string, o?: {
        exact?: boolean;
    } & CallSignal): Promise<Count>;
    /** Makes any call of the API (docs/reference/http.md), with the retries of a client. */
    call<T>(method: string, path: string, body?: unknown, o?: CallSignal & {
        timeoutMs?: number;
    }): Promise<T>;
}
/** A named kind of work: the tasks of one handler. P is the type of their payload. */
export declare class Lambda<P> {
    readonly app: Kinesin;
    readonly name: string;
    readonly defaults: TaskOptions;
    constructor(app: Kinesin, name: string, defaults: TaskOptions);
    /** Returns the task that `schedule` would schedule, for batches, chains and groups. */
    with(payload: P, options?: TaskOptions): Item;
    /** Schedules one task. When it returns, the task is durable, and starts at its due time and never before. */
    schedule(payload: P, options?: TaskOptions, o?: CallSignal): Promise<Scheduled>;
    scheduleMany(tasks: {
        payload: P;
        options?: TaskOptions;
    }[], o?: CallSignal): Promise<(Scheduled | KinesinError)[]>;
    /** Creates the lambda if it does not exist; one that exists stays as it is. */
    ensure(settings?: Omit<LambdaSettings, "name">): Promise<LambdaInfo>;
    /** Names the newest task of the lambda with a key, wherever an id goes. */
    key(key: string): Name;
}
/** Returns a chain as one item: each step starts when the one before it has succeeded. */
export declare function chain(steps: Item[], o?: {
    onFailure?: Item[];
    finally?: Item[];
}): Item;
