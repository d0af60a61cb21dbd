import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chain, Exists, Invalid, Kinesin, KeyConflict, KinesinError, NotFound, StaleSeq, TooLate, Unauthenticated, Unavailable, UnknownLambda } from "kinesin";
import { appOf, compile, proxyOf, Server } from "./server.js";

const server = new Server();
let app: Kinesin;
before(async () => {
  app = appOf((await server.start()).url);
  await app.lambda("later").ensure();
});
after(() => server.close());

test("a task has what it was given", async () => {
  const later = app.lambda<{ user: number }>("later", { maxAttempts: 8 });
  const due = new Date(Date.now() + 3_600_000);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const { id } = await later.schedule({ user: 42 }, {
    due, priority: "high", collection: "spring", tags: { sent_by: "test" }, timeout: "30s", backoffMin: "1s", backoffMax: "1m", limitKey: "ada", traceparent,
  });
  const info = await app.get(id, { payload: true });
  assert.equal(Date.parse(info.due), due.getTime());
  assert.deepEqual(info.payload, { user: 42 });
  assert.deepEqual(info.tags, { sent_by: "test" });
  const { maxAttempts, timeout, backoffMax, limitKey, priority, collection, state } = info;
  assert.deepEqual({ maxAttempts, timeout, backoffMax, limitKey, priority, collection, state }, {
    maxAttempts: 8, timeout: "30s", backoffMax: "1m", limitKey: "ada", priority: "high", collection: "spring", state: "scheduled",
  });
  assert.equal(info.traceparent?.slice(3, 35), traceparent.slice(3, 35));
});

test("payloads come back as they went", async () => {
  const later = app.lambda("later");
  for (const payload of [{ some_key: { a_b: [1, null, "é"] } }, "text", 7, null, new Uint8Array([0, 255, 128])]) {
    const { id } = await later.schedule(payload, { delay: "1h" });
    assert.deepEqual((await app.get(id, { payload: true })).payload, payload);
  }
});

test("a key is held", async () => {
  const later = app.lambda("later");
  const first = await later.schedule({ n: 1 }, { delay: "30d", key: "a/b c" });
  const again = await later.schedule({ n: 1 }, { delay: "1d", key: "a/b c" });
  assert.deepEqual([again.id, again.duplicate, again.due], [first.id, true, first.due]);
  await assert.rejects(later.schedule({ n: 2 }, { key: "a/b c" }), (error: KinesinError) => {
    assert(error instanceof KeyConflict);
    assert.equal(error.reason, "key_conflict");
    assert.match(error.detail, /on_conflict/);
    return true;
  });
  await assert.rejects(later.schedule({ n: 1 }, { key: "a/b c", onConflict: "reject" }), KeyConflict);
  const replaced = await later.schedule({ n: 2 }, { delay: "2h", key: "a/b c", onConflict: "replace" });
  assert.deepEqual([replaced.id, replaced.replaced], [first.id, true]);
  assert.deepEqual((await app.get(later.key("a/b c"), { payload: true })).payload, { n: 2 });
});

test("tasks are changed, cancelled and redriven", async () => {
  const { id } = await app.lambda("later").schedule({}, { delay: "1h" });
  const { seq } = await app.get(id);
  const moved = await app.reschedule(id, { delay: "2h" }, { ifSeq: seq });
  await assert.rejects(app.reschedule(id, { delay: "3h" }, { ifSeq: seq }), StaleSeq);
  assert(Date.parse(moved.due!) > Date.now() + 7_000_000);
  await app.update(id, { payload: { n: 2 }, maxAttempts: 3 });
  assert.equal((await app.get(id)).maxAttempts, 3);
  assert.equal((await app.runNow(id)).id, id);
  assert.equal((await app.cancel(id)).outcome, "cancelled");
  assert.equal((await app.wait(id)).state, "cancelled");
  await assert.rejects(app.cancel(id), TooLate);
  assert.equal((await app.redrive(id, { payload: { n: 3 } })).id, id);
  await app.cancel(id);
  await assert.rejects(app.get("k1" + "A".repeat(40)), (error) => error instanceof NotFound || error instanceof Invalid);
  await assert.rejects(app.lambda("nowhere").schedule(1), UnknownLambda);
  await assert.rejects(app.lambda("later").schedule(1, { delay: "soon" }), Invalid);
});

test("a batch has a result for each task", async () => {
  const later = app.lambda<number>("later");
  const options = { delay: "1h", collection: "batch" };
  const items = Array.from({ length: 2_500 }, (_, n) => later.with(n, options));
  items[1_234] = later.with(1, { ...options, priority: "urgent" });
  for (const odd of [[{ u: 1 }], [{ payload: 1 }, { payload: 2, delay: "1h" }], [{}], ["a"], [7]] as unknown as { payload: unknown }[][]) {
    await assert.rejects(app.lambda("later").scheduleMany(odd), /^TypeError: task [01] has the fields \[.*\]: want payload, and perhaps options$/);
  }
  const results = await app.scheduleMany(items);
  assert.equal(results.length, 2_500);
  results.forEach((r, n) => assert.equal(r instanceof Invalid, n === 1_234));
  const last = results[2_499];
  assert(last && "id" in last);
  assert.equal((await app.get(last.id, { payload: true })).payload, 2_499);
  assert.equal((await app.count("collection=batch", { exact: true })).count, 2_499);
  let listed = 0;
  for await (const task of app.list({ lambda: "later", where: "collection=batch", limit: 1_500 })) listed += task.state === "scheduled" ? 1 : 0;
  assert.equal(listed, 1_500);
});

