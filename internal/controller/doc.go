// Package controller is the worker side of Kinesin: it keeps one process's lease,
// takes claimed tasks from the HSC, runs each in a slot at its time, and reports
// what became of it.
//
// It owns the lease of its process, the attempts in hand, and the goroutines
// they run in. It calls the HSC through Backend and the user's code through
// Config.Execute. It never decides what happens to a task: it reports outcomes,
// and the HSC applies them.
//
// Its one duty above all others: when the lease may have run out, its handlers
// stop before anything else happens, because the tasks may start elsewhere. Each
// path that starts a task or sends a result asks the lease first (lease.go).
package controller
