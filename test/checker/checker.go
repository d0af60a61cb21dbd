// Package checker judges histories of tasks: what clients were promised, what workers did, what
// was done to processes, and what the server says in the end. It is pure: it reads events
// and names every breach of a rule. It runs nothing, waits for nothing and knows no
// server. Its own tests break every rule in turn, so that each one can fail.
//
// A history is complete: it is judged after all faults are over and all tasks had their time.
package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Rule names one thing that must hold.
type Rule string

// The rules.
const (
	// Lost: an acknowledged task that was not cancelled starts, ends in the state it has to, and is known to
	// the server.
	Lost Rule = "lost"
	// Invented: only what was asked for runs, under the id that was given out for it, and only what began
	// ends.
	Invented Rule = "invented"
	// Early: nothing starts before it is due.
	Early Rule = "early"
	// Overlap: no two executions of a task are alive at once. A stopped process does not live.
	Overlap Rule = "overlap"
	// Late: an execution changes nothing any more once a later one of the task has begun.
	Late Rule = "late-effect"
	// Duplicate: a task runs again only after a failure, or if a fault hit its execution or kept its result
	// from being acknowledged.
	Duplicate Rule = "duplicate"
	// Fencing: attempt numbers rise from execution to execution.
	Fencing Rule = "fencing"
	// Result: the result that ended a task is that of an execution which returned it.
	Result Rule = "result"
	// Charged: failures are those the handler returned, lost workers are those that a fault hit, each counted
	// once.
	Charged Rule = "charged"
	// AfterCancel: a cancelled task does not start.
	AfterCancel Rule = "after-cancel"
	// KeyLimit: no more executions of one limit key than the bound are alive at once.
	KeyLimit Rule = "key-limit"
	// Quota: no more executions than the bound are alive at once.
	Quota Rule = "quota"
)

// Rules lists all rules.
func Rules() []Rule {
	return []Rule{Lost, Invented, Early, Overlap, Late, Duplicate, Fencing, Result, Charged, AfterCancel, KeyLimit, Quota}
}

// Violation is one breach of a rule.
type Violation struct {
	Rule Rule
	Task string
	Text string
}

// String is one line for people.
func (v Violation) String() string { return fmt.Sprintf("%s: task %s: %s", v.Rule, v.Task, v.Text) }

// Options are the bounds that a history is judged by. The zero value is the strictest.
type Options struct {
	// Settle is how long after an execution's end its result may still be unacknowledged. A fault
	// in that time excuses a repetition.
	Settle time.Duration
	// Ahead is how long before its start an execution may have been claimed.
	Ahead time.Duration
	// Wake is what a process that was stopped may take to end its handlers once it goes on.
	Wake time.Duration
	// Lease is the shortest lease of a worker. In an outage as long as that any worker that lives may lose
	// its tasks. Zero: none may.
	Lease time.Duration
	// Called: servers call what runs the tasks. An attempt without an answer is a failure of the task, and what
	// is done to a server is done to its workers as well.
	Called bool
	// OfKey is how many executions of one limit key may be alive at once, and AtOnce how many of all tasks.
	// Zero: any number.
	OfKey, AtOnce int
}

// Check returns every breach of every rule, in a stable order.
func Check(events []Event, o Options) []Violation {
	h := index(events, o)
	var all []Violation
	for _, t := range h.tasks {
		for _, rule := range perTask {
			all = append(all, rule(h, t)...)
		}
	}
	all = append(all, h.stray...)
	all = append(all, checkAtOnce(h)...)
	slices.SortStableFunc(all, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Task, b.Task))
	})
	return all
}

var perTask = []func(*history, *record) []Violation{
	checkLost, checkInvented, checkEarly, checkOverlap, checkLate, checkDuplicate, checkFencing, checkResult, checkCharged, checkCancel,
}

// Summary counts what a history holds, so that a run that tested nothing is noticed.
type Summary struct {
	Acked, Started, Ended, Repeated, Reported, Deaths, ServerKills int
}

// Summarize counts.
func Summarize(events []Event) Summary {
	var s Summary
	ran := map[string]bool{}
	for _, e := range events {
		switch e.Kind {
		case Acked:
			s.Acked++
		case Started:
			s.Started++
			if ran[e.Task] {
				s.Repeated++
			}
			ran[e.Task] = true
		case Ended:
			s.Ended++
		case Reported:
			s.Reported++
		case Died:
			s.Deaths++
		case ServerDown:
			s.ServerKills++
		case Requested, Cancelling, Cancelled, Effect, Stopped, Continued, Terminated, ServerUp:
		}
	}
	return s
}
