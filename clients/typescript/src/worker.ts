// The worker: claims tasks, runs their handlers, reports how they ended. One session lasts as long as its lease.
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";
import type { Claimed, GroupEnd, GroupMember, Item, Lease, Occurrence, Parent, Result, ResultAck } from "./api.js";
import { backoff, errorOf, millis, sleep } from "./call.js";
import {
  Abandoned, Cancelled, Draining, Fatal, Fenced, Invalid, type KinesinError, LeaseLost, PermissionDenied, Release, Snooze, TimedOut, TooLarge, Unauthenticated,
  Unavailable, UnknownLambda, Unsupported,
} from "./errors.js";
import { type FromMain, type HeartbeatData, mono, monotonicMs, offset, type ToMain, wall } from "./heartbeat.js";
import type { Handler, Kinesin, Log } from "./index.js";

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
export interface Registration { handle: Handler<unknown>; concurrency: number | undefined; ensure: () => Promise<unknown> }

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

interface Pool { lambdas: string[]; free: number; freed: () => void }
interface Attempt {
  claim: string; work: Claimed; pool: Pool; state: "held" | "running" | "ended"; abort: AbortController;
  cancelTimer: () => void; startedMs: number; result: Result | undefined; bytes: number; sent: boolean; dropped: boolean;
}

const claimWaitMs = 20_000;
const claimWaitAgainMs = 1_000; // after a claim that failed: the next connection may be half-open, too
const claimLateMs = 4_000; // what comes later must not be started
const claimMax = 1_000;
const resultsMax = 1_000; // in a call
const resultsBytesMax = 2 << 20; // in a call
const resultBytesMax = 32 << 10;
const keptMax = 10_000; // results that outlive their lease
const flushWithinMs = 10_000;
const errorCharsMax = 4_096;
const refusals = [Invalid, Unsupported, Unauthenticated, PermissionDenied]; // that no repetition of a registration changes

/** Runs the handlers of an app until it is told to stop. */
export async function run(app: Kinesin, options: RunOptions): Promise<void> {
  if (app.registrations.size === 0) throw new TypeError("no handler is set: want one at least");
  for (const duration of [options.grace, options.killAfter]) if (duration) millis(duration); // refuses a bad one now
  const stop = new AbortController();
  const onStop = () => stop.abort(new Draining("the worker is stopping"));
  const onSignal = () => { unlisten(); onStop(); }; // then a second one ends the process
  const unlisten = () => { for (const name of ["SIGTERM", "SIGINT"]) process.off(name, onSignal); };
  if (options.handleSignals !== false) for (const name of ["SIGTERM", "SIGINT"]) process.on(name, onSignal);
  options.signal?.addEventListener("abort", onStop, { once: true });
  if (options.signal?.aborted) onStop();
  try {
    let lost: Session | undefined;
    for (let losses = 1; !stop.signal.aborted; losses++) {
      const session = await register(app, options, stop.signal, lost);
      if (!session || !(await session.run(stop.signal))) return;
      lost = session;
      await sleep(backoff(losses, 100, 5_000), stop.signal).catch(() => {});
    }
  } finally {
    unlisten();
    options.signal?.removeEventListener("abort", onStop);
  }
}

