import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { Fenced, LeaseLost } from "kinesin";
import { appOf, deferred, proxyOf, Server, untilAborted, work } from "./server.js";

async function serverOf(t: TestContext): Promise<Server> {
  const server = new Server();
  t.after(() => server.close());
  return server.start();
}

test("a server is killed and comes back: what runs goes on, and runs once", async (t) => {
  const server = await serverOf(t);
  const app = appOf(server.url);
  const [started, go] = [deferred(), deferred()];
  const runs: unknown[] = [];
  const lambda = app.handler("survives", async (task, signal) => {
    runs.push(task.payload);
    if (task.payload !== "first") return "second";
    started.resolve();
    await go.promise;
    return signal.aborted ? "stopped" : "went on";
  });
  await lambda.ensure();
  work(t, app, { lease: "15s" });
  const { id } = await lambda.schedule("first");
  await started.promise;
  await server.kill();
  const failed = app.logged(/sending results failed/);
  go.resolve(); // the result finds no server
  await failed;
  const waiting = lambda.schedule("second"); // this call finds none either, and is repeated
  await server.start();
  const end = await app.wait(id);
  assert.deepEqual([end.result, end.attempt, end.workerLost], ["went on", 1, 0]);
  assert.equal((await app.wait((await waiting).id)).result, "second");
  assert.deepEqual(runs, ["first", "second"]);
});

test("a server is killed again and again: each task is scheduled once and runs once", async (t) => {
  const server = await serverOf(t);
  const app = appOf(server.url);
  const runs = new Map<number, number>();
  const lambda = app.handler<number>("many", async (task) => {
    runs.set(task.payload, (runs.get(task.payload) ?? 0) + 1);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
  });
  await lambda.ensure();
  work(t, app, { slots: 50, lease: "15s" });
  const all: string[] = [];
  for (let n = 0; n < 3; n++) {
    const results = lambda.scheduleMany(Array.from({ length: 300 }, (_, i) => ({ payload: 300 * n + i })));
    while (runs.size < 300 * n + 150) await new Promise(setImmediate);
    await server.kill();
    await server.start();
    for (const r of await results) if ("id" in r) all.push(r.id);
  }
  assert.equal(all.length, 900);
  const count = async (state: string) => (await app.count(`state=${state}`, { exact: true })).count;
  while ((await count("success")) !== 900);
  assert.equal(runs.size, 900);
  assert.equal(Math.max(...runs.values()), 1);
});

test("an answer to results that never comes: they are sent again, and nothing runs again", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const app = appOf(proxy.url, { callTimeoutMs: 300 });
  let runs = 0;
  const lambda = app.handler("unknown", () => ++runs);
  await lambda.ensure();
  let drops = 1;
  proxy.drop = (path) => path === "/v1/work/results" && drops-- > 0;
  work(t, app);
  const end = await app.wait((await lambda.schedule(1)).id);
  const again = app.wait((await lambda.schedule(2)).id);
  assert.deepEqual([end.result, end.attempt, (await again).result, runs], [1, 1, 2, 2]);
});

test("a claim whose answer was lost is made again, and says so", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const app = appOf(proxy.url);
  const lambda = app.handler("claims", () => "here");
  await lambda.ensure();
  const { id } = await lambda.schedule(1);
  let cuts = 1;
  proxy.cut = (path) => path === "/v1/work/claim" && cuts-- > 0;
  work(t, app);
  assert.deepEqual([(await app.wait(id)).result, (await app.get(id)).failures], ["here", 0]);
  const claims = proxy.seen.filter((call) => call.path === "/v1/work/claim").map((call) => JSON.parse(call.body));
  assert.deepEqual([claims[0].again, claims[1].again, claims[1].running], [undefined, true, []]);
});

