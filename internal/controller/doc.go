// Package controller is the worker side of Kinesin: it keeps one process's lease, takes claimed tasks from
// the HSC, runs each in a slot at its time, and reports its outcome.
//
// It owns the lease of its process, the attempts that the process has, and the goroutines they run in. It
// calls the HSC through Backend and the user's code through Config.Execute. It never decides what happens to
// a task: it reports outcomes, and the HSC applies them.
//
// One rule comes before all others: when the lease may have run out, the handlers stop before anything else
// happens, because their tasks may start elsewhere. Each path that starts a task or sends a result checks the
// lease first (lease.go).
package controller
