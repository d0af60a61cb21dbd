// Kinesin from TypeScript: schedule tasks, and run them. This module needs nothing of Node, so that tasks can be
// scheduled from edge runtimes, too; `run` loads the worker, which does.
import type {
  BackfillSettings, CancelResult, ChainChange, ChainInfo, ChangeResult, Count, CronHistory, CronInfo, CronPauseSettings, CronSettings, GroupCancelled,
  GroupInfo, GroupSettings, Item, Job, LambdaInfo, LambdaSettings, Member, Problem, RedriveOptions, Scheduled, TaskChanges, TaskInfo, Time,
} from "./api.js";
import { checkCount, errorOf, requestId, Servers, toWire } from "./call.js";
import { Exists, KinesinError, PermissionDenied, Throttled, TooLate, Unavailable, UnknownLambda } from "./errors.js";
import type { HandlerOptions, Registration, RunOptions, Task } from "./worker.js";

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
export type Name = string | { lambda: string; key: string };
/** Runs one attempt. What it returns becomes the result of the task. */
export type Handler<P> = (task: Task<P>, signal: AbortSignal) => unknown;
/** Wraps every handler: call `next` to go on. The first one is the outermost. */
export type Middleware = (task: Task<unknown>, signal: AbortSignal, next: () => Promise<unknown>) => unknown;
export interface ListQuery { lambda?: string; state?: string; where?: string; order?: "due" | "-created" | "-ended"; maxExamined?: number; limit?: number }
export interface CallSignal { signal?: AbortSignal }

/** Schedules tasks, reads and changes them, and runs them. */
export class Kinesin {
  readonly chains = chainsOf(this);
  readonly groups = groupsOf(this);
  readonly crons = cronsOf(this);
  readonly lambdas = lambdasOf(this);
  /** @internal */ servers!: Servers;
  /** @internal */ readonly registrations = new Map<string, Registration>();
  /** @internal */ readonly middleware: Middleware[] = [];

  /** The URL may name several servers over one store, with commas between them. */
  constructor(url: string, readonly options: Options = {}) {
    this.setServer(url);
  }

  /** @internal */ setServer(url: string): void {
    this.servers = new Servers(Servers.parse(url), this.options.token, this.options.tries ?? 9, this.options.callTimeoutMs ?? 10_000);
  }

  /** Sets the handler of a lambda's tasks. The options are those of every task that is scheduled through it. */
  handler<P = unknown>(lambda: string, ...rest: [Handler<P>] | [TaskOptions & HandlerOptions, Handler<P>]): Lambda<P> {
    const handle = rest[rest.length - 1] as Handler<unknown>;
    const { concurrency, ...defaults } = (rest.length > 1 ? rest[0] : {}) as TaskOptions & HandlerOptions;
    if (this.registrations.has(lambda)) throw new TypeError(`lambda ${lambda} has a handler already`);
    const made = this.lambda<P>(lambda, defaults);
    this.registrations.set(lambda, { handle, concurrency, ensure: () => made.ensure() });
    return made;
  }

  /** Returns a lambda to schedule tasks of, which this process does not handle. */
  lambda<P = unknown>(name: string, defaults: TaskOptions = {}): Lambda<P> {
    return new Lambda<P>(this, name, defaults);
  }

  /** Creates the lambdas of the handlers; one that exists stays as it is. */
  async ensure(): Promise<void> {
    for (const registration of this.registrations.values()) await registration.ensure();
  }

  /** Wraps every handler. */
  use(...middleware: Middleware[]): this {
    this.middleware.push(...middleware);
    return this;
  }

  /** Runs tasks until SIGTERM, SIGINT or the signal; then drains. Lambdas that are missing are created. Fails with a refusal of the server, LeaseLost or Abandoned. */
  async run(options: RunOptions = {}): Promise<void> {
    const worker = "./worker.js"; // bundlers for edge runtimes must not follow this import
    const { run } = (await import(/* webpackIgnore: true */ /* @vite-ignore */ worker)) as typeof import("./worker.js");
    await run(this, options);
  }