/** Opens a lease, and gives up the one before. Tries until a server answers and one of the lambdas exists. */
async function register(app: Kinesin, o: RunOptions, stop: AbortSignal, lost: Session | undefined): Promise<Session | undefined> {
  const log = logOf(app);
  const pools: Pool[] = [];
  const shared: Pool = { lambdas: [], free: o.slots ?? 100, freed: () => {} };
  for (const [name, { concurrency }] of app.registrations) {
    if (concurrency === undefined) shared.lambdas.push(name);
    else pools.push({ lambdas: [name], free: concurrency, freed: () => {} });
  }
  if (shared.lambdas.length > 0) pools.push(shared);
  const groups = pools.map((p) => ({ lambdas: p.lambdas, slots: p.free }));
  const wrong = groups.find((g) => !Number.isInteger(g.slots) || g.slots < 1);
  if (wrong) throw new Invalid(`${wrong.slots} slots: want 1 or more`, { reason: "invalid" });
  const body = { name: o.name ?? `${hostname()}-${process.pid}`, version: o.version, lease: o.lease, groups, previous: lost?.previous() };
  for (let failures = 0; !stop.aborted; ) {
    const lease = new Float64Array(new SharedArrayBuffer(24));
    const sent = [monotonicMs(), Date.now()] as const;
    try {
      const r = await app.servers.once<Lease & { acks: ResultAck[]; missing: string[] }>("POST", "/v1/work/register", { body, signal: stop });
      if (r.missing.length > 0) await create(app, log);
      for (const ack of r.acks) if (ack.problem) log("warn", "result of the lost lease refused", { claim: ack.claim, reason: ack.problem.reason });
      const session = new Session(app, o, r, pools, lease);
      [lease[mono], lease[wall]] = [sent[0] + session.validMs, sent[1] + session.validMs];
      return session;
    } catch (error) {
      if (stop.aborted) return undefined;
      if (body.previous && (error instanceof Invalid || error instanceof TooLarge)) {
        log("error", "results of the lost lease refused; their tasks run again", { results: body.previous.results.length, error: String(error) });
        body.previous = undefined;
        continue;
      }
      if (refusals.some((refusal) => error instanceof refusal)) throw error;
      const created = error instanceof UnknownLambda && await create(app, log);
      if (failures++ === 0 && created) continue;
      if (failures % 20 === 1) log("warn", error instanceof UnknownLambda ? "no lambda of this worker exists yet; waiting" : "register failed; trying again", { error: String(error) });
      await sleep(backoff(failures, 100, error instanceof UnknownLambda ? 2_000 : 5_000), stop).catch(() => {});
    }
  }
  return undefined;
}

/** Creates the lambdas that are missing, and returns whether it could. If not, their tasks run once somebody else has. */
async function create(app: Kinesin, log: Log): Promise<boolean> {
  try {
    await app.ensure();
    return true;
  } catch (error) {
    log("warn", "lambdas of this worker do not exist, and were not created", { error: String(error) });
    return false;
  }
}

/** What a worker does under one lease. */
class Session {
  readonly #log: Log;
  readonly #attempts = new Map<string, Attempt>();
  readonly #over = new AbortController(); // nothing is claimed or started any more
  readonly #gone = new AbortController(); // the lease is lost
  #polls = new AbortController(); // the claims that wait are broken off
  readonly #leaseMs: number;
  readonly validMs: number;
  readonly #marginMs: number;
  #outbox: Attempt[] = [];
  #sending = false;
  #running = 0;
  #progress = () => {}; // called when a handler has returned, or a result is acknowledged
  #thread: Thread | undefined;
  #kept: Result[] = [];

