// The refusals of a server, one class for each decision that a program makes (docs/reference/errors.md), and why a
// handler is stopped.

/** A call that failed. `message` and `detail` say what was wrong, and what is allowed. */
export class KinesinError extends Error {
  /** The reason for programs; empty: a problem with the HTTP request itself. */
  readonly reason: string;
  readonly detail: string;
  /** HTTP status; 0: no server answered. */
  readonly status: number;
  /** When to try again, if the server knows. */
  readonly retryAfterMs: number | undefined;

  constructor(detail: string, more: { reason?: string; status?: number; retryAfterMs?: number; cause?: unknown } = {}) {
    super(detail, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = new.target.name;
    this.detail = detail;
    this.reason = more.reason ?? "";
    this.status = more.status ?? 0;
    this.retryAfterMs = more.retryAfterMs;
  }
}

/** A value is outside what is allowed. */
export class Invalid extends KinesinError {}
/** No lambda has that name: create it first. */
export class UnknownLambda extends KinesinError {}
/** There is no such task, or what else the call names. */
export class NotFound extends KinesinError {}
/** The key is held by another task, such as one with another payload. */
export class KeyConflict extends KinesinError {}
/** The task has ended, or a worker has it. */
export class TooLate extends KinesinError {}
/** A payload or a request is above its limit. */
export class TooLarge extends KinesinError {}
/** There is no space for new tasks. */
export class Full extends KinesinError {}
/** An admission quota is used up, for longer than the call may take. */
export class Throttled extends KinesinError {}
/** No server answered, even after retries: the outcome may be unknown. */
export class Unavailable extends KinesinError {}
/** The worker's lease has ended; its tasks start elsewhere. */
export class LeaseLost extends KinesinError {}
/** Another attempt owns the task now. */
export class Fenced extends KinesinError {}
/** A lambda or cron of that name exists with other settings. */
export class Exists extends KinesinError {}
/** The lambda has live tasks, or is being deleted. */
export class InUse extends KinesinError {}
/** This server cannot do it. */
export class Unsupported extends KinesinError {}
/** The server failed; the cause is in its log. */
export class Internal extends KinesinError {}
/** The call had no token, or none that the server accepts. */
export class Unauthenticated extends KinesinError {}
/** The lambda is registered (by Terraform). */
export class Registered extends KinesinError {}
/** No grant of the caller allows it; the text names the missing verb. */
export class PermissionDenied extends KinesinError {}
/** The thing has changed since the caller read it. */
export class StaleSeq extends KinesinError {}

/** Why a handler is stopped, besides Fenced and LeaseLost: `signal.reason` is one of these. */
export class TimedOut extends Error { override name = "TimedOut"; }
/** Somebody cancelled the task. */
export class Cancelled extends Error { override name = "Cancelled"; }
/** The worker is stopping, and the grace is over. */
export class Draining extends Error { override name = "Draining"; }
/** Handlers did not return in time: `run` fails with it, and the process should end. */
export class Abandoned extends Error { override name = "Abandoned"; }

/** Thrown by a handler that wants to be called again after a delay such as "5m". It is no failure. */
export class Snooze extends Error {
  override name = "Snooze";
  constructor(readonly delay: string) { super(`snoozed for ${delay}`); }
}
/** Thrown by a handler where no retry can help: the task ends as fatal_failure. */
export class Fatal extends Error { override name = "Fatal"; }
/** Thrown by a handler that gives its task back: it goes back to its queue at once. It is no failure. */
export class Release extends Error { override name = "Release"; }