  /** Schedules a task with all that follows it. When it returns, the task is durable. Lambdas of handlers that are missing are created. */
  async schedule(item: Item, o: CallSignal = {}): Promise<Scheduled> {
    const { lambda, ...rest } = this.#withTrace(item);
    const call = () => this.call<Scheduled>("POST", `/v1/lambdas/${part(lambda)}/tasks`, { ...rest, requestId: requestId() }, o);
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof UnknownLambda) || this.registrations.size === 0) throw error;
      await this.ensure().catch((denied) => { throw denied instanceof PermissionDenied ? error : denied; });
      return call();
    }
  }

  /** Schedules any number of tasks and returns a result for each, in order: a task, or an error. Lambdas of handlers that are missing are created. */
  async scheduleMany(items: Item[], o: CallSignal = {}): Promise<(Scheduled | KinesinError)[]> {
    const results: (Scheduled | KinesinError)[] = [];
    const lines = items.map((item, at) => {
      const { lambda, ...rest } = this.#withTrace(item);
      return { at, lambda, text: JSON.stringify(toWire({ ...rest, requestId: requestId() })) };
    });
    await this.#scheduleLines(lines, results, o);
    const missing = lines.filter(({ at }) => results[at] instanceof UnknownLambda);
    if (missing.length > 0 && this.registrations.size > 0) {
      await this.ensure().catch((error) => { if (!(error instanceof KinesinError)) throw error; });
      await this.#scheduleLines(missing, results, o);
    }
    return results;
  }

  async get<R = unknown>(task: Name, o: { payload?: boolean } & CallSignal = {}): Promise<TaskInfo & { result?: R }> {
    return this.call("GET", path(task, "", { payload: o.payload }), undefined, o);
  }

  /** Waits for the end of a task. Bound it with a signal, such as AbortSignal.timeout(60_000). */
  async wait<R = unknown>(task: Name, o: CallSignal = {}): Promise<TaskInfo & { result?: R }> {
    for (;;) {
      const info = await this.call<TaskInfo & { result?: R }>("GET", path(task, "/wait", { timeout: "20s" }), undefined, { ...o, timeoutMs: 20_000 + this.servers.callTimeoutMs });
      if (info.ended) return info;
    }
  }

  /** A waiting task never starts; the handler of a running one is told to stop. */
  async cancel(task: Name, o: { ifSeq?: number } & CallSignal = {}): Promise<CancelResult> {
    return this.servers.retry(async (tries) => {
      try {
        return await this.servers.once<CancelResult>("DELETE", path(task, "", { if_seq: o.ifSeq }), { signal: o.signal });
      } catch (error) {
        const info = tries > 1 && error instanceof TooLate ? await this.get(task, o) : undefined;
        if (info?.state !== "cancelled") throw error;
        return { id: info.id, outcome: "cancelled" }; // by an earlier try, whose answer was lost
      }
    }, o.signal);
  }

  /** Moves a task to another time; failed attempts still count. Without a time: now. */
  async reschedule(task: Name, when: { delay?: string; due?: Time } = {}, o: { ifSeq?: number } & CallSignal = {}): Promise<ChangeResult> {
    return when.delay ?? when.due ? this.update(task, { ...when, ...(o.ifSeq ? { ifSeq: o.ifSeq } : {}) }, o) : this.runNow(task, o);
  }

  /** Replaces payload, settings, priority or time in one write; null is the lambda's setting again. */
  async update(task: Name, changes: TaskChanges, o: CallSignal = {}): Promise<ChangeResult> {
    return this.call("PATCH", path(task), changes, o);
  }

  async runNow(task: Name, o: { ifSeq?: number } & CallSignal = {}): Promise<ChangeResult> {
    return this.call("POST", path(task, "/run", { if_seq: o.ifSeq }), undefined, o);
  }

  /** Starts an ended task anew under the same id; with `force` also one that succeeded. */
  async redrive(task: Name, options: Omit<RedriveOptions, "requestId"> = {}, o: CallSignal = {}): Promise<ChangeResult> {
    return this.call("POST", path(task, "/redrive"), { ...options, requestId: requestId() }, o);
  }

  /** Lists tasks, page by page as the loop goes on. */
  async *list(query: ListQuery = {}, o: CallSignal = {}): AsyncGenerator<TaskInfo, void, void> {
    const { maxExamined, limit = Infinity, ...rest } = query;
    let cursor: string | undefined;
    for (let left = limit; left > 0; ) {
      const at = search({ ...rest, cursor, max_examined: maxExamined, limit: Math.min(left, pageMax) });
      const page = await this.call<{ tasks: TaskInfo[]; next?: string }>("GET", `/v1/tasks${at}`, undefined, { ...o, timeoutMs: setTimeoutMs });
      yield* page.tasks;
      left -= page.tasks.length;
      if (!(cursor = page.next)) return;
    }
  }

  /** Counts the tasks that a filter selects; with `exact` each is counted, whatever that costs. */
  async count(where = "", o: { exact?: boolean } & CallSignal = {}): Promise<Count> {
    return this.call("GET", `/v1/tasks/count${search({ where, exact: o.exact })}`, undefined, { ...o, timeoutMs: setTimeoutMs });
  }

  /** Makes any call of the API (docs/reference/http.md), with the retries of a client. */
  async call<T>(method: string, path: string, body?: unknown, o: CallSignal & { timeoutMs?: number } = {}): Promise<T> {
    return this.servers.call<T>(method, path, { body, ...o });
  }

  #withTrace(item: Item): Item {
    const traceparent = item.traceparent ?? this.options.traceparent?.();
    return traceparent ? { ...item, traceparent } : item;
  }

  async #scheduleLines(lines: Line[], results: (Scheduled | KinesinError)[], o: CallSignal): Promise<void> {
    const byLambda = new Map<string, Line[]>();
    for (const line of lines) {
      if (!byLambda.has(line.lambda)) byLambda.set(line.lambda, []);
      byLambda.get(line.lambda)!.push(line);
    }
    for (const [lambda, some] of byLambda) {
      for (const batch of batches(some)) await this.#scheduleBatch(lambda, batch, results, o);
    }
  }

  /** Lines without an answer are sent again with the same request ids, so that no line makes two tasks. */
  async #scheduleBatch(lambda: string, batch: Line[], results: (Scheduled | KinesinError)[], o: CallSignal): Promise<void> {
    let pending = batch;
    const path = `/v1/lambdas/${part(lambda)}/tasks`;
    try {
      await this.servers.retry(async () => {
        const lines = pending.map((line) => line.text);
        const answers = await this.servers.once<(Scheduled & { problem?: Problem })[]>("POST", path, { lines, ...o });
        let refused: KinesinError | undefined;
        const again = pending.filter(({ at }, n) => {
          if (n >= answers.length) return true;
          const { problem, ...task } = answers[n]!;
          const error = problem && errorOf(problem);
          results[at] = error ?? task;
          if (!(error instanceof Unavailable || error instanceof Throttled)) return false;
          refused = error;
          return true;
        });
        const sent = pending.length;
        pending = again;
        if (answers.length < sent) throw new Unavailable(`the server answered for ${answers.length} of ${sent} tasks`, { reason: "unavailable" });
        if (refused) throw refused;
      }, o.signal);
    } catch (error) {
      if (!(error instanceof KinesinError)) throw error;
      for (const { at } of pending) results[at] = error;
    }
  }
}

