package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

const (
	// keyLimitInForce is how soon after its acknowledgement a limit by key holds everywhere, where nothing
	// fails (docs/concepts/limits.md); what is being written then comes on top.
	keyLimitInForce = 4*time.Second + 50*time.Millisecond
	// keyLimitTrouble is how long after the end of a fault servers may still not know a limit, or write what
	// they decided before.
	keyLimitTrouble = 30 * time.Second
	// noLimit stands for any number of tasks.
	noLimit = 1 << 30
)

// Brakes are the limits by key of the lambda, and its retry budget: as it is created, and as it is changed
// later.
type Brakes struct {
	First Brake
	Later []Brake `json:",omitempty"`
}

// Brake sets limits: 0 changes nothing, and a negative number takes a limit away.
type Brake struct {
	At     time.Duration
	AtOnce int     // tasks of one limit key
	Rate   float64 // starts of one limit key per second
	Share  float64 // retries for each first start
}

// limitsKeys reports whether the lambda ever has limits by key.
func (b *Brakes) limitsKeys() bool {
	return slices.ContainsFunc(b.all(), func(one Brake) bool { return one.AtOnce > 0 || one.Rate > 0 })
}

// isSet reports whether there is anything to set.
func (b *Brakes) isSet() bool {
	return slices.ContainsFunc(b.all(), func(one Brake) bool { return one.AtOnce > 0 || one.Rate > 0 || one.Share > 0 })
}

func (b *Brakes) all() []Brake { return append([]Brake{b.First}, b.Later...) }

// brakes draws the limits by key of the lambda and its retry budget, and has tasks of limit keys come due at
// about the same time. It is drawn apart from everything else.
func (p *Plan) brakes(seed uint64, span time.Duration) {
	r := rand.New(rand.NewPCG(seed, 9))
	if r.IntN(6) > 0 {
		return
	}
	keyed, budgeted := r.IntN(4) > 0, r.IntN(3) == 0
	draw := func(one *Brake) {
		if keyed {
			one.AtOnce = []int{1, 1, 2, 3, 0}[r.IntN(5)]
			one.Rate = []float64{0, 0, 1, 5}[r.IntN(4)]
		}
		if budgeted || !keyed {
			one.Share = []float64{0.05, 0.5}[r.IntN(2)]
		}
	}
	b := &p.Brakes
	if r.IntN(3) > 0 {
		draw(&b.First)
	}
	for range r.IntN(4) {
		one := Brake{At: time.Duration(r.Int64N(int64(span)))}
		if draw(&one); r.IntN(3) == 0 {
			one = Brake{At: one.At, AtOnce: -1, Rate: -1, Share: []float64{0, -1}[r.IntN(2)]}
		}
		b.Later = append(b.Later, one)
	}
	slices.SortStableFunc(b.Later, func(x, y Brake) int { return cmp.Compare(x.At, y.At) })
	if b.isSet() {
		p.crowd(r, span)
	}
}

// crowd gives tasks their limit keys, has many come due at one instant, and many fail once where retries are
// bounded. Clients look at some of them then.
func (p *Plan) crowd(r *rand.Rand, span time.Duration) {
	instant := span/4 + time.Duration(r.Int64N(int64(span)/2))
	fails := slices.ContainsFunc(p.Brakes.all(), func(one Brake) bool { return one.Share > 0 })
	var looks []Order
	for i := range p.Load {
		o := &p.Load[i]
		if o.Do != schedule {
			continue
		}
		o.LimitKey = []string{"hot", "hot", "hot", "cold", "other", ""}[r.IntN(6)]
		crowds := r.IntN(3) > 0 && o.At < instant
		if crowds {
			o.In = instant - o.At
		}
		if w := &o.Task; fails && w.want() == "success" && !w.Poison && w.Fails == 0 && r.IntN(3) > 0 {
			w.Fails = 1
		}
		if crowds && r.IntN(4) == 0 {
			looks = append(looks, Order{At: instant + time.Duration(r.IntN(10_000))*time.Millisecond, Of: i, Do: get})
		}
	}
	p.Load = append(p.Load, looks...)
}

// limited is a limit of how many tasks of each key run at once, as far as it is known to be set.
type limited struct {
	most  int
	begun time.Time // when it was first asked for
	set   time.Time // when that was acknowledged; zero: it was not
}

// keyLimits knows what limits there were, and which tasks of the limit keys hold a slot and which run, by
// their rows.
type keyLimits struct {
	ref    uint32    // of the lambda; 0: it never has limits by key
	ever   []limited // in the order in which they were set
	since  map[task.ID]time.Time
	runs   map[string]map[task.ID]bool
	faults []faultTime
}

