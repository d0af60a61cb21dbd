// The recipes of examples/typescript, compiled and run as they stand there, against a server in virtual time.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { before, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Kinesin } from "kinesin";
import { testServer } from "kinesin/testing";
import { compile } from "./server.js";

const recipes = new URL("recipes/", import.meta.url); // below clients/typescript, where their packages are found

before(async () => {
  rmSync(recipes, { recursive: true, force: true });
  cpSync(new URL("../../../examples/typescript/", import.meta.url), recipes, { recursive: true, filter: (from) => !/node_modules$|package.json$/.test(from) });
  const files = ["express/web.ts", "express/worker.ts", "next/worker.ts", "next/app/api/trials/route.ts"].map((file) => fileURLToPath(new URL(file, recipes)));
  await compile("--rewriteRelativeImportExtensions", ...files);
});

/** Starts a server, and returns how to run programs of the recipes beside it, which end before it does. */
async function serverOf(t: TestContext) {
  const server = await testServer();
  const ends = [() => server.close()];
  t.after(async () => { for (const end of ends.reverse()) await end(); });

  /** Runs a program, and returns what it has said when it is ready. */
  const start = async (file: string, ready: RegExp, env: Record<string, string> = {}): Promise<string> => {
    const program = spawn(process.execPath, [fileURLToPath(new URL(file, recipes))], { env: { ...process.env, KINESIN_SERVER: server.url, ...env } });
    const ended = once(program, "exit");
    let said = "";
    ends.push(async () => {
      program.kill("SIGTERM");
      assert.deepEqual(await ended, [0, null], said);
    });
    return new Promise((resolve, reject) => {
      for (const out of [program.stdout, program.stderr]) {
        out.on("data", (text) => {
          said += text;
          if (ready.test(said)) resolve(said);
        });
      }
      void ended.then(() => reject(new Error(said)));
    });
  };
  return { server, start, app: new Kinesin(server.url) };
}

test("Express: a request schedules a reminder, and a worker sends it in 30 days", async (t) => {
  const { server, start, app } = await serverOf(t);
  const mails: { user: string; text: string }[] = [];
  let status = 503;
  const mail = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    mails.push(JSON.parse(body));
    response.writeHead(status).end();
  }).listen(0, "127.0.0.1");
  t.after(() => { mail.closeAllConnections(); mail.close(); });
  await once(mail, "listening");

  const url = /http:\S+/.exec(await start("express/web.js", /listening on http:\S+\n/, { PORT: "0" }))![0];
  await start("express/worker.js", /worker registered/, { MAIL_URL: `http://127.0.0.1:${(mail.address() as AddressInfo).port}/` });
  const post = (user: string, text: string) => fetch(`${url}/reminders`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ user, text }) });
  for (const user of ["ada", "bob"]) assert.equal((await post(user, "plants")).status, 202);
  assert.equal((await post("ada", "the plants")).status, 202);
  assert.equal((await fetch(`${url}/reminders/bob`, { method: "DELETE" })).status, 204);
  assert.equal((await fetch(`${url}/reminders/cleo`, { method: "DELETE" })).status, 404);

  await server.advance("29d");
  assert.deepEqual(mails, []);
  await server.advance("1d");
  assert.deepEqual(mails, [{ user: "ada", text: "the plants" }]);
  status = 202;
  await server.advance("1h");
  assert.equal(mails.length, 2);
  assert.equal((await app.get({ lambda: "send-reminder", key: "user-ada" })).state, "success");
});

test("Next: a route schedules the end of a trial, and a worker beside it runs it", async (t) => {
  const { server, start, app } = await serverOf(t);
  await start("next/worker.js", /waiting|registered/);
  process.env["KINESIN_SERVER"] = server.url;
  const { POST } = await import(new URL("next/app/api/trials/route.js", recipes).href) as { POST: (request: Request) => Promise<Response> };
  const post = () => POST(new Request("http://localhost/api/trials", { method: "POST", body: JSON.stringify({ account: "ada" }) }));
  const [first, again] = [await post(), await post()];
  assert.deepEqual([first.status, again.status], [201, 200]);
  const { id } = await first.json() as { id: string };
  await server.advance("13d");
  assert.equal((await app.get(id)).state, "scheduled");
  await server.advance("1d");
  assert.equal((await app.get(id)).state, "success");
});
