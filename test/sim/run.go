package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

// Result is what became of a run.
type Result struct {
	Seed     uint64
	Plan     Plan
	Hash     string
	Breaches []string
	Seen     map[string]int
	Trace    *Trace `json:"-"`
	Virtual  time.Duration
}

// Run runs a plan under a seed, and calls done with what became of it before the last goroutines end.
func Run(t *testing.T, seed uint64, plan Plan, keep bool, done func(Result)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		seedRuntime(true, seed)
		defer seedRuntime(false, 0)
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{
			seed: seed, plan: plan, start: time.Now(), trace: newTrace(time.Now(), keep), ctx: ctx, rows: storemem.New(),
			random: rand.New(rand.NewPCG(seed, 2)), active: map[Kind]float64{}, cuts: map[string]bool{}, set: map[string]time.Duration{}, reused: map[string]bool{}, fired: map[string]int{},
			snoozed: map[string]int{}, workers: make([]*worker, plan.Workers),
		}
		w.ledger.held = w.mayBeHeld
		w.queues = w.newQueues()
		switch plan.Form {
		case cloud:
			var err error
			if w.amazon, err = w.newAmazon(); err != nil {
				t.Fatal(err)
			}
		case fleet, alone:
		case embedded:
			w.disk, w.ledger.gaps = w.newDisk(), true
		}
		over := make(chan struct{})
		go w.watch(over)
		w.live()
		virtual := time.Since(w.start)
		cancel()
		w.end()
		close(over)
		result := Result{Seed: seed, Plan: plan, Hash: w.trace.Hash(), Seen: w.fired, Trace: w.trace, Virtual: virtual}
		result.Breaches = slices.Concat(w.judge(), checkRegisters(w.registers()), w.drafts.judge())
		done(result)
	})
}

// settleMax bounds, in virtual time, how long everything may take to end once the faults are over: a task
// whose message got lost in an outage of hours is sent again when its enqueue timeout is over.
const settleMax = task.EnqueueTimeoutMax + 30*time.Minute

