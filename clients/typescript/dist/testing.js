// A server in memory, in virtual time: a test of 30 days takes milliseconds.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { binary, platformPackage } from "./binary.js";
import { Kinesin } from "./index.js";
/** Starts a server of its own for a test: $KINESIN_BIN, the package for this platform, or kinesin from the PATH. */
export async function testServer() {
    const program = spawn(binary() ?? "kinesin", ["test-server"], { stdio: ["pipe", "pipe", "inherit"] });
    const ended = once(program, "exit").then(([code, signal]) => { throw new Error(`kinesin test-server ended with ${signal ?? `code ${code}`}`); }, (cause) => { throw new Error(`kinesin test-server does not run: install ${platformPackage}, or set KINESIN_BIN`, { cause }); });
    const [line] = (await Promise.race([once(createInterface({ input: program.stdout }), "line"), ended]));
    ended.catch(() => { });
    return new TestServer(JSON.parse(line).url, program);
}
/** A server whose time moves only in `advance`. */
export class TestServer {
    url;
    program;
    #calls;
    #end = new AbortController();
    #workers = [];
    /** @internal */
    constructor(url, program) {
        this.url = url;
        this.program = program;
        this.#calls = new Kinesin(url, { tries: 1 });
    }
    /** Points an app at this server, creates the lambdas of its handlers, and runs them until the server is closed. Returns when the worker has registered. */
    async work(app, options = {}) {
        app.setServer(this.url);
        await app.ensure();
        let running = Promise.resolve();
        const registered = new Promise((resolve) => {
            running = app.run({ grace: "0s", killAfter: "1s", ...options, signal: this.#end.signal, handleSignals: false, onRegister: resolve });
        });
        this.#workers.push(running);
        await Promise.race([registered, running]);
    }
    /** Moves time by a duration such as "30d", or to a time; returns the new time when all that fell due has run and ended. */
    async advance(time) {
        const body = time instanceof Date ? { to: time } : { by: time };
        return new Date((await this.#calls.call("POST", "/test/advance", body, { timeoutMs: advanceMs })).now);
    }
    async now() {
        return new Date((await this.#calls.call("GET", "/test/now")).now);
    }
    /** Stops the workers, then the server. Fails as a worker did. */
    async close() {
        this.#end.abort();
        const workers = await Promise.allSettled(this.#workers);
        if (this.program.exitCode === null && this.program.signalCode === null) {
            this.program.stdin.end();
            await once(this.program, "exit");
        }
        for (const one of workers)
            if (one.status === "rejected")
                throw one.reason;
    }
}
const advanceMs = 60_000; // real time, in which handlers have to end
