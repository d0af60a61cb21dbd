// The tutorial for TypeScript: its programs run as they stand there, in their order, against a server.
//
// A block in ts whose first line is a comment with a name is that file. Blocks in sh run where they start with node, a worker until the
// end of the page; a block in text has lines that the block before prints. Node 20 runs no TypeScript, so the files are compiled.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { compile, Server } from "./server.js";

const pages = ["start/typescript"].map((name) => ({
  name,
  server: new Server(),
  dir: fileURLToPath(new URL(`pages/${name}/`, import.meta.url)), // below clients/typescript, where the package is found
  blocks: [...readFileSync(new URL(`../../../docs/${name}.md`, import.meta.url), "utf8").matchAll(/^```(ts|sh|text)\n([^]*?)^```$/gm)],
}));

before(async () => {
  const files: string[] = [];
  for (const { server, dir, blocks } of pages) {
    await server.start();
    rmSync(dir, { recursive: true, force: true });
    mkdirSync(dir, { recursive: true });
    for (const [, kind, block] of blocks) {
      const file = kind === "ts" && /^\/\/ (\S+\.ts)\n/.exec(block!)?.[1];
      if (!file) continue;
      writeFileSync(dir + file, block!.replaceAll("http://127.0.0.1:7070", server.url));
      files.push(dir + file);
    }
  }
  await compile("--rewriteRelativeImportExtensions", ...files);
});
after(async () => { for (const { server } of pages) await server.close(); });

for (const { name, dir, blocks } of pages) {
  test(`docs/${name}.md`, async () => {
    let [printed, compared] = ["", 0];
    let stop = async () => {};
    try {
      for (const [, kind, block] of blocks) {
        if (kind === "sh" && block!.startsWith("node ")) {
          const run = start(dir, block!.trim().replace(/\.ts$/, ".js").split(" ").slice(1));
          if (block!.includes("worker")) {
            await run.says(/worker registered/);
            stop = run.stop;
          } else printed = await run.end();
        } else if (kind === "text" && printed) {
          for (const line of block!.trimEnd().split("\n")) {
            assert.match(printed, new RegExp(`^${line.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("…", ".*")}$`, "m"));
            compared++;
          }
          printed = "";
        }
      }
    } finally {
      await stop();
    }
    assert(compared > 0);
  });
}

/** Starts a program of a page. */
function start(dir: string, args: string[]) {
  const program = spawn(process.execPath, args, { cwd: dir, env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
  const ended = once(program, "close");
  let out = "";
  for (const stream of [program.stdout, program.stderr]) stream.on("data", (some) => { out += some; });
  const end = async () => {
    assert.deepEqual(await ended, [0, null], out);
    return out;
  };
  return {
    end,
    stop: async () => { program.kill("SIGTERM"); await end(); },
    says: (what: RegExp) => new Promise<void>((resolve, reject) => {
      program.stderr.on("data", () => { if (what.test(out)) resolve(); });
      void ended.then(() => reject(new Error(out)));
    }),
  };
}