/** A task of a batch: its place among the results, its lambda, and what is sent. */
interface Line { at: number; lambda: string; text: string }

/** Cuts lines into what one call takes. */
function* batches(lines: Line[]): Generator<Line[]> {
  let batch: Line[] = [];
  let size = 0;
  for (const line of lines) {
    if (batch.length >= linesMax || (batch.length > 0 && size + line.text.length > linesBytesMax)) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(line);
    size += line.text.length;
  }
  if (batch.length > 0) yield batch;
}

/** A named kind of work: the tasks of one handler. P is the type of their payload. */
export class Lambda<P> {
  constructor(readonly app: Kinesin, readonly name: string, readonly defaults: TaskOptions) {}

  /** Returns the task that `schedule` would schedule, for batches, chains and groups. */
  with(payload: P, options: TaskOptions = {}): Item {
    return { ...this.defaults, ...options, lambda: this.name, payload };
  }

  /** Schedules one task. When it returns, the task is durable, and starts at its due time and never before. */
  async schedule(payload: P, options: TaskOptions = {}, o: CallSignal = {}): Promise<Scheduled> {
    return this.app.schedule(this.with(payload, options), o);
  }

  async scheduleMany(tasks: { payload: P; options?: TaskOptions }[], o: CallSignal = {}): Promise<(Scheduled | KinesinError)[]> {
    tasks.forEach((one, at) => {
      const fields = Object.keys(Object(one));
      if (fields.includes("payload") && fields.every((f) => f === "payload" || f === "options")) return;
      throw new TypeError(`task ${at} has the fields ${JSON.stringify(fields)}: want payload, and perhaps options`);
    });
    return this.app.scheduleMany(tasks.map((one) => this.with(one.payload, one.options)), o);
  }

