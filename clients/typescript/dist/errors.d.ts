/** A call that failed. `message` and `detail` say what was wrong, and what is allowed. */
export declare class KinesinError extends Error {
    /** The reason for programs; empty: a problem with the HTTP request itself. */
    readonly reason: string;
    readonly detail: string;
    /** HTTP status; 0: no server answered. */
    readonly status: number;
    /** When to try again, if the server knows. */
    readonly retryAfterMs: number | undefined;
    constructor(detail: string, more?: {
        reason?: string;
        status?: number;
        retryAfterMs?: number;
        cause?: unknown;
    });
}
/** A value is outside what is allowed. */
export declare class Invalid extends KinesinError {
}
/** No lambda has that name: create it first. */
export declare class UnknownLambda extends KinesinError {
}
/** There is no such task, or what else the call names. */
export declare class NotFound extends KinesinError {
}
/** The key is held by another task, such as one with another payload. */
export declare class KeyConflict extends KinesinError {
}
/** The task has ended, or a worker has it. */
export declare class TooLate extends KinesinError {
}
/** A payload or a request is above its limit. */
export declare class TooLarge extends KinesinError {
}
/** There is no space for new tasks. */
export declare class Full extends KinesinError {
}
/** An admission quota is used up, for longer than the call may take. */
export declare class Throttled extends KinesinError {
}
/** No server answered, even after retries: the outcome may be unknown. */
export declare class Unavailable extends KinesinError {
}
/** The worker's lease has ended; its tasks start elsewhere. */
export declare class LeaseLost extends KinesinError {
}
/** Another attempt owns the task now. */
export declare class Fenced extends KinesinError {
}
/** A lambda or cron of that name exists with other settings. */
export declare class Exists extends KinesinError {
}
/** The lambda has live tasks, or is being deleted. */
export declare class InUse extends KinesinError {
}
/** This server cannot do it. */
export declare class Unsupported extends KinesinError {
}
/** The server failed; the cause is in its log. */
export declare class Internal extends KinesinError {
}
/** The call had no token, or none that the server accepts. */
export declare class Unauthenticated extends KinesinError {
}
/** The lambda is registered (by Terraform). */
export declare class Registered extends KinesinError {
}
/** No grant of the caller allows it; the text names the missing verb. */
export declare class PermissionDenied extends KinesinError {
}
/** The thing has changed since the caller read it. */
export declare class StaleSeq extends KinesinError {
}
/** Why a handler is stopped, besides Fenced and LeaseLost: `signal.reason` is one of these. */
export declare class TimedOut extends Error {
    name: string;
}
/** Somebody cancelled the task. */
export declare class Cancelled extends Error {
    name: string;
}
/** The worker is stopping, and the grace is over. */
export declare class Draining extends Error {
    name: string;
}
/** Handlers did not return in time: `run` fails with it, and the process should end. */
export declare class Abandoned extends Error {
    name: string;
}
/** Thrown by a handler that wants to be called again after a delay such as "5m". It is no failure. */
export declare class Snooze extends Error {
    readonly delay: string;
    name: string;
    constructor(delay: string);
}
/** Thrown by a handler where no retry can help: the task ends as fatal_failure. */
export declare class Fatal extends Error {
    name: string;
}
/** Thrown by a handler that gives its task back: it goes back to its queue at once. It is no failure. */
export declare class Release extends Error {
    name: string;
}
