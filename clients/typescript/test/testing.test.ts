import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Kinesin, Snooze } from "kinesin";
import { testServer } from "kinesin/testing";

const log = () => {};

async function serverOf(t: TestContext) {
  const server = await testServer();
  t.after(() => server.close());
  return { server, app: new Kinesin("http://127.0.0.1:7070", { log }) };
}

test("a reminder in 30 days", async (t) => {
  const { server, app } = await serverOf(t);
  const sent: number[] = [];
  const send = app.handler<number>("send", (task) => void sent.push(task.payload));
  await server.work(app);
  const begun = await server.now();
  const { id } = await send.schedule(42, { delay: "30d" });
  await server.advance("29d");
  assert.deepEqual(sent, []);
  const now = await server.advance("1d");
  assert.deepEqual(sent, [42]);
  assert.equal(now.getTime() - begun.getTime(), 30 * 86_400_000);
  const info = await app.get(id);
  assert.equal(info.state, "success");
});

test("retries, with their pauses", async (t) => {
  const { server, app } = await serverOf(t);
  const starts: Date[] = [];
  const lambda = app.handler("fails", { backoffMin: "1h", backoffMax: "1h", maxAttempts: 4 }, async () => {
    starts.push(await server.now());
    if (starts.length === 1) throw new Snooze("1d");
    throw new Error("no stamps");
  });
  await server.work(app);
  const { id } = await lambda.schedule(1);
  await server.advance("2d");
  assert.deepEqual(starts.map((at, n) => (n ? Math.round((at.getTime() - starts[n - 1]!.getTime()) / 3_600_000) : 0)), [0, 24, 1, 1, 1]);
  assert.deepEqual([(await app.get(id)).state, (await app.get(id)).failures], ["dead", 4]);
});

test("a cron, every day of a month", async (t) => {
  const { server, app } = await serverOf(t);
  const nominal: (string | undefined)[] = [];
  app.handler("digest", (task) => void nominal.push(task.occurrence?.nominal));
  await server.work(app);
  await app.crons.create({ name: "daily", lambda: "digest", schedule: "0 9 * * *", zone: "Europe/Berlin" });
  await server.advance(new Date((await server.now()).getTime() + 30 * 86_400_000));
  assert.equal(nominal.length, 30);
  assert.deepEqual(nominal, [...nominal].sort());
});

test("a server that does not run says why", async (t) => {
  const bin = process.env["KINESIN_BIN"];
  t.after(() => { process.env["KINESIN_BIN"] = bin; });
  process.env["KINESIN_BIN"] = "/nowhere/kinesin";
  await assert.rejects(testServer(), /KINESIN_BIN/);
});

test("the command of the package is the program, signals and exit code included", async () => {
  const launcher = fileURLToPath(new URL("../bin/kinesin.mjs", import.meta.url));
  const refused = spawn(process.execPath, [launcher, "no-such-command"], { stdio: "ignore" });
  assert.deepEqual(await once(refused, "exit"), [2, null]);
  const server = spawn(process.execPath, [launcher, "test-server"], { stdio: ["pipe", "pipe", "inherit"] });
  await once(server.stdout, "data");
  server.kill("SIGTERM");
  assert.deepEqual(await once(server, "exit"), [0, null]);

  const none = spawn(process.execPath, [launcher], { env: { ...process.env, KINESIN_BIN: "" } });
  const [said] = await once(none.stderr, "data");
  assert.match(String(said), /install kinesin-\w+-\w+, or set KINESIN_BIN/);
});
