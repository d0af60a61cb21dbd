package dispatcher

import (
	"cmp"
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// From says who starts a task.
type From uint8

// Who starts tasks.
const (
	Owner    From = iota // the scheduler that owns the task's partition
	Near                 // inbound, of a task that is due within moments
	Followup             // the end of the task before it
)

// way is how the starts of one From differ from those of others.
type way struct {
	early    time.Duration // how long before its due time a task may get a slot; negative: any time
	asks     bool          // its queue is asked for its depth, though it may be a service, and has to be far from full
	slotOnly bool          // without a slot it does not start here, nor are queues looked at, which may have much to count
}

// ways has the way of each From. Inbound may take a slot for as long before the due time as workers hold what
// they claim, so that the slot is not kept from a task that could run meanwhile.
var ways = [...]way{
	Owner:    {early: -1},
	Near:     {early: 40 * time.Millisecond, asks: true},
	Followup: {slotOnly: true},
}

const (
	// waitMin is from how many messages on a service's queue on they are taken for tasks that wait for
	// workers. Fewer are on their way: if they counted, one moment of load would send all tasks of a steady
	// load through the queue from then on.
	waitMin = 32
	// NearDepthMaxDefault is how many messages a queue may hold for near tasks to go there at once.
	NearDepthMaxDefault = 4096
)

// Lambdas knows the lambdas of tasks.
type Lambdas interface {
	// ByRef returns a lambda; nil: it is not known.
	ByRef(ref uint32) *catalog.Entry
}

// StarterConfig is what a Starter is made of. Queue, Lambdas and Clock are required.
type StarterConfig struct {
	Queue    Queue
	Lambdas  Lambdas
	Clock    clock.Clock
	Register *Register // nil: all tasks go through their queues
	// Counted reports whether only the owner of its partition may start a task of a lambda: the gates, quotas
	// and limits by key of a lambda are kept by the scheduler. The answer is for a start that is written at
	// once. nil: there is no such lambda.
	Counted func(lambda uint32) bool
	// Enqueued tells the scheduler of a task that somebody else has handed to a worker. nil: there is no
	// scheduler.
	Enqueued     func(t *task.Task)
	NearDepthMax int // messages in a queue beyond which near tasks are scheduled instead; 0: NearDepthMaxDefault
}

// Starter decides how tasks start, for all who start them. It writes nothing. It is safe for concurrent use
// and keeps no state but cached depths of queues.
type Starter struct {
	StarterConfig

	depths depthCache
}

// NewStarter returns a Starter.
func NewStarter(c StarterConfig) *Starter {
	c.NearDepthMax = cmp.Or(c.NearDepthMax, NearDepthMaxDefault)
	return &Starter{StarterConfig: c, depths: depthCache{clock: c.Clock, of: map[queue.Name]cachedDepth{}}}
}

// IsCounted reports whether only the owner of its partition may start a task of a lambda.
func (s *Starter) IsCounted(lambda uint32) bool { return s.Counted != nil && s.Counted(lambda) }

// Round is the starts of one batch, of which none overtakes another.
type Round struct {
	*Starter

	now  task.Instant
	seen []seenQueue
}

// seenQueue is what a round knows of a queue.
type seenQueue struct {
	name  queue.Name
	left  int  // how many more messages it takes before it is no longer far from full
	waits bool // tasks wait there, or will when the round is over
}

// Begin begins a round.
func (s *Starter) Begin(now task.Instant) Round { return Round{Starter: s, now: now} }

// Answer says how a task starts.
type Answer uint8

// How tasks start.
const (
	NotHere      Answer = iota // by the owner of its partition
	Started                    // a worker that waits gets it once it is stored
	Queued                     // its message is sent once it is stored, if the effect of that is to send
	MessageFirst               // its message is sent, and its claim stores it
)

// Start is the start of a task.
type Start struct {
	Answer Answer
	Effect task.Effect // of the write

	slot  Slot // to be settled with the outcome of the write; nil: none
	tells bool // Settle tells the scheduler that the task is in flight
}

// Start decides how the task of an order starts. It returns the task as it is to be stored, or sent first.
// Whoever writes the task settles the start. An error says that the order is pointless, since the task has
// moved on.
func (r *Round) Start(ctx context.Context, o *task.Order, from From) (s Start, next task.Task, err error) {
	t, w, event := &o.Task, &ways[from], o.Event
	l, expired := r.Lambdas.ByRef(t.Partition.Lambda), t.IsExpired(r.now) // then an enqueue ends it
	if l == nil || from != Owner && (expired || r.IsCounted(l.Ref)) || w.asks && !r.hasRoom(ctx, t, w) {
		return s, next, nil
	}
	if event.Kind == task.Enqueue && !expired {
		s.slot = r.match(ctx, o, l, w)
		switch {
		case s.slot != nil:
			s.tells = from != Owner
			event = task.Event{Kind: task.Match, Worker: s.slot.Worker(), Lease: s.slot.Lease()}
		case w.slotOnly:
			return s, next, nil
		case from == Owner && r.sendsFirst(o, l):
			s.Answer = MessageFirst
			return s, t.Queued(r.now), nil
		}
	}
	if next, s.Effect, err = t.Apply(event, r.now, l.PolicyFor(t)); err != nil {
		r.Settle(&s, t, err)
		return s, next, err
	}
	if s.Answer = Queued; s.slot != nil {
		s.Answer = Started
	}
	return s, next, nil
}

// Settle tells the scheduler and then the slot of a start what became of the write of the task. The scheduler
// hears first that the task is in flight, so that it cannot hear of its end before. A start is settled once.
func (s *Starter) Settle(start *Start, t *task.Task, outcome error) {
	if start.slot == nil {
		return
	}
	if outcome == nil && start.tells && s.Enqueued != nil {
		s.Enqueued(t)
	}
	start.slot.Settle(t, outcome)
	start.slot = nil
}

// hasRoom reports whether the queue of a task is far from full, so that memory stays bounded and older tasks
// are not overtaken. The task counts from then on.
func (r *Round) hasRoom(ctx context.Context, t *task.Task, w *way) bool {
	q := r.look(ctx, nameOf(t), w)
	q.left--
	return q.left >= 0
}

// match reserves a slot for the task of an order, if a worker waits and the task overtakes none that waits longer, or
// that is due no later and has a higher priority; nil: the task gets no slot. Once no slot is free, later tasks of the
// round go through the queue too, so that they do not overtake this one.
func (r *Round) match(ctx context.Context, o *task.Order, l *catalog.Entry, w *way) Slot {
	t := &o.Task
	if r.Register == nil || o.InTurn || t.Suspect || t.State == task.Enqueued || w.early >= 0 && t.Due > r.now.Add(w.early) {
		return nil
	}
	if !w.slotOnly && r.anyWaits(ctx, t, l, w) {
		return nil
	}
	slot := r.Register.Match(l, clock.Mono(r.Clock))
	switch {
	case slot == nil && !w.slotOnly:
		r.look(ctx, nameOf(t), w).waits = true
	case slot != nil && w.slotOnly && r.anyWaits(ctx, t, l, w):
		slot.Settle(t, store.ErrSkipped)
		return nil
	}
	return slot
}

// anyWaits reports whether tasks of the task's priority, or of a higher priority of its lambda, are known to wait;
// with priority weights those of any priority, since each has its turns. A service is asked for the depth of other
// priorities only where they have weights.
func (r *Round) anyWaits(ctx context.Context, t *task.Task, l *catalog.Entry, w *way) bool {
	name := nameOf(t)
	if q := r.known(name); q != nil && q.waits {
		return true
	}
	ownOnly := w.asks && l.PriorityWeights == nil && r.Queue.Durable()
	for priority := range l.PrioritiesBefore(t.Partition.Priority) {
		if ownOnly && priority != t.Partition.Priority {
			continue
		}
		if name.Priority = priority; r.look(ctx, name, w).waits {
			return true
		}
	}
	return false
}

// look returns what the round knows of a queue, of which it asks once. In a queue that is not known tasks may
// wait, and there is no room.
func (r *Round) look(ctx context.Context, name queue.Name, w *way) *seenQueue {
	if q := r.known(name); q != nil {
		return q
	}
	q := seenQueue{name: name, waits: true}
	if !w.asks && r.Queue.Durable() {
		visible, known := r.depths.get(name)
		q.waits = known && visible >= waitMin
	} else if depth, err := r.Queue.Depth(ctx, name); err == nil {
		q.left, q.waits = r.NearDepthMax-depth.Visible, depth.Oldest > 0
	}
	r.seen = append(r.seen, q)
	return &r.seen[len(r.seen)-1]
}

// known returns what the round knows of a queue; nil: nothing yet.
func (r *Round) known(name queue.Name) *seenQueue {
	for i := range r.seen {
		if r.seen[i].name == name {
			return &r.seen[i]
		}
	}
	return nil
}

// sendsFirst reports whether the message of a first order is sent before the task has a task row. It is sent
// first where the queue is this process's memory and a worker of this process will receive it: its claim then
// writes the row, and one write serves for enqueue and claim, as in a direct hand-off. If the message is
// lost, so is the process. A task that is older than such a message may become is stored as enqueued, whose
// timeout keeps messages of a long backlog from piling up.
func (r *Round) sendsFirst(o *task.Order, l *catalog.Entry) bool {
	if !o.First || r.Register == nil || r.Queue.Durable() || o.Task.Occurrence != nil {
		return false
	}
	return r.now < o.Task.WakeRow.At.Add(task.UndispatchedMax) && len(r.Register.Of(l)) > 0
}

// nameOf returns the queue of a task that is no suspect.
func nameOf(t *task.Task) queue.Name {
	return queue.Name{Lambda: t.Partition.Lambda, Priority: t.Partition.Priority}
}
