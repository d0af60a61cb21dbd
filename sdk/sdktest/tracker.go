package sdktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

const (
	describeMax = 10 // tasks named in a message
	// spinsMax is how often one task may start without time moving on.
	spinsMax = 1000
)

// tracker knows what is due and has not ended, and when the next thing falls due. Time moves only
// with its lock held, and only when it says that nothing is owed: neither a look at the clock nor a timer is
// overtaken then by any goroutine that has work to do.
type tracker struct {
	events chan struct{} // holds one value when something has changed

	mu       sync.Mutex // guards all below; held while the store is written to
	progress uint64     // changes so far
	rows     rows
	workers  []*worker
	attempts map[*attempt]struct{}
	sleeps   map[*sleep]struct{}
	starts   map[string]int // by task, since time last moved
	spinning *attempt       // it started too often
}

func newTracker() *tracker {
	return &tracker{
		events: make(chan struct{}, 1), rows: newRows(),
		attempts: map[*attempt]struct{}{}, sleeps: map[*sleep]struct{}{}, starts: map[string]int{},
	}
}

// changed tells who waits. Call with mu held.
func (t *tracker) changed() {
	t.progress++
	select {
	case t.events <- struct{}{}:
	default:
	}
}

func (t *tracker) hire(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers = append(t.workers, w)
}

func (t *tracker) register(w *worker, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.id = id
	t.changed()
}

func (t *tracker) dismiss(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.over = true
	t.changed()
}

func (t *tracker) begin(ctx context.Context, work *controller.Work, now task.Instant) *attempt {
	a := &attempt{work: work, start: now, ctx: ctx, asked: new(atomic.Bool), sleeps: map[*sleep]struct{}{}}
	if work.Timeout > 0 {
		a.end = now.Add(work.Timeout)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts[a] = struct{}{}
	if t.starts[work.ID]++; t.starts[work.ID] > spinsMax {
		t.spinning = a
	}
	t.changed()
	return a
}

func (t *tracker) finish(a *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.attempts, a)
	t.changed()
}

// addSleep notes a sleep that begins. Call with mu held.
func (t *tracker) addSleep(s *sleep) {
	t.sleeps[s] = struct{}{}
	if s.of != nil {
		s.of.sleeps[s] = struct{}{}
	}
	t.changed()
}

func (t *tracker) wake(s *sleep) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sleeps, s)
	if s.of != nil {
		delete(s.of.sleeps, s)
	}
	t.changed()
}

// nameOf is the name of the lambda that a reference stands for.
func (t *tracker) nameOf(ref uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows.names[ref]
}

// owes reports whether something that is due has not ended, and how many changes there were.
func (t *tracker) owes(now task.Instant) (owes bool, progress uint64, spinning *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owesLocked(now), t.progress, t.spinning
}

func (t *tracker) owesLocked(now task.Instant) bool {
	if first, found := t.rows.moments.Min(); found && first.at <= now {
		return true
	}
	return t.runs(now) || t.couldRun()
}

// runs reports whether a task runs that does not wait for time. A handler that waits is one task: claimed or
// processing, and surely processing once it has run for so long that its start is reported.
func (t *tracker) runs(now task.Instant) bool {
	unreported := 0
	for a := range t.attempts {
		if !a.waiting(now) {
			return true
		}
		if now < a.start.Add(controller.StartedAfter) {
			unreported++
		}
	}
	return t.rows.claimed > unreported || t.rows.claimed+t.rows.processing > len(t.attempts) || t.rows.cancelling > 0
}

// couldRun reports whether a task is in a queue that a worker has a free slot for.
func (t *tracker) couldRun() bool {
	for lambda, n := range t.rows.queued {
		serves := func(w *worker) bool { return w.serves(t.rows.names[lambda], &t.rows) }
		if n > 0 && slices.ContainsFunc(t.workers, serves) {
			return true
		}
	}
	return false
}

// nextLocked is when something falls due next, after now.
func (t *tracker) nextLocked(now task.Instant) (next task.Instant, found bool) {
	consider := func(at task.Instant) {
		if at > now && (!found || at < next) {
			next, found = at, true
		}
	}
	if first, waits := t.rows.moments.Min(); waits {
		consider(first.at)
	}
	for a := range t.attempts {
		consider(a.start.Add(controller.StartedAfter))
		consider(a.end)
	}
	for s := range t.sleeps {
		consider(s.until)
	}
	return next, found
}

// beWaiting takes the handlers that looked at their contexts to wait for them to end.
func (t *tracker) beWaiting() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a := range t.attempts {
		if a.asked.Load() && !a.waits {
			a.waits = true
			t.changed()
		}
	}
}

// describe names what is due and has not ended, a line each.
func (t *tracker) describe(now task.Instant) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for a := range t.attempts {
		if !a.waiting(now) {
			lines = append(lines, fmt.Sprintf("%v: its handler has not returned", a))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		lines = t.rows.overdue(now, describeMax)
	}
	if more := len(lines) - describeMax; more > 0 {
		lines = append(lines[:describeMax], fmt.Sprintf("and %d more", more))
	}
	return "\n\t" + strings.Join(lines, "\n\t")
}
