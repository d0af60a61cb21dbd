// Where the program of the server is.
import { createRequire } from "node:module";
/** Returns the path of the server's program: $KINESIN_BIN, else that of the package for this platform, such as kinesin-linux-x64; undefined: there is neither. */
export function binary() {
    if (process.env["KINESIN_BIN"])
        return process.env["KINESIN_BIN"];
    try {
        return createRequire(import.meta.url).resolve(`${platformPackage}/bin/kinesin`);
    }
    catch {
        return undefined;
    }
}
/** The npm package that carries the program for this platform. */
export const platformPackage = `kinesin-${process.platform}-${process.arch}`;