  /** Creates the lambda if it does not exist; one that exists stays as it is. */
  async ensure(settings: Omit<LambdaSettings, "name"> = {}): Promise<LambdaInfo> {
    const { maxAttempts, timeout, backoffMin, backoffMax } = this.defaults;
    const given = Object.fromEntries(Object.entries({ maxAttempts, timeout, backoffMin, backoffMax }).filter(([, v]) => v !== undefined));
    return this.app.lambdas.ensure({ ...given, ...settings, name: this.name });
  }

  /** Names the newest task of the lambda with a key, wherever an id goes. */
  key(key: string): Name { return { lambda: this.name, key }; }
}

/** Returns a chain as one item: each step starts when the one before it has succeeded. */
export function chain(steps: Item[], o: { onFailure?: Item[]; finally?: Item[] } = {}): Item {
  let next: Item | undefined;
  for (const step of steps.slice().reverse()) {
    const rest = o.finally ?? [];
    const more = next
      ? { then: [...(step.then ?? []), next], else: [...(step.else ?? []), ...(o.onFailure ?? []), ...rest] }
      : { else: [...(step.else ?? []), ...(o.onFailure ?? [])], finally: [...(step.finally ?? []), ...rest] };
    next = { ...step, ...more };
  }
  if (!next) throw new TypeError("a chain has one step at least");
  return next;
}

function chainsOf(app: Kinesin) {
  const act = (verb: string) => (id: string): Promise<ChainChange> => app.call("POST", `/v1/chains/${part(id)}/${verb}`);
  return {
    /** Reads a chain by the id of any of its tasks. */
    get: (id: string): Promise<ChainInfo> => app.call("GET", `/v1/chains/${part(id)}`),
    cancel: act("cancel"), pause: act("pause"), resume: act("resume"), redrive: act("redrive"),
    extend: (id: string, startBefore: Time): Promise<ChainChange> => app.call("POST", `/v1/chains/${part(id)}/extend`, { startBefore }),
  };
}

function groupsOf(app: Kinesin) {
  const at = (id: string, more = "") => `/v1/groups/${part(id)}${more}`;
  /** Adds members to a group that has `have` of them, and returns how many it has then. The same call again changes nothing. */
  const add = async (id: string, have: number, items: Item[]): Promise<number> => {
    for (let from = 0; from < items.length; from += linesMax) {
      const some = items.slice(from, from + linesMax);
      const answer = await app.call<{ ids: string[] }>("POST", at(id, "/members"), { at: have, items: some });
      checkCount(answer.ids.length, some.length);
      have += some.length;
    }
    return have;
  };
  const create = (settings: Omit<GroupSettings, "requestId">): Promise<GroupInfo> => app.call("POST", "/v1/groups", { ...settings, requestId: requestId() });
  const seal = (id: string, members?: number): Promise<GroupInfo> => app.call("POST", at(id, "/seal"), members === undefined ? undefined : { members });
  return {
    create, add, seal,
    /** Makes a group, adds its members and seals it. */
    schedule: async (members: Item[], settings: Omit<GroupSettings, "requestId">): Promise<GroupInfo> => {
      const { id } = await create(settings);
      return seal(id, await add(id, 0, members));
    },
    get: (id: string): Promise<GroupInfo> => app.call("GET", at(id)),
    cancel: (id: string): Promise<GroupCancelled> => app.call("POST", at(id, "/cancel")),
    /** Lists members in their order, with their results. */
    members: async function* (id: string): AsyncGenerator<Member, void, void> {
      for (let from = 0, more = true; more; ) {
        const page = await app.call<{ members: Member[]; next?: number; more: boolean }>("GET", at(id, `/members${search({ from, limit: linesMax })}`));
        yield* page.members;
        [from, more] = [page.next ?? 0, page.more];
      }
    },
  };
}

