// Package harness runs Kinesin as its users do: the built binary and worker programs as
// processes of their own, which it kills, stops, continues and watches. It owns those
// processes, their ports, data directories and logs, and cleans all of them up, also when
// a test fails or dies. What happens is written to a history for package checker; the
// harness itself judges nothing.
package harness
