// Package harness runs Kinesin as its users do: the built binary and worker programs as processes of their
// own, which it kills, stops, continues and watches. It owns those processes, their ports, data directories
// and logs, and cleans all of them up, also when a test fails or dies. A Site is what most suites need:
// servers, a client, workers, and a history of what happens, for package checker; the harness itself judges
// nothing. For suites that count what a server does with its drivers it runs a Node in the test's process.
package harness
