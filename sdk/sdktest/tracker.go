package sdktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/settle"
	"github.com/kinesin-io/kinesin/task"
)

const (
	describeMax = 10 // tasks named in a message
	// spinsMax is how often one task may start without time moving on.
	spinsMax = 1000
)

// tracker adds the workers and handlers of this process to what the server has to do.
type tracker struct {
	*settle.Tracker // its lock guards all below

	workers  []*worker
	attempts map[*attempt]struct{}
	sleeps   map[*sleep]struct{}
	starts   map[string]int // by task, since time last moved
	spinning *attempt       // set when its task started too often
}

func newTracker() *tracker {
	return &tracker{
		Tracker: settle.New(), attempts: map[*attempt]struct{}{}, sleeps: map[*sleep]struct{}{}, starts: map[string]int{},
	}
}

func (t *tracker) addWorker(w *worker) {
	t.Lock()
	defer t.Unlock()
	t.workers = append(t.workers, w)
}

func (t *tracker) register(w *worker, id string) {
	t.Lock()
	defer t.Unlock()
	w.opens = w.opens || w.id == ""
	w.id = id
	t.Changed()
}

// opened notes that the stream of a worker was answered, or broke.
func (t *tracker) opened(w *worker) {
	t.Lock()
	defer t.Unlock()
	if w.opens {
		w.opens = false
		t.Changed()
	}
}

func (t *tracker) endWorker(w *worker) {
	t.Lock()
	defer t.Unlock()
	w.over = true
	t.Changed()
}

func (t *tracker) begin(ctx context.Context, work *kinesinv1.Claimed, now task.Instant) *attempt {
	a := &attempt{work: work, start: now, ctx: ctx, asked: new(atomic.Bool), sleeps: map[*sleep]struct{}{}}
	if work.Timeout > 0 {
		a.end = now.Add(task.Micros(work.Timeout))
	}
	t.Lock()
	defer t.Unlock()
	t.attempts[a] = struct{}{}
	if t.starts[work.Id]++; t.starts[work.Id] > spinsMax {
		t.spinning = a
	}
	t.Changed()
	return a
}

func (t *tracker) finish(a *attempt) {
	t.Lock()
	defer t.Unlock()
	delete(t.attempts, a)
	t.Changed()
}

// addSleep adds a sleep. Call with mu held.
func (t *tracker) addSleep(s *sleep) {
	t.sleeps[s] = struct{}{}
	if s.of != nil {
		s.of.sleeps[s] = struct{}{}
	}
	t.Changed()
}

func (t *tracker) endSleep(s *sleep) {
	t.Lock()
	defer t.Unlock()
	delete(t.sleeps, s)
	if s.of != nil {
		delete(s.of.sleeps, s)
	}
	t.Changed()
}

// nameOf returns the name for a lambda's reference.
func (t *tracker) nameOf(ref uint32) string {
	t.Lock()
	defer t.Unlock()
	return t.NameOf(ref)
}

// busy reports whether something that is due has not ended, and how many changes there were.
func (t *tracker) busy(now task.Instant) (busy bool, progress uint64, spinning *attempt) {
	t.Lock()
	defer t.Unlock()
	return t.busyLocked(now), t.Progress(), t.spinning
}

func (t *tracker) busyLocked(now task.Instant) bool {
	return t.runs(now) || t.couldRun() || t.opens() || !t.Rests(now)
}

// runs reports whether a task runs that does not wait for time. The task of a waiting handler is claimed, and
// processing once it has run for so long that the worker reports its start.
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
	claimed, processing, cancelling := t.Running()
	return claimed > unreported || claimed+processing > len(t.attempts) || cancelling > 0
}

// opens reports whether the stream of a worker is not answered yet.
func (t *tracker) opens() bool {
	return slices.ContainsFunc(t.workers, func(w *worker) bool { return w.opens && !w.over })
}

// couldRun reports whether a queue has a task for which a worker has a free slot.
func (t *tracker) couldRun() bool {
	for lambda := range t.Queued() {
		if slices.ContainsFunc(t.workers, func(w *worker) bool { return w.serves(lambda, t) }) {
			return true
		}
	}
	return false
}

// nextLocked returns the next due time after now.
func (t *tracker) nextLocked(now task.Instant) (next task.Instant, found bool) {
	next, found = t.Next(now)
	consider := func(at task.Instant) {
		if at > now && (!found || at < next) {
			next, found = at, true
		}
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

// assumeWaiting marks the handlers that have used their contexts as waiting for them to end.
func (t *tracker) assumeWaiting() {
	t.Lock()
	defer t.Unlock()
	for a := range t.attempts {
		if a.asked.Load() && !a.waits {
			a.waits = true
			t.Changed()
		}
	}
}

// describe names what is due and has not ended, a line each.
func (t *tracker) describe(now task.Instant) string {
	t.Lock()
	defer t.Unlock()
	var lines []string
	for a := range t.attempts {
		if !a.waiting(now) {
			lines = append(lines, fmt.Sprintf("%v: its handler has not returned", a))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		lines = t.Overdue(now, describeMax)
	}
	if more := len(lines) - describeMax; more > 0 {
		lines = append(lines[:describeMax], fmt.Sprintf("and %d more", more))
	}
	return "\n\t" + strings.Join(lines, "\n\t")
}