function cronsOf(app: Kinesin) {
  const at = (name: string, more = "") => `/v1/crons/${part(name)}${more}`;
  return {
    /** Creates a cron; one with the same settings is returned as it is, and with others the error is Exists. */
    create: (settings: CronSettings): Promise<CronInfo> => app.call("POST", "/v1/crons", settings),
    get: (name: string): Promise<CronInfo> => app.call("GET", at(name)),
    list: async (lambda?: string): Promise<CronInfo[]> => (await app.call<{ crons: CronInfo[] }>("GET", `/v1/crons${search({ lambda })}`)).crons,
    /** Replaces all settings of the cron that was read at `version`. */
    update: (settings: CronSettings & { version: number }): Promise<CronInfo> => {
      const { name, ...rest } = settings;
      return app.call("PUT", at(name), rest);
    },
    delete: (name: string): Promise<object> => app.call("DELETE", at(name)),
    pause: (name: string, settings: CronPauseSettings): Promise<CronInfo> => app.call("POST", at(name, "/pause"), settings),
    resume: (name: string): Promise<CronInfo> => app.call("POST", at(name, "/resume")),
    /** Schedules a task as the cron would, now. */
    run: (name: string): Promise<{ id: string }> => app.call("POST", at(name, "/run"), { requestId: requestId() }),
    backfill: (name: string, settings: Omit<BackfillSettings, "requestId">): Promise<Job> => app.call("POST", at(name, "/backfill"), { ...settings, requestId: requestId() }),
    history: (name: string, o: { from?: string; to?: string; limit?: number } = {}): Promise<CronHistory> => app.call("GET", at(name, `/history${search(o)}`)),
  };
}

function lambdasOf(app: Kinesin) {
  return {
    /** Creates a lambda if it does not exist; one that exists stays as it is. */
    ensure: async (settings: LambdaSettings): Promise<LambdaInfo> => {
      try {
        return await app.call<LambdaInfo>("POST", "/v1/lambdas", settings);
      } catch (error) {
        if (!(error instanceof Exists)) throw error;
        return app.call("GET", `/v1/lambdas/${part(settings.name)}`);
      }
    },
    get: (name: string): Promise<LambdaInfo> => app.call("GET", `/v1/lambdas/${part(name)}`),
  };
}

const pageMax = 1000;
const linesMax = 1000;
const linesBytesMax = 4 << 20;
const setTimeoutMs = 600_000; // of calls that look at many tasks

/** Returns a name or an id as a part of a path. */
function part(text: string): string {
  if (typeof text !== "string" || text === "") throw new TypeError(`a name or an id is ${JSON.stringify(text)}: want text`);
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
}

function path(task: Name, more = "", query: Record<string, unknown> = {}): string {
  const at = typeof task === "string" ? `/v1/tasks/${part(task)}` : `/v1/lambdas/${part(task.lambda)}/keys/${part(task.key)}`;
  return at + more + search(query);
}

function search(query: Record<string, unknown>): string {
  const set = Object.entries(query).filter(([, v]) => v !== undefined && v !== "");
  return set.length > 0 ? `?${new URLSearchParams(set.map(([k, v]): [string, string] => [k, String(v)]))}` : "";
}
