// One call over HTTP, and its repetition. Nothing here needs Node.
import { maps } from "./api.js";
import {
  Exists, Fenced, Full, Internal, InUse, Invalid, KeyConflict, KinesinError, LeaseLost, NotFound, PermissionDenied, Registered, StaleSeq, Throttled, TooLarge,
  TooLate, Unauthenticated, Unavailable, UnknownLambda, Unsupported,
} from "./errors.js";

/** The servers over one store, of which one is used until it fails. */
export class Servers {
  #at = 0;
  #tokens = retryTokensMax; // the retry budget: a tenth of the calls, after a few to begin with

  constructor(readonly urls: readonly string[], readonly token: string | undefined, readonly tries: number, readonly callTimeoutMs: number) {}

  static parse(text: string): string[] {
    const urls = text.split(",").map((one) => new URL(/^[a-z]+:\/\//.test(one) ? one : `http://${one}`));
    const wrong = urls.find((url) => !/^https?:$/.test(url.protocol));
    if (wrong || urls.length > serversMax) throw new TypeError(`server ${text}: want 1 to ${serversMax} URLs with http or https`);
    return urls.map((url) => url.origin + url.pathname.replace(/\/$/, ""));
  }

  /** Makes one try of a call. */
  async once<T>(method: string, path: string, o: CallOptions = {}): Promise<T> {
    const url = this.urls[this.#at % this.urls.length] + path;
    const timeoutMs = o.timeoutMs ?? this.callTimeoutMs;
    const begun = performance.now();
    const end = new AbortController(); // AbortSignal.any would keep a long-lived signal's listeners for longer than the call
    const late = new Unavailable(`no answer within ${timeoutMs} ms`, { reason: "unavailable" });
    const timer = setTimeout(() => end.abort(late), timeoutMs);
    const stop = () => end.abort();
    o.signal?.addEventListener("abort", stop, { once: true });
    const headers: Record<string, string> = {};
    if (this.token) headers["authorization"] = `Bearer ${this.token}`;
    let body: string | undefined;
    if (o.lines) [body, headers["content-type"]] = [o.lines.join("\n"), "application/x-ndjson"];
    else if (o.body !== undefined) [body, headers["content-type"]] = [JSON.stringify(toWire(o.body)), "application/json"];
    try {
      o.signal?.throwIfAborted();
      const response = await fetch(url, { method, headers, signal: end.signal, redirect: "manual", ...(body === undefined ? {} : { body }) });
      const text = await response.text();
      if (performance.now() - begun > timeoutMs) throw late; // the program stood still, and its timers with it
      if (!response.ok) throw refusal(response.status, text);
      if (o.lines) return text.split("\n").filter(Boolean).map((line) => fromWire(JSON.parse(line))) as T;
      return fromWire(JSON.parse(text)) as T;
    } catch (error) {
      if (error instanceof KinesinError && !(error instanceof Unavailable)) throw error;
      if (o.signal?.aborted) throw o.signal.reason;
      this.#at = (this.#at + 1) % this.urls.length;
      if (error instanceof KinesinError) throw error;
      if (end.signal.aborted) throw late;
      if (error instanceof SyntaxError) throw new Unavailable("the answer is no JSON, or was cut off", { reason: "unavailable" });
      throw new Unavailable(`no server answered: ${causeOf(error)}`, { reason: "unavailable", cause: error });
    } finally {
      clearTimeout(timer);
      o.signal?.removeEventListener("abort", stop);
    }
  }

  /** Makes a call, again and again while no server answers, until its tries are used up. */
  async call<T>(method: string, path: string, o: CallOptions = {}): Promise<T> {
    return this.retry(() => this.once<T>(method, path, o), o.signal);
  }

  async retry<T>(once: (tries: number) => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#tokens = Math.min(this.#tokens + retryTokensPerCall, retryTokensMax);
    const begun = performance.now();
    for (let tries = 1; ; ) {
      try {
        return await once(tries);
      } catch (error) {
        const left = begun + patienceMs - performance.now();
        if (error instanceof Throttled && this.tries > 1) {
          const pause = Math.max(error.retryAfterMs ?? 0, 10);
          if (pause >= left) throw error;
          await sleep(pause, signal);
          continue;
        }
        if (!(error instanceof Unavailable) || tries >= this.tries) throw error;
        let pause = backoff(tries++, 50, 2_000);
        if (this.#tokens >= 1) this.#tokens--;
        else if ((pause = backoff(tries, 1_000, 8_000)) >= left) throw error;
        await sleep(pause, signal);
      }
    }
  }
}

export interface CallOptions { body?: unknown; lines?: string[]; timeoutMs?: number; signal?: AbortSignal | undefined }

const serversMax = 16;
const retryTokensMax = 20;
const retryTokensPerCall = 0.1;
const patienceMs = 10_000; // for a quota, and beyond the retry budget

function refusal(status: number, text: string): KinesinError {
  let problem: Record<string, unknown> = {};
  try {
    problem = fromWire(JSON.parse(text)) as Record<string, unknown>;
  } catch {} // a proxy answers with anything
  if (!problem["reason"] && [429, 502, 503, 504].includes(status)) problem = { ...problem, reason: "unavailable" };
  return errorOf({ ...problem, status });
}

function causeOf(error: unknown): string {
  const cause = (error as { cause?: { code?: string; message?: string } })?.cause;
  return cause?.code ?? cause?.message ?? String(error);
}

/** Returns the pause after n failures, at random between the shortest and a bound that doubles. */
export function backoff(n: number, minMs: number, maxMs: number): number {
  return minMs + Math.random() * (Math.min(minMs * 2 ** n, maxMs) - minMs);
}

/** Waits, and fails with the reason of the signal if that comes first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => { clearTimeout(timer); reject(signal?.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); resolve(); }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Returns a UUIDv7: with it, a call that is repeated does no more. */
export function requestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  new DataView(bytes.buffer).setBigUint64(0, (BigInt(Date.now()) << 16n) | 0x7000n | BigInt(((bytes[6]! & 15) << 8) | bytes[7]!));
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** Returns a value as the API has it: names with underscores, times as text, bytes in base64. */
export function toWire(value: unknown): unknown {
  return walk(value, (key) => key.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), (key, v) => (v instanceof Uint8Array ? [`${key}_base64`, base64(v)] : [key, v]));
}

/** Returns a value of the API as programs have it. */
export function fromWire(value: unknown): unknown {
  return walk(value, (key) => key.replace(/_([a-z0-9])/g, (_, c: string) => c.toUpperCase()), (key, v) => [key, v]);
}

function walk(value: unknown, rename: (key: string) => string, own: (key: string, v: unknown) => [string, unknown]): unknown {
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map((one) => walk(one, rename, own));
  if (typeof value !== "object" || value === null) return value;
  const out: Record<string, unknown> = {};
  for (const [key, v] of Object.entries(value)) {
    const form = /^(payload|result)(_text|_base64)?$/.exec(key);
    if (form) {
      const [name, given] = own(form[1]!, form[2] === "_base64" ? bytesOf(v as string) : v);
      out[name] = given;
    } else out[rename(key)] = (maps.has(key) || maps.has(rename(key))) && !Array.isArray(v) ? v : walk(v, rename, own);
  }
  return out;
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** Refuses an answer that is not as long as it has to be. */
export function checkCount(have: number, want: number): void {
  if (have !== want) throw new Internal(`the server answered for ${have} of ${want} tasks`, { reason: "internal" });
}

const byReason: Record<string, typeof KinesinError> = {
  invalid: Invalid, unknown_lambda: UnknownLambda, not_found: NotFound, key_conflict: KeyConflict, too_late: TooLate, too_large: TooLarge,
  full: Full, throttled: Throttled, unavailable: Unavailable, lease_lost: LeaseLost, fenced: Fenced, exists: Exists, in_use: InUse,
  unsupported: Unsupported, internal: Internal, unauthenticated: Unauthenticated, registered: Registered,
  permission_denied: PermissionDenied, stale_seq: StaleSeq,
};

/** Returns the error of a problem that a server sent. */
export function errorOf(problem: { reason?: string; detail?: string; title?: string; status?: number; retryAfter?: string }): KinesinError {
  const reason = problem.reason ?? "";
  const retryAfterMs = problem.retryAfter === undefined ? {} : { retryAfterMs: millis(problem.retryAfter) };
  return new (byReason[reason] ?? KinesinError)(problem.detail || problem.title || `HTTP ${problem.status}`, { reason, status: problem.status ?? 0, ...retryAfterMs });
}

const unitMillis: Record<string, number> = { w: 6048e5, d: 864e5, h: 36e5, m: 6e4, s: 1e3, ms: 1, us: 1e-3, µs: 1e-3, μs: 1e-3, ns: 1e-6 };

/** Returns the milliseconds of a duration such as "1m30s". */
export function millis(text: string): number {
  if (!/^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w))+)$/.test(text)) throw new TypeError(`duration "${text}": want such as 500ms, 90s, 1h30m or 3d`);
  let sum = 0;
  for (const [, n, unit] of text.matchAll(/([\d.]+)(ms|us|µs|μs|ns|w|d|h|m|s)/g)) sum += Number(n) * unitMillis[unit!]!;
  return text.startsWith("-") ? -sum : sum;
}