test("a cron is created, changed, run and deleted", async () => {
  const settings = { name: "nightly", lambda: "later", schedule: "30 2 * * *", zone: "Europe/Berlin", payload: { at: "{{nominal}}" } };
  const cron = await app.crons.create(settings);
  assert.equal((await app.crons.create(settings)).version, cron.version);
  await assert.rejects(app.crons.create({ ...settings, schedule: "31 2 * * *" }), Exists);
  await app.crons.update({ ...settings, schedule: "0 3 * * *", version: cron.version });
  assert((await app.crons.pause("nightly", { reason: "test" })).pause);
  assert.equal((await app.crons.resume("nightly")).pause, undefined);
  const { id } = await app.crons.run("nightly");
  assert.equal((await app.get(id)).lambda, "later");
  const job = await app.crons.backfill("nightly", { from: "2026-01-01T00:00:00Z", to: "2026-01-03T00:00:00Z", dryRun: true });
  assert.equal(job.backfill?.sample.length, 2);
  assert.deepEqual((await app.crons.list("later")).map((c) => c.name), ["nightly"]);
  assert((await app.crons.history("nightly", { limit: 5 })).occurrences);
  await app.crons.delete("nightly");
  await assert.rejects(app.crons.get("nightly"), NotFound);
});

test("a chain is paused, extended and cancelled, and a bad one refused", async () => {
  const later = app.lambda("later");
  const { id } = await app.schedule({ ...chain([later.with(1), later.with(2)], { onFailure: [later.with(3)], finally: [later.with(4)] }), delay: "1h" });
  assert.equal((await app.chains.pause(id)).changed, 1);
  const info = await app.chains.get(id);
  assert.equal(info.state, "paused");
  assert.deepEqual(info.root.followups.map((f) => f.edge), ["then", "else", "else"]);
  await app.chains.resume(id);
  await app.chains.extend(id, new Date(Date.now() + 86_400_000));
  await app.chains.cancel(id);
  assert.equal((await app.wait(id)).state, "cancelled");
  await assert.rejects(app.schedule(later.with(1, { then: [{ lambda: "nowhere" }] })), /then\[0\]/);
});

test("a call without an answer is repeated and makes one task", async (t) => {
  const proxy = await proxyOf(t, server);
  const slow = appOf(proxy.url, { callTimeoutMs: 500 });
  let drops = 1;
  proxy.drop = () => drops-- > 0;
  const { id } = await slow.lambda("later").schedule({ n: 1 }, { delay: "1h", collection: "once" });
  assert(proxy.seen.length > 1);
  assert.equal(new Set(proxy.seen.map((call) => call.body)).size, 1);
  assert.equal((await app.count("collection=once", { exact: true })).count, 1);
  assert.equal((await app.get(id)).collection, "once");

  drops = 1;
  const results = await slow.scheduleMany([1, 2, 3].map((n) => slow.lambda("later").with(n, { delay: "1h", collection: "once-many" })));
  assert(results.every((r) => "id" in r));
  assert.equal((await app.count("collection=once-many", { exact: true })).count, 3);

  drops = 1;
  assert.equal((await slow.cancel(id)).outcome, "cancelled");
  await assert.rejects(slow.cancel(id), TooLate);

  proxy.refuse = () => true;
  await assert.rejects(appOf(proxy.url, { tries: 2 }).lambda("later").schedule(1), (error: KinesinError) => error instanceof Unavailable && error.reason === "unavailable");
  await assert.rejects(slow.lambda("later").schedule(1, {}, { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
});

test("a client goes on with the next server", async () => {
  const two = appOf(`http://127.0.0.1:9,${server.url}`);
  assert((await two.lambda("later").schedule(1, { delay: "1h" })).id);
});

test("a server wants a token", async (t) => {
  const token = "0123456789abcdef0123456789abcdef";
  const file = join(tmpdir(), `kinesin-ts-token-${process.pid}`);
  writeFileSync(file, token, { mode: 0o600 });
  const guarded = new Server(["--auth-token-file", file]);
  t.after(async () => { await guarded.close(); rmSync(file); });
  await guarded.start();
  await assert.rejects(appOf(guarded.url).lambda("x").ensure(), Unauthenticated);
  assert.equal((await appOf(guarded.url, { token }).lambda("x").ensure()).name, "x");
});

test("what an edge runtime loads needs nothing of Node", () => {
  const dist = new URL("../dist/", import.meta.url);
  const seen = new Set(["index.js"]);
  for (const file of seen) {
    const text = readFileSync(new URL(file, dist), "utf8");
    for (const [, from] of text.matchAll(/\bfrom "([^"]+)"/g)) {
      assert.match(from!, /^\.\//, `${file} imports ${from}`);
      seen.add(from!.slice(2));
    }
    assert.doesNotMatch(text, /\bprocess\.|\bBuffer\b/, file);
  }
  assert.deepEqual([...seen].sort(), ["api.js", "call.js", "errors.js", "index.js"]);
});

test("the types are those of the server's description", async () => {
  const file = join(tmpdir(), `kinesin-ts-api-${process.pid}`);
  const run = spawn(process.execPath, [fileURLToPath(new URL("../generate.mjs", import.meta.url)), server.url, file], { stdio: "inherit" });
  assert.deepEqual(await once(run, "exit"), [0, null]);
  assert.equal(readFileSync(file, "utf8"), readFileSync(new URL("../src/api.ts", import.meta.url), "utf8"));
  rmSync(file);
});

test("the example of the README compiles", async () => {
  const example = /```ts\n([^]*?)```/.exec(readFileSync(new URL("../README.md", import.meta.url), "utf8"))![1]!;
  writeFileSync(new URL("readme.ts", import.meta.url), example);
  await compile("--noEmit", fileURLToPath(new URL("readme.ts", import.meta.url)));
});
