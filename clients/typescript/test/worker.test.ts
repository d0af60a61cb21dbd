import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { Abandoned, Cancelled, Draining, Fatal, Invalid, type Item, Kinesin, Release, Snooze, type Task, TimedOut, UnknownLambda } from "kinesin";
import { appOf, deferred, Server, until, untilAborted, work } from "./server.js";

const server = new Server();
before(() => server.start());
after(() => server.close());

const quick = { backoffMin: "1ms", backoffMax: "10ms" };

test("a handler says how its task ends", async (t) => {
  const app = appOf(server.url);
  const lambda = app.handler<string>("ends", quick, async (task) => {
    switch (task.payload) {
      case "json": return { some_key: [task.attempt, task.id] };
      case "bytes": return new Uint8Array([1, 2, 255]);
      case "large": if (task.attempt === 1) return "x".repeat(33_000); return "small";
      case "fatal": throw new Fatal("user 42 does not exist");
      case "snooze": if (task.attempt === 1) throw new Snooze("10ms"); return;
      case "release": if (task.attempt === 1) throw new Release("not here"); return;
      case "fail": throw new Error(`no stamps ${task.attempt}`);
    }
  });
  await lambda.ensure();
  work(t, app);
  const end = async (payload: string, options = {}) => app.wait((await lambda.schedule(payload, options)).id);
  const json = await end("json");
  assert.deepEqual(json.result, { some_key: [1, json.id] });
  assert.deepEqual((await end("bytes")).result, new Uint8Array([1, 2, 255]));
  const large = await end("large");
  assert.deepEqual([large.result, large.failures], ["small", 1]);
  assert.match(large.attempts[0]!.error!, /33002 bytes: want at most 32768/);
  const fatal = await end("fatal");
  assert.deepEqual([fatal.state, fatal.attempts[0]!.error], ["fatal_failure", "user 42 does not exist"]);
  const snoozed = await end("snooze");
  assert.deepEqual([snoozed.state, snoozed.attempt, snoozed.failures], ["success", 2, 0]);
  const released = await end("release");
  assert.deepEqual([released.state, released.attempt, released.failures], ["success", 2, 0]);
  const dead = await end("fail", { maxAttempts: 3 });
  assert.deepEqual([dead.state, dead.failures, dead.attempts[2]!.error], ["dead", 3, "Error: no stamps 3"]);
});

