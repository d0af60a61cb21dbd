package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/test/checker"
)

// world is one run.
type world struct {
	seed  uint64
	plan  Plan
	start time.Time
	trace *Trace
	ctx   context.Context //nolint:containedctx // of the whole run

	rows   *storemem.Driver // of the forms fleet and alone
	queues *queues
	amazon *amazon // of cloud
	disk   *disk   // of embedded

	mailbox *mailbox
	drafts  *drafts
	ticks   *ticks
	graphs  *graphs

	mu        sync.Mutex // guards all below
	random    *rand.Rand
	pids      int
	active    map[Kind]float64         // the share of each fault that is on
	set       map[string]time.Duration // by how much the clock of each machine was set
	cuts      map[string]bool          // processes that are cut off
	fired     map[string]int           // what has happened, by name: the coverage
	events    []checker.Event
	calls     []call
	ledger    ledger
	gates     []*gated
	slots     slots
	keys      keyLimits
	uncounted bool      // a server's clock was set back by more than its look-ahead
	servers   []*server // by slot; nil while there is none
	workers   []*worker
	snoozed   map[string]int
	breaches  []string
	ids       []knownID
	reused    map[string]bool // tasks that were given up, and whose key was used again
	awayCalls int             // calls of the store while it is away
	running   sync.WaitGroup
}

// latency is how long a call takes.
func (w *world) latency(kind Kind) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := 20*time.Microsecond + time.Duration(w.random.Int64N(int64(2*time.Millisecond)))
	if slow := w.active[kind]; slow > 0 && w.random.IntN(3) == 0 {
		w.fired[string(kind)]++
		d += time.Duration(w.random.Float64() * slow * float64(time.Second))
	}
	return d
}

// strikes decides whether a fault that strikes calls strikes this one.
func (w *world) strikes(kind Kind, who string) bool {
	w.mu.Lock()
	share := w.active[kind]
	hit := share > 0 && w.random.Float64() < share
	if hit {
		w.fired[string(kind)]++
	}
	w.mu.Unlock()
	if hit {
		w.trace.note(who, "fault: %s", kind)
	}
	return hit
}

// chance is a number below n.
func (w *world) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// saw counts something that has to happen in a batch of seeds.
func (w *world) saw(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[what]++
}

func (w *world) away(kind Kind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active[kind] > 0
}

// countAway counts calls of the store while it is away.
func (w *world) countAway(kind Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind == Store && w.active[StoreAway] > 0 {
		w.awayCalls++
	}
}

// cut reports whether two processes cannot reach each other.
func (w *world) cut(a, b *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[a.name] || w.cuts[b.name]
}

// event adds to the history that is judged.
func (w *world) event(e checker.Event) {
	e.At = time.Now().UnixMicro()
	w.trace.note("history", "%s task=%s nonce=%s attempt=%d pid=%d %s%s", e.Kind, e.Task, e.Nonce, e.Attempt, e.PID, e.Outcome, e.State)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// history is what was seen so far.
func (w *world) history() []checker.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}