// faultTime is when a fault was there.
type faultTime struct {
	from, to time.Time // to is zero while it lasts
}

// info are the settings of a lambda that a brake changes.
func (b *Brake) info(into admin.Lambda) admin.Lambda {
	into.LimitKeyConcurrency, into.LimitKeyRate, into.RetryShare = max(b.AtOnce, 0), max(b.Rate, 0), max(b.Share, 0)
	return into
}

// resets names the limits to take away.
func (b *Brake) resets() (names []string) {
	for name, isTaken := range map[string]bool{"limit_key_concurrency": b.AtOnce < 0, "limit_key_rate": b.Rate < 0, "retry_share": b.Share < 0} {
		if isTaken {
			names = append(names, name)
		}
	}
	return names
}

// openBrakes notes which lambda it is that has limits by key, once it is made with the first ones.
func (w *world) openBrakes() {
	if !w.plan.Brakes.limitsKeys() {
		return
	}
	for w.ctx.Err() == nil {
		if s := w.any(); s != nil {
			for _, l := range s.node.Lambdas() {
				if l.Name == lambda {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.keys.ref = l.Ref
					w.keys.ever = []limited{{most: cmp.Or(w.plan.Brakes.First.AtOnce, noLimit), begun: w.start, set: w.start}}
					return
				}
			}
		}
		time.Sleep(time.Second)
	}
}

// changeBrakes sets the later limits, one after the other, as operators do.
func (w *world) changeBrakes(c *client) {
	begin := time.Now()
	for i := range w.plan.Brakes.Later {
		one := &w.plan.Brakes.Later[i]
		time.Sleep(time.Until(begin.Add(one.At)))
		w.mu.Lock()
		ever := &w.keys.ever
		if n := len(*ever); n > 0 {
			next := limited{most: (*ever)[n-1].most, begun: time.Now()}
			if one.AtOnce != 0 {
				next.most = max(one.AtOnce, 0)
			}
			next.most = cmp.Or(next.most, noLimit)
			*ever = append(*ever, next)
		}
		w.mu.Unlock()
		for w.ctx.Err() == nil {
			ctx, stop := context.WithTimeout(w.ctx, callWithin)
			_, err := admin.New(c.sdk).Lambdas.Update(ctx, one.info(admin.Lambda{Name: lambda}), admin.LambdaUpdateOptions{Reset: one.resets()})
			stop()
			w.trace.note("operator", "limits by key %+v: %v", *one, err)
			if err == nil {
				break
			}
			time.Sleep(time.Second)
		}
		w.saw("limits by key changed")
		if one.AtOnce < 0 {
			w.saw("limits by key taken away")
		}
		w.mu.Lock()
		if n := len(w.keys.ever); n > 0 {
			w.keys.ever[n-1].set = time.Now()
		}
		w.mu.Unlock()
	}
}

// troubled notes that a fault is there, until what it returns is called.
func (w *world) troubled() (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := &w.keys
	n := len(k.faults)
	k.faults = append(k.faults, faultTime{from: time.Now()})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		k.faults[n].to = time.Now()
	}
}

// most returns how many tasks of a key may have a slot of those who got theirs in a time: as many as the
// loosest limit allows that may have been in force for somebody then. Call with mu held.
func (k *keyLimits) most(from, to time.Time) (most int) {
	for i := range k.ever {
		one := &k.ever[i]
		last := i+1 == len(k.ever)
		if !one.begun.After(to) && (last || k.ever[i+1].set.IsZero() || !k.inForce(k.ever[i+1].set).Before(from)) {
			most = max(most, one.most)
		}
	}
	return most
}

// inForce returns from when on everybody knows what was acknowledged at a time. A server that reaches nobody
// learns it after its fault.
func (k *keyLimits) inForce(acknowledged time.Time) time.Time {
	at := acknowledged.Add(keyLimitInForce)
	for again := true; again; {
		again = false
		for _, f := range k.faults {
			switch {
			case f.from.After(at):
			case f.to.IsZero():
				return at.Add(virtualMax)
			case f.to.Add(keyLimitTrouble).After(at):
				at, again = f.to.Add(keyLimitTrouble), true
			}
		}
	}
	return at
}