test("a handler gets what it needs to know, through the middleware", async (t) => {
  const app = appOf(server.url, { traceparent: () => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" });
  const got = deferred<Task<unknown>>();
  const calls: string[] = [];
  for (const name of ["outer", "inner"]) {
    app.use(async (task, _signal, next) => {
      calls.push(`${name} ${task.lambda}`);
      return { [name]: await next() };
    });
  }
  const lambda = app.handler("knows", { timeout: "1m" }, (task) => { got.resolve(task); return 7; });
  await lambda.ensure();
  const { id } = await lambda.schedule({ user: 42 }, { delay: "200ms", key: "k", tags: { a: "b" } });
  work(t, app);
  const task = await got.promise;
  const { payload, attempt, key, tags, due, deadline, latenessMs, traceparent } = task;
  assert.deepEqual({ payload, attempt, key, tags, id: task.id }, { payload: { user: 42 }, attempt: 1, key: "k", tags: { a: "b" }, id });
  assert(deadline!.getTime() - Date.now() > 50_000 && due.getTime() <= Date.now());
  assert(latenessMs >= 0 && latenessMs < 5_000, `${latenessMs}`);
  assert.equal(traceparent?.slice(3, 35), "0af7651916cd43dd8448eb211c80319c");
  assert.deepEqual((await app.wait(id)).result, { outer: { inner: 7 } });
  assert.deepEqual(calls, ["outer knows", "inner knows"]);
});

test("lambdas that are missing are created", async () => {
  const app = appOf(server.url);
  const ran: unknown[] = [];
  const made = app.handler<number>("made", { maxAttempts: 8 }, (task) => { ran.push(task.payload); });
  for (const handlers of [1, 2]) { // the worker registers for none that exists, then for one that does not
    const stop = new AbortController();
    const running = app.run({ signal: stop.signal, handleSignals: false });
    await until(() => app.lambda("made").schedule(handlers).then(() => true, () => false));
    await until(() => ran.includes(handlers));
    stop.abort();
    await running;
    if (handlers === 1) app.handler("made-too", () => {});
  }
  assert.equal((await app.lambdas.get("made")).maxAttempts, 8);
  assert((await app.lambdas.get("made-too")).name);
  assert((await app.handler("made-by-a-call", () => {}).schedule(1, { delay: "1h" })).id);
  const many = await app.scheduleMany([{ lambda: "nowhere" }, app.handler("made-by-many", () => {}).with(1, { delay: "1h" })]);
  assert(many[0] instanceof UnknownLambda && "id" in many[1]!);
  assert.equal(made.name, "made");
  await assert.rejects(new Kinesin(server.url).run(), /no handler/);
});

test("follow-ups know what was before them", async (t) => {
  const app = appOf(server.url);
  const after = deferred<Task<unknown>>();
  const whole = deferred<Task<unknown>>();
  const step = app.handler<string>("step", (task) => {
    if (task.payload === "first") task.addThen(step.with("second"));
    if (task.payload === "bad") task.addThen({ lambda: "nowhere" });
    if (task.payload === "odd") task.addThen({ lambda: "step", dely: "1h" } as Item);
    if (task.payload === "second") after.resolve(task);
    if (task.payload === "report") whole.resolve(task);
    return task.payload;
  });
  await step.ensure();
  work(t, app);
  const { id } = await step.schedule("first");
  const { parent, chain } = await after.promise;
  assert.deepEqual([parent?.id, parent?.result, parent?.edge, chain], [id, "first", "then", id]);
  assert.equal((await app.wait((await step.schedule("bad")).id)).state, "fatal_failure");

  const odd = await app.wait((await step.schedule("odd")).id);
  assert.match(`${odd.state} ${odd.attempts[0]!.error}`, /^fatal_failure the result was refused: .*dely/);

  const group = await app.groups.schedule([step.with("a"), step.with("b")], { then: [step.with("report")] });
  assert.deepEqual((await whole.promise).group, { group: group.id, members: 2, ended: { success: 2 }, expired: false, cancelled: false });
  const results = [];
  for await (const member of app.groups.members(group.id)) results.push(member.task?.result);
  assert.deepEqual(results, ["a", "b"]);
});

test("a handler is stopped at its timeout and on a cancel", async (t) => {
  const app = appOf(server.url);
  const started = deferred();
  const reasons: unknown[] = [];
  const lambda = app.handler<string>("stops", quick, async (task, signal) => {
    if (task.attempt > 1) return;
    started.resolve();
    await untilAborted(signal).catch((error) => { reasons.push(error); throw error; });
  });
  await lambda.ensure();
  work(t, app, { lease: "3s" });
  const late = await app.wait((await lambda.schedule("timeout", { timeout: "100ms" })).id);
  assert.deepEqual([late.state, late.failures, late.attempts[0]!.error], ["success", 1, "timed out after 100ms"]);
  assert(reasons[0] instanceof TimedOut);

  const { id } = await lambda.schedule("cancel");
  await started.promise;
  while ((await app.cancel(id)).outcome !== "cancelling");
  assert.equal((await app.wait(id)).state, "cancelled");
  assert(reasons[1] instanceof Cancelled);
});

test("no more tasks run than there are slots", async (t) => {
  const app = appOf(server.url);
  const [running, most] = [{ wide: 0, narrow: 0 }, { wide: 0, narrow: 0 }];
  const handle = (name: "wide" | "narrow") => async () => {
    most[name] = Math.max(most[name], ++running[name]);
    await new Promise((resolve) => setTimeout(resolve, 10));
    running[name]--;
  };
  const wide = app.handler("wide", handle("wide"));
  const narrow = app.handler("narrow", { concurrency: 2 }, handle("narrow"));
  await Promise.all([wide.ensure(), narrow.ensure()]);
  const group = await app.groups.schedule(Array.from({ length: 60 }, (_, n) => (n % 2 ? wide : narrow).with(n)), { then: [wide.with("end", { key: "end" })] });
  work(t, app, { slots: 5 });
  for (let followUp: string | undefined; !followUp; ) followUp = (await app.groups.get(group.id)).followUp;
  assert.equal((await app.wait(wide.key("end"))).state, "success");
  assert.deepEqual(most, { wide: 5, narrow: 2 });
});

test("a handler that blocks does not stop the heartbeats", async (t) => {
  const app = appOf(server.url);
  const lambda = app.handler("blocks", () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000); // longer than the lease
    return "done";
  });
  await lambda.ensure();
  work(t, app, { lease: "3s" });
  const end = await app.wait((await lambda.schedule(1)).id);
  assert.deepEqual([end.result, end.attempt, end.workerLost], ["done", 1, 0]);
  assert(!app.lines.some((line) => line.message.startsWith("lease lost")));
});

