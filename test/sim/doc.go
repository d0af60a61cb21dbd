// Package sim runs a whole Kinesin in one process under one seed: servers with all roles, workers, clients,
// membership, network, store and queues, all of it the code that runs in production, over drivers that lie as
// the real ones do. Time is virtual (testing/synctest), and Go's runtime takes from the seed what it
// otherwise decides by chance (test/cmd/seededgo), so the same seed runs the same way, to the last line of
// its trace.
//
// A seed decides a plan: the form of the fleet, its load, and the faults, each with its time. The plan is a
// value, so a failure is shrunk by leaving faults out of it. After the faults comes a time without any, in
// which everything has to end. The history is judged by test/checker and by the rules of this package.
//
// Run it with make test/sim; see docs/adr/0027 and docs/internals/reliability.md.
package sim