// live is the run: the fleet comes up, load and faults come over it, and then everything has to end.
func (w *world) live() {
	for i := range w.plan.Servers {
		w.serve(i)
	}
	setup := w.client(0)
	for w.ctx.Err() == nil {
		_, _, err := admin.New(setup.sdk).Lambdas.Create(w.ctx, w.plan.Brakes.First.info(admin.Lambda{
			Name: lambda, Timeout: time.Hour, Shards: w.plan.Shards, MaxAttempts: attemptsMax, BackoffMin: time.Second, BackoffMax: 3 * time.Second,
		}))
		if err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	w.openSlots(setup)
	w.openBrakes()
	w.mailbox = w.openMailbox(setup)
	w.drafts = w.openDrafts(setup)
	w.ticks = w.openTicks(setup)
	w.graphs = w.openGraphs(setup)
	for i := range w.plan.Workers {
		w.running.Go(func() { w.employ(i) })
	}
	time.Sleep(5 * time.Second)
	begin := time.Now()
	var storm sync.WaitGroup
	for _, f := range w.plan.Faults {
		storm.Go(func() {
			time.Sleep(f.At)
			w.inflict(f)
		})
	}
	var load sync.WaitGroup
	for n, g := range w.plan.Gates {
		load.Go(func() { w.keepGate(n+1, g) })
	}
	if w.plan.Ticks != nil {
		load.Go(func() { w.ticks.change(w.client(4)) })
		for _, at := range w.plan.Ticks.Backfills {
			load.Go(func() { w.ticks.backfill(w.client(4), at) })
		}
	}
	if len(w.plan.Brakes.Later) > 0 {
		load.Go(func() { w.changeBrakes(setup) })
	}
	w.graphs.begin(&load)
	w.order(&load)
	time.Sleep(time.Until(begin.Add(w.plan.Heal)))
	storm.Wait()
	w.trace.note("storm", "is over")
	load.Wait()
	w.settle()
	w.checkListed(w.report())
	w.mailbox.judge()
	w.drafts.report()
	w.ticks.judge()
	w.graphs.judge()
}

func (w *world) order(load *sync.WaitGroup) {
	clients := []*client{w.client(1), w.client(2)}
	for i := range w.plan.Parcels {
		p := &w.plan.Parcels[i]
		load.Go(func() { w.mailbox.mail(clients[p.Client], i, p) })
	}
	ids := make([]sdk.ID, len(w.plan.Load))
	var mu sync.Mutex
	for i := range w.plan.Load {
		o := w.plan.Load[i]
		if o.Do == again {
			first := w.plan.Load[o.Of]
			o.Task, o.In, o.Key, o.Class, o.LimitKey = first.Task, first.In, first.Key, first.Class, first.LimitKey
		}
		load.Go(func() {
			time.Sleep(o.At)
			clients[o.Client].do(&o, func(of int) sdk.ID {
				mu.Lock()
				defer mu.Unlock()
				return ids[of]
			}, func(id sdk.ID) {
				mu.Lock()
				defer mu.Unlock()
				ids[i] = id
				w.learn(knownID{id, o.Key})
			})
		})
	}
}

// knownID is the first id that a client was told of a task.
type knownID struct {
	id  sdk.ID
	key string
}

func (w *world) learn(k knownID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, known := range w.ids {
		if taskOf(known.id) == taskOf(k.id) {
			return
		}
	}
	w.ids = append(w.ids, k)
}

// settle waits until no task lives.
func (w *world) settle() {
	from := time.Now()
	c := w.client(5)
	most := settleMax + w.plan.stepsBack()
	if w.plan.farApart() {
		most += 2 * (w.plan.stepsBack() + w.plan.stepsForward()) // one server waits for its clock, then another for its own
	}
	for time.Since(from) < most {
		time.Sleep(max(time.Second, time.Since(from)/20)) // most end soon, and others wait for an hour
		if w.living(c) == 0 {
			w.trace.note("run", "settled %v after the faults", time.Since(from))
			return
		}
	}
	w.breach("I10: tasks live %v after the last fault", most)
}

// living is how many tasks have not ended: of all that are stored where the store counts them, else of those
// that a client knows of.
func (w *world) living(c *client) int {
	s := w.any()
	if w.rows == nil && s == nil {
		return 1
	}
	if rows := w.driver(s); rows != nil && rows.Capabilities().Depths != nil {
		if counts, ready := rows.Capabilities().Depths(); ready {
			live := 0
			for p, depth := range counts {
				for state, n := range depth {
					if !task.State(state).IsEnd() {
						live += int(n)
					}
				}
				live -= w.leftovers(rows, p)
			}
			return live + w.graphs.pending(c) + w.ticks.filling(c)
		}
	}
	live := w.graphs.pending(c) + w.mailbox.pending() + w.drafts.pending(c) + w.ticks.pending(c)
	for _, k := range w.ids {
		if info, err := c.sdk.Get(w.ctx, k.id); err != nil && !errors.Is(err, sdk.ErrNotFound) || err == nil && !info.State.IsEnd() {
			live++
		}
	}
	return live
}

// driver returns the store that all servers share, or that of the one which has its own; nil if there is
// none.
func (w *world) driver(s *server) store.Driver {
	switch {
	case w.plan.Form == fleet || w.plan.Form == alone:
		return w.rows
	case w.plan.Form == embedded && s != nil:
		return s.rows
	}
	return nil
}

// leftoversMax bounds what leftovers looks at.
const leftoversMax = 1000

// leftovers counts the wake-up rows that are left behind when a task starts while its chain is paused: the
// row of the pause comes before the change of the task. They are deleted at their time, in the year 2200.
func (w *world) leftovers(rows store.Driver, p task.Partition) (n int) {
	paused, err := rows.ScanSchedule(w.ctx, p, store.WakeKey{Wake: chain.Never - 1}, chain.Never, leftoversMax)
	if err != nil {
		return 0
	}
	for i := range paused {
		t, err := rows.Tasks(w.ctx, []task.ID{paused[i].ID})
		if err == nil && paused[i].IsBare() && len(t) == 1 && t[0].WakeRow != paused[i].WakeRow {
			n++
		}
	}
	return n
}

// report asks a server what became of each task.
func (w *world) report() (states map[string]task.State) {
	c := w.client(3)
	states = map[string]task.State{}
	for _, k := range w.ids {
		info, err := c.look(w.ctx, k.id)
		if err != nil {
			w.trace.note(c.name, "get %s: %v", k.id, err)
			if errors.Is(err, sdk.ErrNotFound) && w.isKeyReused(c, k) {
				w.saw("key of a task that was given up, used again")
				w.reused[taskOf(k.id)] = true
			}
			continue
		}
		e := checker.Event{Kind: checker.Reported, Task: taskOf(k.id), State: info.State.String(), Attempt: uint32(info.Attempt), Failures: uint32(info.Failures), Lost: uint32(info.WorkerLost)}
		for _, a := range info.Attempts {
			if a.Outcome == "success" || a.Outcome == "fatal_failure" {
				e.Winner = uint32(a.Number)
			}
		}
		w.event(e)
		states[e.Task] = stateOf(&info)
	}
	return states
}

// isKeyReused reports whether a task was given up, so that its key was free, and a second call used the key
// again: then the id of the first is gone, and there is another task, which has ended. The register of one
// task and the charges of one do not explain both; drafts are about such keys.
func (w *world) isKeyReused(c *client, k knownID) bool {
	if k.key == "" || !w.ledger.gaps && w.plan.Form != cloud && !w.ledger.isGivenUp(taskOf(k.id)) {
		return false
	}
	info, err := c.sdk.Get(w.ctx, sdk.ByKey(lambda, k.key))
	return err == nil && taskOf(info.ID) == taskOf(k.id) && lifeOf(info.ID) > lifeOf(k.id) && info.State.IsEnd()
}

// indexLag is for how long an index may show the past.
const indexLag = 5 * time.Second

// checkListed is invariant I21: the list of all tasks has each one that a client knows of once, in the state
// that it is in.
func (w *world) checkListed(states map[string]task.State) {
	time.Sleep(indexLag)
	c := w.client(6)
	left := maps.Clone(states)
	for info, err := range c.sdk.List(w.ctx, sdk.ListQuery{Lambda: lambda}) {
		id := taskOf(info.ID)
		switch state, there := left[id]; {
		case err != nil:
			w.trace.note(c.name, "list: %v", err)
			return
		case there && state == stateOf(&info):
			delete(left, id)
		case states[id] != task.Unknown:
			w.breach("I21: task %s is %s, and is listed as %s, or twice", id, states[id], info.State)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		w.breach("I21: task %s is %s, and is not listed so", id, left[id])
	}
}

// end stops everything in order.
func (w *world) end() {
	w.running.Wait()
	for i := range w.servers {
		if s := w.take(i); s != nil {
			<-s.over
		}
	}
	time.Sleep(time.Minute)
	if w.queues.shared != nil {
		_ = w.queues.shared.Close()
	}
}

// virtualMax bounds a run in virtual time: one that takes longer has come to a stop.
const virtualMax = 12 * time.Hour

func (w *world) watch(over <-chan struct{}) {
	timer := time.NewTimer(virtualMax)
	defer timer.Stop()
	select {
	case <-timer.C:
		buf := make([]byte, 1<<20)
		panic(fmt.Sprintf("seed %d does not end in %v of virtual time\n%s\n%s", w.seed, virtualMax, w.trace, buf[:runtime.Stack(buf, true)]))
	case <-over:
	}
}

func (w *world) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace.note("breach", "%s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaches = append(w.breaches, text)
}
