package sim

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
)

// inflict has one fault happen, and returns when it is over.
func (w *world) inflict(f Fault) {
	w.trace.note("storm", "%v", f)
	defer w.troubled()()
	switch f.Kind {
	case CrashServer:
		w.crash(f.Target%w.plan.Servers, f.For)
	case Restart:
		w.replace(f.Target % w.plan.Servers)
	case Join:
		w.join(f)
	case CrashWorker:
		w.crashWorker(f)
	case Halt, Suspend:
		w.halt(f)
	case Cut:
		w.cutOff(f)
	case Slew:
		if p := w.victim(f.Target); p != nil {
			w.saw(string(f.Kind))
			p.clock.slew(f.Amount)
			time.Sleep(f.For)
			p.clock.slew(0)
		}
	case StepServer, StepWorker:
		w.step(f)
	case PowerCut:
		w.powerCut(f)
	case QueuePurged:
		w.purge()
	case GrowShards:
		w.grow()
	default:
		w.strike(f)
	}
}

// strike has calls go wrong for a time.
func (w *world) strike(f Fault) {
	amount := f.Amount
	if amount == 0 {
		amount = 1
		w.saw(string(f.Kind))
	}
	w.mu.Lock()
	before := w.awayCalls
	w.active[f.Kind] += amount
	w.mu.Unlock()
	w.tellAmazon(f.Kind)
	w.event(checker.Event{Kind: checker.ServerDown})
	time.Sleep(f.For)
	w.mu.Lock()
	awayCalls := w.awayCalls
	w.active[f.Kind] = max(0, w.active[f.Kind]-amount)
	if w.active[f.Kind] < 1e-9 {
		w.active[f.Kind] = 0
	}
	w.mu.Unlock()
	w.tellAmazon(f.Kind)
	if f.Kind == StoreAway {
		w.checkAwayCalls(awayCalls-before, f.For)
	}
	w.event(checker.Event{Kind: checker.ServerUp})
}

// tellAmazon passes a fault on to the services.
func (w *world) tellAmazon(kind Kind) {
	if w.amazon != nil {
		w.mu.Lock()
		share := w.active[kind]
		w.mu.Unlock()
		w.amazon.set(kind, min(share, 1))
	}
}

// powerCut lets the power go in the middle of what the server does with its files.
func (w *world) powerCut(f Fault) {
	slot := f.Target % w.plan.Servers
	w.disk.light(int(f.Amount), func() {
		w.saw(string(PowerCut))
		go func() {
			if s := w.take(slot); s != nil {
				w.trace.note(s.name, "loses its power")
				w.event(checker.Event{Kind: checker.ServerDown})
				s.stop()
				<-s.over
				w.serve(slot)
				w.event(checker.Event{Kind: checker.ServerUp})
			}
		}()
	})
}

func (w *world) join(f Fault) {
	w.saw(string(f.Kind))
	w.mu.Lock()
	slot := len(w.servers)
	w.servers = append(w.servers, nil)
	w.mu.Unlock()
	w.serve(slot)
	time.Sleep(f.For)
	if s := w.take(slot); s != nil {
		s.stop()
		<-s.over
	}
}

func (w *world) crashWorker(f Fault) {
	w.mu.Lock()
	k := w.workers[f.Target%len(w.workers)]
	w.mu.Unlock()
	if k != nil && !k.isDead() {
		w.saw(string(f.Kind))
		w.trace.note(k.name, "is killed")
		k.die()
	}
}

// victim is a server or a worker that is there.
func (w *world) victim(target int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var there []*process
	for _, s := range w.servers {
		if s != nil {
			there = append(there, s.process)
		}
	}
	for _, k := range w.workers {
		if k != nil {
			there = append(there, k.process)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return there[target%len(there)]
}

// step sets the wall clock of a process.
func (w *world) step(f Fault) {
	var p *process
	w.mu.Lock()
	if s := w.servers[f.Target%w.plan.Servers]; f.Kind == StepServer && s != nil {
		p = s.process
	} else if k := w.workers[f.Target%len(w.workers)]; f.Kind == StepWorker && k != nil {
		p = k.process
	}
	if p != nil {
		w.set[p.name] += f.stepOf()
		w.uncounted = w.uncounted || f.Kind == StepServer && f.stepOf() < -lookAhead
	}
	w.mu.Unlock()
	if p == nil {
		return
	}
	w.saw(string(f.Kind))
	w.trace.note(p.name, "its clock is set by %v", f.stepOf())
	p.clock.step(f.stepOf())
}

func (w *world) halt(f Fault) {
	p := w.victim(f.Target)
	if p == nil {
		return
	}
	w.saw(string(f.Kind))
	w.trace.note(p.name, "%s", f.Kind)
	w.event(checker.Event{Kind: checker.Stopped, PID: p.pid})
	w.event(checker.Event{Kind: checker.ServerDown})
	p.halt(f.Kind == Suspend)
	time.Sleep(f.For)
	w.event(checker.Event{Kind: checker.Continued, PID: p.pid})
	w.event(checker.Event{Kind: checker.ServerUp})
	p.wake()
	w.trace.note(p.name, "goes on")
}

func (w *world) cutOff(f Fault) {
	p := w.victim(f.Target)
	if p == nil {
		return
	}
	w.saw(string(f.Kind))
	w.trace.note(p.name, "is cut off")
	w.event(checker.Event{Kind: checker.ServerDown})
	set := func(on bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cuts[p.name] = on
	}
	set(true)
	time.Sleep(f.For)
	set(false)
	w.event(checker.Event{Kind: checker.ServerUp})
	w.trace.note(p.name, "is connected again")
}

func (w *world) purge() {
	if w.queues == nil || w.queues.shared == nil {
		return
	}
	w.saw(string(QueuePurged))
	for _, s := range w.servers {
		if s != nil {
			for _, l := range s.node.Lambdas() {
				_ = w.queues.shared.Drop(context.Background(), l.Ref)
			}
			return
		}
	}
}

func (w *world) grow() {
	ctx, cancel := context.WithTimeout(w.ctx, callWithin)
	defer cancel()
	c := w.client(4)
	if _, err := admin.New(c.sdk).Lambdas.Update(ctx, admin.Lambda{Name: lambda, Shards: w.plan.Shards + 2}, admin.LambdaUpdateOptions{}); err == nil {
		w.saw(string(GrowShards))
	}
}
