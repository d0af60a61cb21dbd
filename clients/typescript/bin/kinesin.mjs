#!/usr/bin/env node
// Runs the program of the server, which a package for this platform carries.
import { spawn } from "node:child_process";
import { binary, platformPackage } from "../dist/binary.js";

const file = binary();
if (!file) {
  console.error(`kinesin: no program for this platform: install ${platformPackage}, or set KINESIN_BIN to the path of one`);
  process.exit(1);
}
const program = spawn(file, process.argv.slice(2), { stdio: "inherit" });
process.on("SIGTERM", () => program.kill("SIGTERM"));
for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {}); // a terminal sends them to the program, too
program.on("error", (error) => {
  console.error(`kinesin: ${file} does not run: ${error.message}`);
  process.exit(1);
});
program.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