test("a lost lease stops its handlers, and the worker registers again", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const app = appOf(proxy.url);
  const [started, stopped] = [deferred(), deferred<unknown>()];
  const lambda = app.handler("lost", async (task, signal) => {
    if (task.attempt > 1) return "again";
    started.resolve();
    await untilAborted(signal).catch((reason) => { stopped.resolve(reason); throw reason; });
  });
  await lambda.ensure();
  work(t, app);
  const { id } = await appOf(server.url).lambda("lost").schedule(1);
  await started.promise;
  proxy.refuse = (path) => path.startsWith("/v1/work/");
  assert(await stopped.promise instanceof LeaseLost);
  proxy.refuse = () => false;
  const end = await app.wait(id);
  assert.deepEqual([end.result, end.attempt, end.attempts[0]!.outcome], ["again", 2, "worker_lost"]);
});

test("a server that does not know the lease gets another registration", async (t) => {
  const server = await serverOf(t);
  const app = appOf(server.url);
  const lambda = app.handler<number>("anew", (task) => task.payload);
  await lambda.ensure();
  work(t, app);
  assert.equal((await app.wait((await lambda.schedule(1)).id)).result, 1);
  await server.kill();
  server.wipe();
  await server.start();
  await lambda.ensure();
  assert.equal((await app.wait((await lambda.schedule(2)).id)).result, 2);
});

test("results that a lost lease leaves go with the next registration", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const app = appOf(proxy.url);
  let runs = 0;
  const lambda = app.handler("kept", () => {
    proxy.refuse = (path) => path.startsWith("/v1/work/");
    return ++runs;
  });
  await lambda.ensure();
  const lost = app.logged(/lease lost/);
  work(t, app);
  const { id } = await appOf(server.url).lambda("kept").schedule(1);
  await lost;
  proxy.refuse = () => false;
  const end = await app.wait(id);
  assert.deepEqual([end.result, end.attempt, runs], [1, 1, 1]);
  assert(proxy.seen.some((call) => call.path === "/v1/work/register" && call.body.includes('"outcome":"success"')));
});

test("an attempt that another one has overtaken is fenced", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const app = appOf(proxy.url);
  const [started, reason] = [deferred(), deferred<unknown>()];
  const lambda = app.handler("fenced", async (task, signal) => {
    if (task.attempt > 1) return "the other one";
    started.resolve();
    await untilAborted(signal).catch((error) => { reason.resolve(error); throw error; });
  });
  await lambda.ensure();
  work(t, app);
  const { id } = await lambda.schedule(1);
  await started.promise;
  // Its result is stored behind the worker's back, as if an older try of it had come late.
  const claimed = proxy.seen.find((call) => call.path === "/v1/work/claim");
  const { worker } = JSON.parse(claimed!.body);
  const running = (await proxy.heartbeat())[0];
  await app.call("POST", "/v1/work/results", { worker, results: [{ claim: running, outcome: "snoozed", delay: "0s" }] });
  assert(await reason.promise instanceof Fenced);
  assert.equal((await app.wait(id)).result, "the other one");
});

test("handlers that go on without a lease end the process", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const app = appOf(proxy.url);
  const [started, exited] = [deferred(), deferred<number>()];
  const lambda = app.handler("stays", () => (started.resolve(), new Promise(() => {})));
  await lambda.ensure();
  const worker = work(t, app, { exit: exited.resolve });
  await lambda.schedule(1, { timeout: "10s" });
  await started.promise;
  proxy.refuse = () => true;
  assert.equal(await exited.promise, 1);
  await assert.rejects(worker.ended, LeaseLost);
});

test("a process that blocks without a lease is killed", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const child = spawn(process.execPath, ["--input-type=module", "-e", `
    import { Kinesin } from ${JSON.stringify(import.meta.resolve("kinesin"))};
    const app = new Kinesin(${JSON.stringify(proxy.url)});
    const lambda = app.handler("blocks", () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
    await lambda.ensure();
    await lambda.schedule(1);
    await app.run({ slots: 1, lease: "3s" });
  `], { stdio: ["ignore", "ignore", "ignore"] });
  t.after(() => child.kill("SIGKILL"));
  const exit = once(child, "exit");
  await proxy.heartbeat();
  proxy.refuse = () => true;
  assert.deepEqual(await exit, [null, "SIGKILL"]);
});
