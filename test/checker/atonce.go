package checker

import (
	"cmp"
	"fmt"
	"slices"
)

// running is an execution, and the limit key of its task.
type running struct {
	*execution
	limitKey string
}

// runs are all executions by their starts.
func (h *history) runs() []running {
	var all []running
	for _, r := range h.tasks {
		for _, run := range r.runs {
			all = append(all, running{run, r.limitKey})
		}
	}
	slices.SortFunc(all, func(a, b running) int { return cmp.Compare(a.At, b.At) })
	return all
}

// eachStart calls a function for each execution, with those that are alive when it starts, itself among them.
func (h *history) eachStart(do func(run running, alive []running)) {
	var begun []running
	for _, run := range h.runs() {
		begun = append(slices.DeleteFunc(begun, func(b running) bool { return b.end <= run.At }), run)
		alive := slices.DeleteFunc(slices.Clone(begun), func(b running) bool { return b.execution != run.execution && !h.aliveAt(b.execution, run.At) })
		do(run, alive)
	}
}

func ofKey(key string, alive []running) (n int) {
	for _, run := range alive {
		if run.limitKey == key {
			n++
		}
	}
	return n
}

func checkAtOnce(h *history) []Violation {
	if h.OfKey == 0 && h.AtOnce == 0 {
		return nil
	}
	var all []Violation
	h.eachStart(func(run running, alive []running) {
		if h.AtOnce > 0 && len(alive) > h.AtOnce {
			all = append(all, Violation{Quota, run.Task, fmt.Sprintf("attempt %d is the %d. that ran at %d, at most %d may", run.Attempt, len(alive), run.At, h.AtOnce)})
		}
		if n := ofKey(run.limitKey, alive); h.OfKey > 0 && run.limitKey != "" && n > h.OfKey {
			all = append(all, Violation{KeyLimit, run.Task, fmt.Sprintf("attempt %d is the %d. of limit key %s that ran at %d, at most %d may", run.Attempt, n, run.limitKey, run.At, h.OfKey)})
		}
	})
	return all
}

// MostAtOnce is how many executions of each limit key were alive at once, and how many of all tasks.
func MostAtOnce(events []Event) (byKey map[string]int, all int) {
	byKey = map[string]int{}
	index(events, Options{}).eachStart(func(run running, alive []running) {
		byKey[run.limitKey] = max(byKey[run.limitKey], ofKey(run.limitKey, alive))
		all = max(all, len(alive))
	})
	return byKey, all
}

// Shortfall is a time, in Unix microseconds, in which fewer tasks of a limit key ran than might have, while
// others of it were due. A task whose execution failed is not due until it starts again.
type Shortfall struct {
	LimitKey string
	From, To int64
}

// Shortfalls are all times in which fewer than n tasks of a limit key ran while others of it were due.
func Shortfalls(events []Event, n int) []Shortfall {
	changes := map[string][]change{}
	for _, r := range index(events, Options{}).tasks {
		if r.acked != nil && r.report != nil && len(r.runs) > 0 {
			changes[r.limitKey] = append(changes[r.limitKey], r.changes()...)
		}
	}
	var all []Shortfall
	for key, of := range changes {
		all = append(all, shortfalls(key, of, n)...)
	}
	slices.SortFunc(all, func(a, b Shortfall) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.LimitKey, b.LimitKey))
	})
	return all
}

// change is how the numbers of tasks that wait and run change at a time.
type change struct {
	at             int64
	waits, running int
}

// changes are those of a task that has ended.
func (r *record) changes() []change {
	all := []change{{at: max(r.acked.At, r.acked.Due), waits: 1}}
	waits := true
	for i, run := range r.runs {
		if waits {
			all = append(all, change{at: run.At, waits: -1})
		}
		waits = i+1 < len(r.runs) && (!run.returned || run.outcome != Fail)
		all = append(all, change{at: run.At, running: 1}, change{at: run.end, running: -1})
		if waits {
			all = append(all, change{at: run.end, waits: 1})
		}
	}
	return all
}

func shortfalls(key string, changes []change, n int) []Shortfall {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var all []Shortfall
	var waits, runs int
	since, isShort := int64(0), false
	for i, c := range changes {
		waits, runs = waits+c.waits, runs+c.running
		if i+1 < len(changes) && changes[i+1].at == c.at {
			continue
		}
		short := waits > 0 && runs < n
		switch {
		case short && !isShort:
			since = c.at
		case !short && isShort:
			all = append(all, Shortfall{key, since, c.at})
		}
		isShort = short
	}
	return all
}
