import { type ChildProcess } from "node:child_process";
import { Kinesin, type RunOptions } from "./index.js";
/** Starts a server of its own for a test: $KINESIN_BIN, the package for this platform, or kinesin from the PATH. */
export declare function testServer(): Promise<TestServer>;
/** A server whose time moves only in `advance`. */
export declare class TestServer {
    #private;
    readonly url: string;
    readonly program: ChildProcess;
    /** Points an app at this server, creates the lambdas of its handlers, and runs them until the server is closed. Returns when the worker has registered. */
    work(app: Kinesin, options?: Omit<RunOptions, "signal" | "handleSignals" | "onRegister">): Promise<void>;
    /** Moves time by a duration such as "30d", or to a time; returns the new time when all that fell due has run and ended. */
    advance(time: string | Date): Promise<Date>;
    now(): Promise<Date>;
    /** Stops the workers, then the server. Fails as a worker did. */
    close(): Promise<void>;
}
