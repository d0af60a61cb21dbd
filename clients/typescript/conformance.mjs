// The adapter of the conformance suite (clients/conformance): commands come on stdin, answers and events go to stdout, each a JSON
// object on a line. It uses what the package exports, and nothing else.
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { Cancelled, chain, Draining, Fatal, Fenced, Kinesin, KinesinError, LeaseLost, Release, Snooze, TimedOut } from "./dist/index.js";

const server = process.env.KINESIN_SERVER;
const app = new Kinesin(server);
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** Returns a task as the client has it. */
function itemOf({ lambda, at, conflict, then, payload_text, payload_base64, ...rest }) {
  const item = { lambda };
  for (const [key, value] of Object.entries(rest)) item[key.replace(/_([a-z])/g, (_, c) => c.toUpperCase())] = value;
  if (at !== undefined) item.due = at;
  if (conflict !== undefined) item.onConflict = conflict;
  if (then !== undefined) item.then = then.map(itemOf);
  if (payload_text !== undefined) item.payload = payload_text;
  if (payload_base64 !== undefined) item.payload = new Uint8Array(Buffer.from(payload_base64, "base64"));
  return item;
}

const nameOf = ({ id, lambda, key }) => id ?? { lambda, key };
const whenOf = ({ delay, at }) => ({ ...(delay === undefined ? {} : { delay }), ...(at === undefined ? {} : { due: at }) });
const viewOf = ({ id, state, attempt, attempts, failures, due, key, priority, tags, result }) => ({
  id, state, attempts: attempt, failures, due, key, priority, tags, error: attempts.at(-1)?.error, ...valueOf("result", result),
});
const valueOf = (name, value) => (value instanceof Uint8Array ? { [`${name}_base64`]: Buffer.from(value).toString("base64") } : { [name]: value });

const commands = {
  async schedule(args) {
    const { id, duplicate, replaced } = await app.schedule(itemOf(args));
    return { id, created: !duplicate && !replaced };
  },
  async batch({ tasks }) {
    const results = await app.scheduleMany(tasks.map(itemOf));
    return { tasks: results.map((r) => (r instanceof Error ? { reason: r.reason } : { id: r.id })) };
  },
  async get(args) {
    const info = await app.get(nameOf(args), { payload: true });
    return { ...viewOf(info), ...valueOf("payload", info.payload) };
  },
  async wait({ timeout = "30s", ...args }) {
    return viewOf(await app.wait(nameOf(args), { signal: AbortSignal.timeout(millis(timeout)) }));
  },
  cancel: async (args) => ({ state: (await app.cancel(nameOf(args))).outcome }),
  reschedule: async (args) => ({ state: (await app.reschedule(nameOf(args), whenOf(args))).state }),
  cron: async ({ name, lambda, schedule, payload }) => ({ name: (await app.crons.create({ name, lambda, schedule, payload })).name }),
  delete_cron: async ({ name }) => app.crons.delete(name).then(() => ({})),
  group: async ({ tasks, then }) => ({ id: (await app.groups.schedule(tasks.map(itemOf), then ? { then: then.map(itemOf) } : {})).id }),
  chain: async ({ tasks }) => ({ id: (await app.schedule(chain(tasks.map(itemOf)))).id }),
  work,
  stop,
};

let worker; // { end, ended }

/** Runs a worker; returns once it is registered. */
async function work({ lambdas, ...options }) {
  if (worker) throw new Error("a worker runs already");
  const end = new AbortController();
  let registered;
  const ready = new Promise((resolve) => { registered = resolve; });
  const log = (level, message, fields) => {
    if (message.startsWith("lease lost")) say({ event: "lease_lost" });
    if (level !== "info") console.error(message, JSON.stringify(fields));
  };
  const onRegister = () => { say({ event: "registered" }); registered(); };
  const own = new Kinesin(server, { log });
  for (const lambda of lambdas) own.handler(lambda, handle);
  const ended = own.run({ ...options, signal: end.signal, onRegister, handleSignals: false });
  worker = { end, ended };
  await Promise.race([ready, ended]);
  return {};
}

async function stop() {
  const { end, ended } = worker ?? {};
  worker = undefined;
  end?.abort();
  await ended;
  return {};
}

/** Runs the script of a payload, and says how it ended. A payload that is no script is the result. */
async function handle({ id, attempt, payload }, signal) {
  say({ event: "start", task: id, attempt, at: Date.now() });
  let how = "success";
  try {
    if (!payload?.steps && !payload?.attempts) return payload;
    for (const step of payload.attempts?.[attempt] ?? payload.steps ?? []) {
      if (step.sleep) await pause(millis(step.sleep), undefined, { signal });
      if (step.until) await new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", resolve)));
      signal.throwIfAborted();
      if (step.end) {
        how = step.end;
        return end(step);
      }
    }
  } catch (error) {
    if (signal.aborted) {
      how = stops.find(([reason]) => signal.reason instanceof reason)?.[1] ?? "fail";
      throw signal.reason;
    }
    throw error;
  } finally {
    say({ event: "end", task: id, attempt, at: Date.now(), how });
  }
}

const stops = [[Cancelled, "cancelled"], [LeaseLost, "lease_lost"], [TimedOut, "timeout"], [Fenced, "fenced"], [Draining, "draining"]];

function end(step) {
  switch (step.end) {
    case "success": return step.result;
    case "fatal": throw new Fatal(step.error);
    case "snooze": throw new Snooze(step.delay);
    case "release": throw new Release(step.error ?? "released");
    default: throw new Error(step.error);
  }
}

function millis(text) {
  const [, n, unit] = /^([\d.]+)(ms|s|m)$/.exec(text);
  return Number(n) * { ms: 1, s: 1_000, m: 60_000 }[unit];
}

for await (const line of createInterface({ input: process.stdin })) {
  const { n, do: name, args } = JSON.parse(line);
  Promise.resolve(args ?? {}).then(commands[name] ?? (() => { throw new Error(`no command ${name}`); })).then(
    (ok) => say({ n, ok }),
    (error) => say({ n, error: { reason: error instanceof KinesinError ? error.reason : error.name === "TimeoutError" ? "timeout" : "", message: error.message } }),
  );
}
await stop();
