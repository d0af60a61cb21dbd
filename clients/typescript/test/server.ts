// A real server for tests, which can be killed and started again on the same data, and a proxy before it.
import { type ChildProcess, spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Kinesin, type Options, type RunOptions } from "kinesin";

export class Server {
  url = "";
  #data = mkdtempSync(join(tmpdir(), "kinesin-ts-"));
  #process: ChildProcess | undefined;
  #port = 0;

  constructor(readonly args: string[] = []) {}

  async start(): Promise<this> {
    this.#port ||= await freePort();
    this.url = `http://127.0.0.1:${this.#port}`;
    const args = ["serve", "--data", this.#data, "--listen", `127.0.0.1:${this.#port}`, "--log-level", "warn", "--console=false", ...this.args];
    this.#process = spawn(process.env["KINESIN_BIN"] ?? "kinesin", args, { stdio: ["ignore", "ignore", "inherit"] });
    for (;;) {
      if (this.#process.exitCode !== null) throw new Error(`the server ended with code ${this.#process.exitCode}`);
      if (await fetch(`${this.url}/readyz`).then((r) => r.ok, () => false)) return this;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async kill(): Promise<void> {
    const ended = new Promise((resolve) => this.#process!.once("exit", resolve));
    this.#process!.kill("SIGKILL");
    await ended;
  }

  /** Deletes the data of a server that does not run. */
  wipe(): void {
    rmSync(this.#data, { recursive: true });
  }

  async close(): Promise<void> {
    if (this.#process?.exitCode === null && this.#process.signalCode === null) await this.kill();
    rmSync(this.#data, { recursive: true, force: true });
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const s = createNetServer().listen(0, "127.0.0.1", () => {
      const { port } = s.address() as AddressInfo;
      s.close(() => resolve(port));
    });
  });
}

/** Passes calls on. What `drop` and `cut` say is served, but its answer never comes, or its connection breaks. */
export async function proxyOf(t: TestContext, server: Server) {
  const calls = new EventEmitter();
  const proxy = {
    url: "", drop: (_path: string) => false, cut: (_path: string) => false, refuse: (_path: string) => false, seen: [] as { path: string; body: string }[],
    /** Waits for a heartbeat with a task, and returns its claims. */
    heartbeat: async (): Promise<string[]> => {
      for (;;) {
        const [{ path, body }] = await once(calls, "call");
        if (path === "/v1/work/heartbeat" && JSON.parse(body).running.length > 0) return JSON.parse(body).running;
      }
    },
  };
  const s = createServer((from, to) => {
    const path = from.url ?? "";
    if (proxy.refuse(path)) return void from.socket.destroy();
    const dropped = proxy.drop(path);
    let body = "";
    const on = request(server.url + path, { method: from.method, headers: from.headers }, (answer) => {
      if (dropped) return void answer.resume();
      if (proxy.cut(path)) return void from.socket.destroy();
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(to);
    });
    on.on("error", () => from.socket.destroy());
    to.on("close", () => on.destroy());
    from.on("data", (piece) => { body += piece; });
    from.on("end", () => {
      proxy.seen.push({ path, body });
      calls.emit("call", { path, body });
    });
    from.pipe(on);
  });
  await new Promise<void>((resolve) => s.listen(0, "127.0.0.1", resolve));
  proxy.url = `http://127.0.0.1:${(s.address() as AddressInfo).port}`;
  t.after(() => { s.closeAllConnections(); s.close(); });
  return proxy;
}

export interface LogLine { level: string; message: string; fields: Record<string, unknown> }

/** An app whose log is kept; `logged` waits for a line. */
export function appOf(url: string, options: Options = {}) {
  const lines: LogLine[] = [];
  const waiting = new Set<() => void>();
  const log = (level: string, message: string, fields: Record<string, unknown>) => {
    lines.push({ level, message, fields });
    for (const look of waiting) look();
  };
  const logged = (what: RegExp) => new Promise<LogLine>((resolve) => {
    const from = lines.length;
    const look = () => {
      const line = lines.slice(from).find((one) => what.test(one.message));
      if (line && waiting.delete(look)) resolve(line);
    };
    waiting.add(look);
  });
  return Object.assign(new Kinesin(url, { log, ...options }), { lines, logged });
}

/** Runs the worker of an app until the test ends, or until stop is called. */
export function work(t: TestContext, app: Kinesin, options: RunOptions = {}) {
  const end = new AbortController();
  const ended = app.run({ signal: end.signal, handleSignals: false, lease: "3s", grace: "2s", killAfter: "1s", ...options });
  ended.catch(() => {});
  const stop = async () => { end.abort(); await ended; };
  t.after(() => stop().catch(() => {}));
  return { stop, ended };
}

/** Compiles files below clients/typescript, as a user does. */
export async function compile(...args: string[]): Promise<void> {
  const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
  const flags = ["--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--types", "node"];
  const run = spawn(process.execPath, [tsc, ...flags, ...args], { stdio: "inherit" });
  const [code] = await once(run, "exit");
  if (code !== 0) throw new Error(`tsc ${args.join(" ")} failed`);
}

export function deferred<T = void>() {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((r) => { resolve = r; });
  return { promise, resolve };
}

/** Waits until the signal aborts, and throws its reason. */
export function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => (signal.aborted ? reject(signal.reason) : signal.addEventListener("abort", () => reject(signal.reason))));
}

/** Returns when something is so. */
export async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await is()); tries++) {
    if (tries > 500) throw new Error("not so after ten seconds");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
