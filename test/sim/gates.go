package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Gate pauses the lambda, or one priority of it, for a while.
type Gate struct {
	At, For time.Duration
	Class   string // empty: all tasks
}

const (
	// gateInForce is how soon after its acknowledgement a gate holds everywhere, where nothing fails; what is
	// being written then comes on top.
	gateInForce = 2*time.Second + 50*time.Millisecond
	// gateLasting is how long after the end of a gate tasks may still be late.
	gateLasting = 10 * time.Second
)

// gatesOf draws the gates of a plan, apart from everything else.
func (p *Plan) gatesOf(seed uint64, span time.Duration) (all []Gate) {
	r := rand.New(rand.NewPCG(seed, 7))
	if r.IntN(3) > 0 {
		return nil
	}
	for range 1 + r.IntN(2) {
		all = append(all, Gate{
			At: time.Duration(r.Int64N(int64(span))), For: time.Duration(r.IntN(40_000)) * time.Millisecond,
			Class: []string{"", "high", "low"}[r.IntN(3)],
		})
	}
	return all
}

// gated is a gate as far as it is known to be set.
type gated struct {
	ref        uint32
	gate       *hold.Gate
	begun      time.Time // when it was first written
	set, ended time.Time // when that was acknowledged, and when its end was first written; zero: it was not
}

// keepGate sets a gate and ends it, as operators do, at any server that answers.
func (w *world) keepGate(number int, g Gate) {
	time.Sleep(g.At)
	one := &gated{begun: time.Now(), gate: &hold.Gate{ID: strconv.Itoa(number), Action: hold.Pause, Lambda: lambda, Reason: "simulated"}}
	w.mu.Lock()
	w.gates = append(w.gates, one)
	w.mu.Unlock()
	w.writeGate("set", func(s *server, rows *store.Store) error {
		if !one.about(s, g.Class) {
			return store.ErrNotFound
		}
		row, err := gate.AsRows.Encode(one.gate)
		if err != nil {
			return err
		}
		return rows.PutControl(w.ctx, row)
	})
	w.mu.Lock()
	one.set = time.Now()
	w.mu.Unlock()
	time.Sleep(g.For)
	w.mu.Lock()
	one.ended = time.Now()
	w.mu.Unlock()
	w.writeGate("ended", func(_ *server, rows *store.Store) error {
		return rows.DeleteControl(w.ctx, store.Control{Kind: gate.Kind, Name: one.gate.ID, Version: 1})
	})
}

// about fills in what the gate is about; false if a server does not know the lambda.
func (g *gated) about(s *server, class string) bool {
	for _, l := range s.node.Lambdas() {
		if l.Name == lambda {
			g.ref, g.gate.Ref, g.gate.Priority = l.Ref, l.Ref, class
			g.gate.Class = uint8(max(0, slices.Index(l.Priorities, class)))
			return true
		}
	}
	return false
}

// writeGate writes until a server says that it is done, or was before.
func (w *world) writeGate(what string, write func(s *server, rows *store.Store) error) {
	for w.ctx.Err() == nil {
		if s := w.any(); s != nil {
			err := write(s, store.New(s.rows, store.Config{Clock: s.clock}))
			w.trace.note("operator", "gate is %s: %v", what, err)
			if err == nil || errors.Is(err, store.ErrConflict) {
				w.saw("gate " + what)
				return
			}
		}
		time.Sleep(time.Second)
	}
}

// checkClaim is invariant I22: no task is claimed while a gate holds it that everybody knows. Servers that
// cannot read the gates keep those that they knew last, so it is so where nothing fails.
func (w *world) checkClaim(op *store.Op) {
	t, now := &op.Task, time.Now()
	if t.State != task.Claimed || !w.plan.Calm {
		return
	}
	w.mu.Lock()
	var late string
	for _, g := range w.gates {
		if g.ref == t.Partition.Lambda && g.gate.Selects(t) && !g.set.IsZero() && now.After(g.set.Add(gateInForce)) && g.ended.IsZero() {
			late = fmt.Sprintf("I22: task %s was claimed %v after its gate was set", t.ID, now.Sub(g.set))
		}
	}
	w.mu.Unlock()
	if late != "" {
		w.breach("%s", late)
	}
}

// mayBeHeld reports whether a task may have waited for a gate, a slot or its limit key, or because there was
// such a thing: it goes through the schedule then.
func (w *world) mayBeHeld(t *task.Task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Occurrence != nil && w.plan.Ticks.waits() {
		return true
	}
	if w.slots.ref == t.Partition.Lambda || w.keys.ref == t.Partition.Lambda {
		return true
	}
	for _, g := range w.gates {
		over := !g.ended.IsZero() && t.Due.Time().After(g.ended.Add(gateLasting))
		if !over && g.ref == t.Partition.Lambda && time.Now().After(g.begun) {
			return true
		}
	}
	return false
}