// checkKeys is invariant I24, after every write of a task row: at no time do more tasks of one limit key run
// than the limit allowed when the last of them got its slot. A task gets its slot when it is sent, and has it
// until its attempt has ended. The allowance of I23 holds here, too.
func (w *world) checkKeys(op *store.Op) {
	t := &op.Task
	if op.Kind != store.PutTask && op.Kind != store.ReplaceTask {
		return
	}
	w.mu.Lock()
	k := &w.keys
	var found string
	if !w.uncounted && k.ref == t.Partition.Lambda && k.ref != 0 && t.LimitKey != "" {
		runs := k.runs[t.LimitKey]
		delete(runs, t.ID)
		if t.State == task.Enqueued || t.State.IsRunning() {
			k.getsSlot(t)
		} else {
			delete(k.since, t.ID)
		}
		if t.State.IsRunning() {
			found = k.run(t)
		}
	}
	w.mu.Unlock()
	if found != "" {
		w.breach("%s", found)
	}
}

// getsSlot notes a task that is on its way to a worker. Call with mu held.
func (k *keyLimits) getsSlot(t *task.Task) {
	if k.since == nil {
		k.since, k.runs = map[task.ID]time.Time{}, map[string]map[task.ID]bool{}
	}
	if _, has := k.since[t.ID]; !has {
		k.since[t.ID] = time.Now()
	}
}

// run notes a task that runs, and says what is wrong with that. Call with mu held.
func (k *keyLimits) run(t *task.Task) string {
	if k.runs[t.LimitKey] == nil {
		k.runs[t.LimitKey] = map[task.ID]bool{}
	}
	runs := k.runs[t.LimitKey]
	runs[t.ID] = true
	var latest time.Time
	for id := range runs {
		if at := k.since[id]; at.After(latest) {
			latest = at
		}
	}
	if most := k.most(latest, latest); len(runs) > most {
		return fmt.Sprintf("I24: %d tasks of limit key %s run at once, the last one %s, and the limit was %d when the last one got its slot", len(runs), t.LimitKey, t.ID, most)
	}
	return ""
}

// sentOfKey notes a message of a task that has no row yet, which has a slot.
func (w *world) sentOfKey(m *queue.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := &w.keys; k.ref == m.Task.Partition.Lambda && k.ref != 0 && m.Task.LimitKey != "" && m.Task.State == task.Scheduled {
		k.getsSlot(&m.Task)
	}
}

// checkHandlers is invariant I24 as workers see it: at no time do more handlers run for tasks of one limit
// key than the loosest limit that may have been in force when the last one of them got its slot. It is all
// that is checked where nobody sees the writes. The acts of a process that was stopped do not count: its
// lease may be over.
func (w *world) checkHandlers(events []checker.Event) (breaches []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := &w.keys
	if k.ref == 0 || w.uncounted {
		return nil
	}
	keys := map[string]string{} // by nonce
	for i := range w.plan.Load {
		if o := &w.plan.Load[i]; o.Do == schedule && o.LimitKey != "" {
			keys[o.Task.Nonce] = o.LimitKey
		}
	}
	earliest := map[string]time.Time{} // when a task got its slot, by nonce
	runs := map[string]checker.Event{}
	for _, e := range events {
		at := time.UnixMicro(e.At)
		switch e.Kind {
		case checker.Requested:
			if _, again := earliest[e.Nonce]; !again {
				earliest[e.Nonce] = at
			}
		case checker.Died, checker.Stopped:
			for nonce, run := range runs {
				if run.PID == e.PID {
					delete(runs, nonce)
				}
			}
		case checker.Ended:
			if runs[e.Nonce].Attempt == e.Attempt {
				delete(runs, e.Nonce)
			}
			earliest[e.Nonce] = at
		case checker.Started:
			key := keys[e.Nonce]
			if key == "" {
				continue
			}
			runs[e.Nonce] = e
			n, latest := 0, time.Time{}
			for nonce := range runs {
				if keys[nonce] != key {
					continue
				}
				if n++; earliest[nonce].After(latest) {
					latest = earliest[nonce]
				}
			}
			if most := k.most(latest, at); n > most {
				breaches = append(breaches, fmt.Sprintf("I24: %d handlers run at once for limit key %s at %v, the last one for task %s, and the limit was %d", n, key, at.Sub(w.start), e.Task, most))
			} else if n == most {
				w.fired["limit key full"]++
			}
		default: // nothing about what runs
		}
	}
	return breaches
}

// forgetKeys forgets what runs, where the writes of a server that was killed may be missing.
func (w *world) forgetKeys() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.keys.runs)
	clear(w.keys.since)
}
