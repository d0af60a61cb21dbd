package sdktest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

const (
	describeMax = 10 // tasks named in a message
	// spinsMax is how often one task may start without time moving on.
	spinsMax = 1000
)

// tracker knows what is due and has not ended, and the next due time. Time moves only with its lock held and
// while it is not busy, so that no goroutine that has work to do sees time jump.
type tracker struct {
	events chan struct{} // holds one value when something has changed

	mu       sync.Mutex // guards all below; held during writes to the store
	progress uint64     // changes so far
	rows     rows
	workers  []*worker
	attempts map[*attempt]struct{}
	sleeps   map[*sleep]struct{}
	starts   map[string]int // by task, since time last moved
	spinning *attempt       // set when its task started too often

	server server
	looks  map[task.Partition]look
	acts   task.Instant // when the server does something about what it holds, or for a job; never: not by itself
}

// server says what became of due tasks that it has not dispatched (node.Node).
type server interface {
	Look(p task.Partition, from task.Instant) uint64
	Rests(p task.Partition) (look uint64, acts task.Instant, ok bool)
	WorkRests() (until task.Instant, ok bool)
}

// look is when the server was asked to look at a partition.
type look struct {
	number   uint64
	progress uint64
	at       task.Instant
}

const never = task.Instant(math.MaxInt64)

func newTracker() *tracker {
	return &tracker{
		events: make(chan struct{}, 1), rows: newRows(),
		attempts: map[*attempt]struct{}{}, sleeps: map[*sleep]struct{}{}, starts: map[string]int{}, looks: map[task.Partition]look{}, acts: never,
	}
}

// changed wakes settle. Call with mu held.
func (t *tracker) changed() {
	t.progress++
	t.signal()
}

// signal wakes settle. It needs no lock.
func (t *tracker) signal() {
	select {
	case t.events <- struct{}{}:
	default:
	}
}

func (t *tracker) addWorker(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers = append(t.workers, w)
}

func (t *tracker) register(w *worker, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.opens = w.opens || w.id == ""
	w.id = id
	t.changed()
}

// opened notes that the stream of a worker was answered, or broke.
func (t *tracker) opened(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.opens {
		w.opens = false
		t.changed()
	}
}

func (t *tracker) endWorker(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.over = true
	t.changed()
}

func (t *tracker) begin(ctx context.Context, work *kinesinv1.Claimed, now task.Instant) *attempt {
	a := &attempt{work: work, start: now, ctx: ctx, asked: new(atomic.Bool), sleeps: map[*sleep]struct{}{}}
	if work.Timeout > 0 {
		a.end = now.Add(task.Micros(work.Timeout))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts[a] = struct{}{}
	if t.starts[work.Id]++; t.starts[work.Id] > spinsMax {
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

// addSleep adds a sleep. Call with mu held.
func (t *tracker) addSleep(s *sleep) {
	t.sleeps[s] = struct{}{}
	if s.of != nil {
		s.of.sleeps[s] = struct{}{}
	}
	t.changed()
}

func (t *tracker) endSleep(s *sleep) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sleeps, s)
	if s.of != nil {
		delete(s.of.sleeps, s)
	}
	t.changed()
}

// nameOf returns the name for a lambda's reference.
func (t *tracker) nameOf(ref uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows.names[ref]
}

// busy reports whether something that is due has not ended, and how many changes there were.
func (t *tracker) busy(now task.Instant) (busy bool, progress uint64, spinning *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.busyLocked(now), t.progress, t.spinning
}

func (t *tracker) busyLocked(now task.Instant) bool {
	return t.runs(now) || t.couldRun() || t.opens() || t.rows.groups.isEnding(now) || !t.isHeld(now)
}

// isHeld reports whether the server holds all that is due and was not dispatched, by a gate, a quota or the like: since
// the last change and at this instant it has looked at each such task, and it has nothing to do.
func (t *tracker) isHeld(now task.Instant) bool {
	until, held := t.server.WorkRests()
	t.acts = until
	for p, tree := range t.rows.wakeups {
		first, found := tree.Min()
		if !found || first.at > now {
			continue
		}
		made, acts, rests := t.server.Rests(p)
		if !rests || acts <= now {
			held = false
			continue
		}
		if asked := t.looks[p]; asked.progress != t.progress || asked.at != now {
			t.looks[p] = look{t.server.Look(p, first.at), t.progress, now}
			held = false
		} else if made < asked.number {
			held = false
		}
		t.acts = min(t.acts, acts)
	}
	return held
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
	return t.rows.claimed > unreported || t.rows.claimed+t.rows.processing > len(t.attempts) || t.rows.cancelling > 0
}

// opens reports whether the stream of a worker is not answered yet.
func (t *tracker) opens() bool {
	return slices.ContainsFunc(t.workers, func(w *worker) bool { return w.opens && !w.over })
}

// couldRun reports whether a queue has a task for which a worker has a free slot.
func (t *tracker) couldRun() bool {
	for lambda, n := range t.rows.queued {
		serves := func(w *worker) bool { return w.serves(t.rows.names[lambda], &t.rows) }
		if n > 0 && slices.ContainsFunc(t.workers, serves) {
			return true
		}
	}
	return false
}

// nextLocked returns the next due time after now.
func (t *tracker) nextLocked(now task.Instant) (next task.Instant, found bool) {
	consider := func(at task.Instant) {
		if at > now && (!found || at < next) {
			next, found = at, true
		}
	}
	if t.acts != never {
		consider(t.acts)
	}
	for _, tree := range t.rows.wakeups {
		tree.AscendGreaterOrEqual(wakeup{at: now + 1, waiting: true}, func(first wakeup) bool {
			consider(first.at)
			return false
		})
	}
	for a := range t.attempts {
		consider(a.start.Add(controller.StartedAfter))
		consider(a.end)
	}
	for _, g := range t.rows.groups {
		if g.group.ID != "" {
			consider(g.lastLook())
		}
	}
	for s := range t.sleeps {
		consider(s.until)
	}
	return next, found
}

// assumeWaiting marks the handlers that have used their contexts as waiting for them to end.
func (t *tracker) assumeWaiting() {
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