test("a worker that stops lets handlers end, and gives back what does not", async (t) => {
  const app = appOf(server.url);
  const [started, go] = [{ quick: deferred(), slow: deferred() }, deferred()];
  let reason: unknown;
  const lambda = app.handler<"quick" | "slow">("drains", async (task, signal) => {
    started[task.payload].resolve();
    if (task.payload === "quick") return go.promise;
    if (task.attempt > 1) return "elsewhere";
    await untilAborted(signal).catch((error) => { reason = error; throw error; });
  });
  await lambda.ensure();
  const worker = work(t, app, { grace: "300ms" });
  const quick = (await lambda.schedule("quick")).id;
  const slow = (await lambda.schedule("slow")).id;
  await Promise.all([started.quick.promise, started.slow.promise]);
  const stopped = worker.stop();
  go.resolve();
  await stopped;
  assert(reason instanceof Draining);
  assert.equal((await app.get(quick)).state, "success");
  assert.equal((await app.get(slow)).failures, 0);
  work(t, app);
  assert.deepEqual([(await app.wait(slow)).result, (await app.get(slow)).attempt], ["elsewhere", 2]);
});

test("a handler that does not stop is abandoned", async (t) => {
  const app = appOf(server.url);
  const started = deferred();
  const lambda = app.handler("hangs", (task) => (started.resolve(), task.attempt > 1 ? "elsewhere" : new Promise(() => {})));
  await lambda.ensure();
  const worker = work(t, app, { grace: "0s", killAfter: "100ms" });
  const { id } = await lambda.schedule(1);
  await started.promise;
  await assert.rejects(worker.stop(), Abandoned);
  work(t, app);
  const end = await app.wait(id);
  assert.deepEqual([end.result, end.failures, end.workerLost], ["elsewhere", 0, 0]);
});

test("SIGTERM drains the process", async () => {
  const app = appOf(server.url);
  const lambda = app.lambda("signals");
  await lambda.ensure();
  const { id } = await lambda.schedule(1);
  const child = spawn(process.execPath, ["--input-type=module", "-e", `
    import { Kinesin } from ${JSON.stringify(import.meta.resolve("kinesin"))};
    const app = new Kinesin(${JSON.stringify(server.url)});
    app.handler("signals", async () => {
      console.log("started");
      await new Promise((resolve) => setTimeout(resolve, 300));
      return "ended";
    });
    await app.run({ slots: 1 });
    console.log("drained");
  `], { stdio: ["ignore", "pipe", "ignore"] });
  let out = "";
  child.stdout.on("data", (text) => { out += text; });
  while (!out.includes("started")) await once(child.stdout, "data");
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [0, null]);
  assert.match(out, /drained/);
  const info = await app.get(id);
  assert.equal(info.result, "ended", JSON.stringify(info));
});

test("a refusal ends the worker at once", async () => {
  const app = appOf(server.url);
  await app.handler("refused", () => {}).ensure();
  await assert.rejects(app.run({ lease: "1s" }), Invalid);
  await assert.rejects(app.run({ slots: 0 }), Invalid);
});