  constructor(readonly app: Kinesin, readonly options: RunOptions, readonly lease: Lease, readonly pools: Pool[], readonly clocks: Float64Array) {
    this.#log = logOf(app);
    this.#over.signal.addEventListener("abort", () => { this.#breakOff(); pools.forEach((pool) => pool.freed()); });
    this.#leaseMs = millis(lease.lease);
    this.#marginMs = Math.min(2_000, this.#leaseMs / 5); // for handlers to stop before the lease is over
    this.validMs = (this.#leaseMs - this.#marginMs) * 0.999; // clocks may run apart
  }

  /** Works until it is told to stop, and returns false; or until the lease is lost and nothing runs any more, and returns true. */
  async run(stop: AbortSignal): Promise<boolean> {
    const claims = this.#claimAll(this.#startHeartbeats());
    try {
      await Promise.race([aborted(stop), aborted(this.#gone.signal)]);
      const abandoned = this.#gone.signal.aborted ? 0 : await this.#drain();
      if (this.#gone.signal.aborted) {
        await this.#afterLoss();
        return true;
      }
      if (abandoned > 0) throw new Abandoned(`${abandoned} handlers still ran when the worker had to stop: end the process`);
      return false;
    } finally {
      this.#over.abort();
      this.#gone.abort();
      await claims;
      await this.#thread?.terminate();
    }
  }

  /** The lost lease, with the results that no server has acknowledged. */
  previous() {
    return { worker: this.lease.worker, proof: this.lease.proof, results: this.#kept.slice(0, keptMax) };
  }

  /** Returns when a heartbeat was accepted: if connections become half-open later, then so does that of the heartbeats. */
  #startHeartbeats(): Promise<void> {
    const { servers } = this.app;
    const workerData: HeartbeatData = {
      urls: servers.urls, token: servers.token, worker: this.lease.worker, everyMs: millis(this.lease.heartbeat), validMs: this.validMs, marginMs: this.#marginMs,
      kill: this.options.exit === undefined, lease: this.clocks.buffer as SharedArrayBuffer,
    };
    this.#thread = new Thread(new URL("./heartbeat.js", import.meta.url), { workerData, execArgv: [], stdin: false });
    let accepted = () => {};
    this.#thread.on("message", (m: ToMain) => {
      if ("lost" in m) return this.#lose(m.lost);
      if ("failed" in m) {
        if (m.failures % 20 === 1) this.#log("warn", "heartbeat failed; trying again", { error: m.failed });
        if (!m.answered) this.#breakOff();
        return;
      }
      accepted();
      for (const claim of m.cancels) this.#cancel(this.#attempts.get(claim));
      for (const claim of m.fenced) this.#fence(this.#attempts.get(claim));
    });
    this.#thread.on("error", (error) => this.#lose(`the thread of the heartbeats failed: ${error}`));
    return new Promise((resolve) => { accepted = resolve; });
  }

  /** Ends the claims that wait. Their connections may be half-open when a heartbeat had no answer. */
  #breakOff(): void {
    const polls = this.#polls;
    this.#polls = new AbortController();
    polls.abort(new Unavailable("broken off, since a heartbeat had no answer", { reason: "unavailable" }));
  }

  #tell(message: FromMain): void { this.#thread?.postMessage(message); }

  /** Reports whether the lease holds at this moment, by both clocks. */
  #holds(): boolean {
    return !this.#gone.signal.aborted && monotonicMs() < this.clocks[mono]! && Date.now() < this.clocks[wall]!;
  }

