// The thread that renews the lease of a worker: a handler that blocks the event loop does not stop it.
import { parentPort, workerData } from "node:worker_threads";
import type { Heartbeat } from "./api.js";
import { backoff, Servers, sleep } from "./call.js";
import { KinesinError, LeaseLost } from "./errors.js";

export interface HeartbeatData {
  urls: readonly string[]; token: string | undefined; worker: string; everyMs: number; validMs: number; marginMs: number; kill: boolean; lease: SharedArrayBuffer;
}
export type FromMain = { hold: string } | { drop: string };
export type ToMain = { cancels: string[]; fenced: string[] } | { lost: string } | { failed: string; failures: number; answered: boolean };

/** Until when the lease holds, by the monotonic and the wall clock, and the offset of the server's clock, in milliseconds. */
export const [mono, wall, offset] = [0, 1, 2];
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

async function sendHeartbeats(d: HeartbeatData): Promise<string> {
  const servers = new Servers(d.urls, d.token, 1, d.everyMs);
  const lease = new Float64Array(d.lease);
  for (let [failures, first] = [0, true]; ; ) {
    const [sent, sentWall] = [monotonicMs(), Date.now()];
    let pause = d.everyMs;
    try {
      const r = await servers.once<Heartbeat>("POST", "/v1/work/heartbeat", { body: { worker: d.worker, running: [...held] } });
      [lease[mono], lease[wall], failures] = [sent + d.validMs, sentWall + d.validMs, 0];
      const half = (monotonicMs() - sent) / 2;
      const ahead = r.now ? Date.parse(r.now) - (Date.now() - half) : 0;
      lease[offset] = Math.abs(ahead) > half + 1 ? ahead : 0; // what the length of the call explains counts as none
      if (first || r.cancels.length + r.fenced.length > 0) post({ cancels: r.cancels, fenced: r.fenced });
      first = false;
      pause -= monotonicMs() - sent;
    } catch (error) {
      if (error instanceof LeaseLost) return "the server says so";
      post({ failed: String(error), failures: ++failures, answered: error instanceof KinesinError && error.status > 0 });
      pause = backoff(failures, 100, 1_000);
    }
    const left = lease[mono]! - monotonicMs();
    if (left <= 0) return "no heartbeat was accepted in time";
    await sleep(Math.max(0, Math.min(pause, left)));
  }
}

const held = new Set<string>(); // attempts that the worker has
const post = (message: ToMain) => parentPort!.postMessage(message);

if (parentPort && workerData?.lease instanceof SharedArrayBuffer) {
  const d = workerData as HeartbeatData;
  parentPort.on("message", (m: FromMain) => ("hold" in m ? held.add(m.hold) : held.delete(m.drop)));
  post({ lost: await sendHeartbeats(d) });
  await sleep(d.marginMs);
  // The tasks start elsewhere now. Whoever still runs them here has not even heard of it, or does not stop.
  if (d.kill && held.size > 0) process.kill(process.pid, "SIGKILL");
}