  async #claimAll(ready: Promise<void>): Promise<void> {
    await Promise.race([ready, aborted(this.#over.signal)]);
    if (this.#over.signal.aborted) return;
    this.#log("info", "worker registered", { worker: this.lease.worker, lease: this.lease.lease });
    this.options.onRegister?.();
    await Promise.all(this.pools.map((pool) => this.#claim(pool)));
  }

  /** Claims tasks of a pool for its free slots, and no more. */
  async #claim(pool: Pool): Promise<void> {
    const over = this.#over.signal;
    for (let failures = 0; !over.aborted; ) {
      if (pool.free < 1) {
        await new Promise<void>((resolve) => { pool.freed = resolve; });
        continue;
      }
      if (!this.#holds()) { // what it got now, it would give back
        await sleep(100, over).catch(() => {});
        continue;
      }
      try {
        const waitMs = failures > 0 ? claimWaitAgainMs : claimWaitMs;
        const again = failures > 0 ? { again: true, running: [...this.#attempts.keys()] } : {}; // what a lost answer had comes back at once
        const body = { worker: this.lease.worker, lambdas: pool.lambdas, limit: Math.min(pool.free, claimMax), wait: `${waitMs}ms`, ...again };
        const { tasks } = await this.app.servers.once<{ tasks: Claimed[] }>("POST", "/v1/work/claim", { body, timeoutMs: waitMs + claimLateMs, signal: this.#polls.signal });
        failures = 0;
        for (const work of tasks) this.#take(pool, work);
      } catch (error) {
        if (over.aborted) return;
        if (error instanceof LeaseLost) return this.#lose("the server says so");
        if (failures++ % 20 === 0) this.#log("warn", "claim failed; trying again", { error: String(error) });
        await sleep(backoff(failures, 100, 5_000), over).catch(() => {});
      }
    }
  }

  #take(pool: Pool, work: Claimed): void {
    const a: Attempt = {
      claim: work.claim, work, pool, state: "held", abort: new AbortController(), cancelTimer: () => {}, startedMs: 0, result: undefined, bytes: 0, sent: false, dropped: false,
    };
    this.#attempts.set(a.claim, a);
    this.#tell({ hold: a.claim });
    pool.free--;
    const holdMs = millis(work.hold);
    if (this.#over.signal.aborted) this.#giveBack(a, { outcome: "released" });
    else if (holdMs > 0) a.cancelTimer = after(holdMs + 1, () => this.#start(a)); // a timer may be early by a millisecond
    else this.#start(a);
  }

  /** Ends an attempt that has not started. */
  #giveBack(a: Attempt, result: Omit<Result, "claim">): void {
    a.cancelTimer();
    this.#freeSlot(a.pool);
    this.#end(a, result);
  }

  #start(a: Attempt): void {
    if (!this.#holds()) return this.#giveBack(a, { outcome: "released", error: "the worker's lease was over before it started" });
    a.state = "running";
    this.#running++;
    a.startedMs = Math.max(Date.now() + this.clocks[offset]!, Date.parse(a.work.due));
    const timeoutMs = a.work.timeout ? millis(a.work.timeout) : 0;
    a.cancelTimer = timeoutMs > 0 ? after(timeoutMs, () => a.abort.abort(new TimedOut(`timed out after ${a.work.timeout}`))) : () => {};
    void this.#execute(a, timeoutMs).then((result) => {
      a.cancelTimer();
      this.#running--;
      this.#freeSlot(a.pool);
      if (a.dropped) this.#forget(a);
      else this.#end(a, { ...result, started: new Date(a.startedMs) });
      this.#progress();
    });
  }

  #freeSlot(pool: Pool): void {
    pool.free++;
    pool.freed();
  }

  async #execute(a: Attempt, timeoutMs: number): Promise<Omit<Result, "claim">> {
    const { signal } = a.abort;
    const add: Item[] = [];
    const { claim: _, hold: __, prompt: ___, timeout: ____, blob, ...work } = a.work as Claimed & { blob?: unknown };
    const task: Task<unknown> = {
      ...work, payload: work.payload, tags: work.tags ?? {}, created: new Date(work.created), due: new Date(work.due),
      latenessMs: Math.max(0, a.startedMs - Date.parse(work.due)), ...(timeoutMs > 0 ? { deadline: new Date(Date.now() + timeoutMs) } : {}),
      addThen: (...items) => void add.push(...items),
    };
    try {
      if (blob) throw new Error("the payload is in a place for large payloads, which this client does not read");
      let next = async (): Promise<unknown> => this.app.registrations.get(work.lambda)?.handle(task, signal);
      for (const middleware of this.app.middleware.slice().reverse()) {
        const inner = next;
        next = async () => middleware(task, signal, inner);
      }
      const result = await next();
      a.bytes = result instanceof Uint8Array ? result.length : Buffer.byteLength(JSON.stringify(result) ?? "");
      if (a.bytes > resultBytesMax) throw new Error(`the result has ${a.bytes} bytes: want at most ${resultBytesMax}`);
      return { outcome: "success", ...(result === undefined ? {} : { result }), ...(add.length > 0 ? { add: { then: add } } : {}) };
    } catch (error) {
      return outcomeOf(error, signal.reason);
    }
  }

  /** Has the result of an attempt sent. Until it is acknowledged, heartbeats name the attempt. */
  #end(a: Attempt, result: Omit<Result, "claim">): void {
    [a.state, a.result] = ["ended", { claim: a.claim, ...result }];
    if (this.#gone.signal.aborted) return this.#keep(a);
    this.#outbox.push(a);
    if (!this.#sending) void this.#send();
  }

  #forget(a: Attempt): void {
    this.#attempts.delete(a.claim);
    this.#tell({ drop: a.claim });
    this.#progress();
  }

  /** Sends results as long as there are some; those that come meanwhile go together in the next call. */
  async #send(): Promise<void> {
    this.#sending = true;
    await Promise.resolve(); // what ends in this turn goes together
    for (let [failures, most] = [0, resultsMax]; this.#outbox.length > 0 && !this.#gone.signal.aborted; ) {
      let bytes = 0;
      const some = this.#outbox.filter((a, i) => i < most && ((bytes += a.bytes) <= resultsBytesMax || i === 0));
      this.#outbox = this.#outbox.filter((a) => !some.includes(a));
      for (const a of some) a.sent = true;
      try {
        const body = { worker: this.lease.worker, results: some.map((a) => a.result) };
        const { acks } = await this.app.servers.once<{ acks: ResultAck[] }>("POST", "/v1/work/results", { body, signal: this.#gone.signal });
        const refused = new Map(acks.filter((ack) => ack.problem).map((ack) => [ack.claim, errorOf(ack.problem!)]));
        for (const a of some) this.#acknowledged(a, refused.get(a.claim));
        [failures, most] = [0, resultsMax];
        if (refused.size > 0 && this.#outbox.length > 0) await sleep(100, this.#gone.signal).catch(() => {});
      } catch (error) {
        if (this.#gone.signal.aborted) { for (const a of some) this.#keep(a); break; }
        if (error instanceof LeaseLost) {
          this.#outbox.unshift(...some);
          this.#lose("the server says so");
          break;
        }
        if ((error instanceof Invalid || error instanceof TooLarge) && some.length === 1) refuse(some[0]!, error);
        else if (error instanceof Invalid || error instanceof TooLarge) most = 1;
        else if (failures++ % 20 === 0) this.#log("warn", "sending results failed; trying again", { results: some.length, error: String(error) });
        for (const a of some) a.sent = false;
        this.#outbox.unshift(...some);
        await sleep(failures > 0 ? backoff(failures, 100, 2_000) : 0, this.#gone.signal).catch(() => {});
      }
    }
    this.#sending = false;
  }

  #acknowledged(a: Attempt, refusal: KinesinError | undefined): void {
    const malformed = refusal instanceof Invalid && a.result!.outcome !== "fatal_failure";
    if (malformed) refuse(a, refusal);
    if (malformed || refusal instanceof Unavailable) {
      a.sent = false;
      this.#outbox.push(a);
      return;
    }
    if (refusal) this.#log("warn", "result refused", { id: a.work.id, attempt: a.work.attempt, error: refusal.message });
    this.#forget(a);
  }

  #cancel(a: Attempt | undefined): void {
    if (a?.state === "running") a.abort.abort(new Cancelled("the task was cancelled"));
    else if (a?.state === "held") this.#giveBack(a, { outcome: "cancelled" });
  }

  /** Stops an attempt that no longer owns its task, and drops its result: an earlier try may have stored it. */
  #fence(a: Attempt | undefined): void {
    if (!a || a.sent || a.dropped) return;
    a.dropped = true;
    if (a.state === "running") {
      this.#log("warn", "attempt fenced: another attempt owns the task", { id: a.work.id, attempt: a.work.attempt });
      return a.abort.abort(new Fenced("another attempt owns the task", { reason: "fenced" }));
    }
    a.cancelTimer();
    if (a.state === "held") this.#freeSlot(a.pool);
    this.#outbox = this.#outbox.filter((other) => other !== a);
    this.#forget(a);
  }

  /** Gives the lease up: handlers stop first, and what did not run is kept for the next registration. */
  #lose(why: string): void {
    if (this.#gone.signal.aborted) return;
    this.#log("error", "lease lost; stopping its tasks", { reason: why, running: this.#running });
    const reason = new LeaseLost(`the worker lost its lease: ${why}`, { reason: "lease_lost" });
    for (const a of this.#attempts.values()) if (a.state === "running") a.abort.abort(reason);
    this.#gone.abort(reason);
    this.#over.abort(reason);
    for (const a of this.#outbox) this.#keep(a);
    for (const a of this.#attempts.values()) if (a.state === "held") this.#giveBack(a, { outcome: "released", error: "the worker's lease was lost before it started" });
    this.#progress();
  }

  /** Keeps a result for the next registration. An attempt that was stopped has none: nobody knows what it did. */
  #keep(a: Attempt): void {
    const r = a.result!;
    const stopped = a.abort.signal.reason instanceof LeaseLost && !["success", "fatal_failure"].includes(r.outcome);
    if (!stopped && !this.#kept.some((other) => other.claim === r.claim)) this.#kept.push(r);
    this.#forget(a);
  }

  async #afterLoss(): Promise<void> {
    if (await this.#await(() => this.#running === 0, this.#marginMs * 0.8)) return;
    this.#log("error", "handlers go on without a lease; the process must end", { running: this.#running });
    const exit = this.options.exit ?? process.exit;
    exit(1);
    throw new LeaseLost(`the worker lost its lease, and ${this.#running} handlers go on: end the process`, { reason: "lease_lost" });
  }

  /** Takes nothing new, lets handlers go on for the grace, then tells them to stop; returns how many do not. */
  async #drain(): Promise<number> {
    const { options: o } = this;
    const gone = this.#gone.signal;
    this.#log("info", "worker draining", { running: this.#running });
    this.#over.abort();
    for (const a of this.#attempts.values()) if (a.state === "held") this.#giveBack(a, { outcome: "released" });
    if (!(await this.#await(() => this.#running === 0, millis(o.grace ?? "25s"))) && !gone.aborted) {
      for (const a of this.#attempts.values()) if (a.state === "running") a.abort.abort(new Draining("the worker is stopping"));
      await this.#await(() => this.#running === 0, millis(o.killAfter ?? "5s"));
    }
    const abandoned = gone.aborted ? [] : [...this.#attempts.values()].filter((a) => a.state === "running" && !a.dropped);
    for (const a of abandoned) { // away from other workers until this process has ended
      a.dropped = true;
      a.cancelTimer();
      this.#end({ ...a, dropped: false }, { outcome: "snoozed", delay: "500ms", error: "the handler did not stop when the worker did", started: new Date(a.startedMs) });
    }
    const clean = await this.#await(() => this.#outbox.length === 0 && !this.#sending, Math.min(flushWithinMs, this.#leaseMs));
    if (gone.aborted) return 0;
    if (!clean) this.#log("warn", "worker stopping with results that were not acknowledged", { results: this.#attempts.size });
    else await this.app.servers.once("POST", "/v1/work/leave", { body: { worker: this.lease.worker }, timeoutMs: 2_000 }).catch((error) => this.#log("warn", "leave failed; the lease runs out by itself", { error: String(error) }));
    return abandoned.length;
  }

  /** Waits until something is so, the time is over or the lease is lost, and returns whether it is so. */
  async #await(isSo: () => boolean, withinMs: number): Promise<boolean> {
    const end = monotonicMs() + withinMs;
    const wasGone = this.#gone.signal.aborted;
    while (!isSo() && monotonicMs() < end && (wasGone || !this.#gone.signal.aborted)) {
      await new Promise<void>((resolve) => {
        const cancel = after(Math.max(1, end - monotonicMs()), resolve);
        this.#progress = () => { cancel(); resolve(); };
      });
    }
    return isSo();
  }
}

/** Has an attempt end as fatal_failure, since no server takes its result, such as for a follow-up. */
function refuse(a: Attempt, error: KinesinError): void {
  a.result = { claim: a.claim, outcome: "fatal_failure", error: `the result was refused: ${error.detail}`, started: new Date(a.startedMs) };
  a.bytes = 0;
}

/** Returns how an attempt ended whose handler threw, given the reason with which it had been stopped. */
function outcomeOf(error: unknown, reason: unknown): Omit<Result, "claim"> {
  const text = String(error).slice(-errorCharsMax);
  if (error instanceof Fatal) return { outcome: "fatal_failure", error: error.message.slice(-errorCharsMax) };
  if (error instanceof Release) return { outcome: "released", error: error.message };
  if (reason instanceof Cancelled) return { outcome: "cancelled", error: text };
  if (reason instanceof Draining) return { outcome: "released", error: reason.message };
  if (reason instanceof TimedOut) return { outcome: "retriable_failure", error: error === reason ? reason.message : `${reason.message}: ${text}` };
  if (error instanceof Snooze) return { outcome: "snoozed", delay: error.delay, error: error.message };
  return { outcome: "retriable_failure", error: text };
}

function logOf(app: Kinesin): Log {
  return app.options.log ?? ((level, message, fields) => console.error(`kinesin: ${level}: ${message}`, JSON.stringify(fields)));
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve(), { once: true })));
}

/** Calls f after so long, which may be longer than a timer of Node can be; returns what cancels it. */
function after(ms: number, f: () => void): () => void {
  const most = 2 ** 31 - 1;
  let timer = setTimeout(() => (ms > most ? (cancel = after(ms - most, f)) : f()), Math.min(ms, most));
  let cancel = () => clearTimeout(timer);
  return () => cancel();
}
