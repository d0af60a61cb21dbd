// Package node composes the roles: it is the one place where they meet. A Node is
// any set of roles over a store, a queue and a membership, whatever drivers these are; it
// links none of them. It decides nothing about tasks and opens no port.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Config is what a Node is made of. Store, Queue, Clock and Log are required.
type Config struct {
	Store   store.Driver
	Queue   queue.Driver
	Clock   clock.Clock
	Log     *slog.Logger
	Roles   []string // none: all
	Metrics *Metrics // nil: new ones

	// Membership is given where the processes that share the partitions are known beforehand, most often this
	// one alone. Without it they find each other by lease rows in the store, which then is one that several
	// processes share.
	Membership partition.Membership
	// Shared says that with a given Membership several processes are over the store too: lease rows tell
	// which of the members are there.
	Shared bool
	// Over makes the membership out of that by lease rows, which goes on beside it; nil: the rows alone are
	// the membership.
	Over func(rows *fleet.Membership) Membership
	// Name is what this process is called, for people, and where Over is set the name of the member that it
	// is. It need not be unique: random characters are added.
	Name string // empty: "kinesin"
	// Group is which processes over the store are one fleet, where Over tells fleets apart.
	Group string

	PayloadBytesMax int           // 0: the store's default
	ShardsDefault   uint16        // of a new lambda; 0: task's default
	Horizon         time.Duration // 0: inbound's default
	Near            time.Duration // 0: inbound's default
	Window          time.Duration // 0: scheduler's default
	Lead            time.Duration // 0: scheduler's default
	Ahead           time.Duration // 0: HSC's default
	Silence         time.Duration // 0: HSC's default
	QueueDepthMax   int           // 0: dispatcher's default; the queue driver's own bound is better higher

	// NoMatch has all tasks go through their queues, also where a worker of this process waits for them.
	NoMatch bool
	// LeasesOnly has a worker count as lost only when its lease is over, also where its process is seen to
	// have ended.
	LeasesOnly bool
	// NoGrow leaves the shards of lambdas as they are, also where one is near what a key of the store takes.
	NoGrow bool

	// Buffer is between Schedule and the store; nil: none.
	Buffer             buffer.Buffer
	InboundRate        float64 // tasks a second out of the buffer; 0: inbound's default; negative: no bound
	InboundConcurrency int     // receives at a time; 0: inbound's default

	// DeliverDirect is how soon a task of a deliver lambda must be due to go straight to its lambda's queue,
	// which counts whole seconds; at most 15 minutes. 0: inbound's default, 15 minutes; negative: never.
	DeliverDirect time.Duration

	// Unregister says how the registration of a lambda is deleted by hand. nil: there are none.
	Unregister func(lambda string) string

	// Stepped is for a virtual clock that stands still and moves in jumps (docs/adr/0007). What happens at a
	// moment then happens all of it at that moment: nothing is done ahead of its time, nothing waits for
	// company, no task is handed to whoever waits first, no worker gets tasks beyond its free slots, and
	// leases and silent streams outlast every jump.
	Stepped bool

	shared   bool    // several processes may be over the store
	keyUnits float64 // write units that a key of the store takes in a second; 0: what DynamoDB documents
}

// atOnce stands for no time where zero means a default.
const atOnce = time.Nanosecond

func (c Config) withSteps() Config {
	if c.Stepped {
		c.Near, c.Lead, c.Ahead, c.Silence, c.NoMatch = atOnce, atOnce, atOnce, -1, true
	}
	return c
}

func (c Config) newBook(rows lease.Rows) *lease.Book {
	if c.Stepped {
		return lease.NewLastingBook(rows, c.Clock)
	}
	return lease.NewBook(rows, c.Clock)
}

// waitLookEveryShared is how often a Wait reads its tasks at most where each read is a request to a service.
const waitLookEveryShared = 100 * time.Millisecond

// waitLookEvery is inbound's default, or what fits the store.
func (c Config) waitLookEvery() time.Duration {
	switch {
	case c.Stepped:
		return -1
	case c.shared:
		return waitLookEveryShared
	}
	return 0
}

// HandOverMax bounds how long a process that stops goes on firing, until its partitions have been taken over
// and what it still knows of them is due.
const HandOverMax = fleet.FarewellMax + scheduler.Linger

// nameDefault is what a process is called that says nothing.
const nameDefault = "kinesin"

// Node is a set of roles in one process.
type Node struct {
	log     *slog.Logger
	clock   clock.Clock
	steps   *clock.Steps // of that clock; nil for one that stands still
	metrics *Metrics
	store   *store.Store
	queue   *queue.Queue
	buffer  buffer.Buffer // nil: none

	leases     *lease.Book
	catalog    *catalog.Catalog
	members    *members             // nil without the scheduler's role
	scheduler  *scheduler.Scheduler // nil without the role
	dispatcher *dispatcher.Dispatcher
	sweeper    *scheduler.Sweeper
	inbound    *inbound.Inbound // nil without the role
	lambdas    *lambdas.Service // nil without inbound's role
	hsc        *hsc.Service     // nil without the role
	grower     *grower          // nil where shards do not grow by themselves

	shared   bool // several processes may be over the store
	running  atomic.Bool
	warm     atomic.Bool // all that is fired here was read ahead, once
	draining atomic.Bool
}

// New composes the roles. It reads the secret of public ids and the lambdas, and starts nothing.
// The node closes the drivers; if New fails they are still the caller's.
func New(ctx context.Context, c Config) (*Node, error) {
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	c.shared = c.Membership == nil || c.Shared
	n := &Node{log: c.Log, clock: c.Clock, metrics: c.Metrics, shared: c.shared}
	n.store = store.New(c.Store, store.Config{
		PayloadBytesMax: c.PayloadBytesMax, Clock: c.Clock, Logger: c.Log,
		Observer: store.Observer{OpDone: n.metrics.storeOp},
	})
	n.queue, n.buffer = queue.New(c.Queue), c.Buffer
	n.catalog = catalog.New(n.store, c.Clock, c.Log)
	n.catalog.ShardsDefault = c.ShardsDefault
	n.metrics.existing = func(ref uint32) bool { return n.catalog.ByRef(ref) != nil }
	if err := n.catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	secret, err := secretOf(ctx, n.store)
	if err != nil {
		return nil, err
	}
	if !c.Stepped {
		n.steps = clock.NewSteps(c.Clock, n.clockStepped)
	}
	n.compose(c.withSteps(), secret)
	n.grower = n.newGrower(&c)
	n.metrics.registry.MustRegister(newDepthCollector(n))
	if n.members != nil {
		if w, is := n.members.watched.(podWatch); is {
			n.metrics.registry.MustRegister(newSourcesCollector(w))
		}
	}
	return n, nil
}

func (n *Node) compose(c Config, secret []byte) {
	seal := task.NewSealer(secret)
	n.leases = c.newBook(n.store)
	toDispatcher, toInbound := n.matchers(&c)
	var hscHints hsc.Scheduler
	var inboundHints inbound.Scheduler = noScheduler{}
	if slices.Contains(c.Roles, RoleScheduler) {
		n.members = n.newMembers(&c) // only who can serve partitions is one
		n.dispatcher = dispatcher.New(dispatcher.Config{
			Store: n.store, Queue: n.queue, Policies: policies{n.catalog}, Clock: c.Clock, Log: c.Log,
			Matcher: toDispatcher, DepthMax: c.QueueDepthMax, Hooks: n.dispatcherHooks(),
		})
		n.scheduler = scheduler.New(scheduler.Config{
			Store: n.store, Queue: n.queue, Dispatcher: n.dispatcher, Leases: n.leases,
			Ownership: n.members.owner, Handover: n.members.handover(), Partitions: n.catalog, Delivery: n.delivery(&c, seal), Downtime: n.downtime(&c, seal),
			Clock: c.Clock, Log: c.Log, Hooks: n.schedulerHooks(),
			Process: n.members.process(), Presence: n.members.presence, Found: n.foundClaimed, Ready: n.becameReady,
			Foreign: c.shared, Window: c.Window, Lead: c.Lead,
		})
		hscHints, inboundHints = forHSC{n.scheduler}, n.scheduler
		n.sweeper = &scheduler.Sweeper{Store: n.store, Clock: c.Clock, Steps: n.steps, Log: c.Log}
	}
	if slices.Contains(c.Roles, RoleHSC) {
		n.hsc = hsc.New(hsc.Config{
			Store: n.store, Queue: n.queue, Catalog: n.catalog, Leases: n.leases, Sealer: seal,
			Scheduler: hscHints, Process: n.process(), Clock: c.Clock, Log: c.Log, Hooks: n.hscHooks(), Ended: n.ended, Ahead: c.Ahead, Silence: c.Silence, SlotsOnly: c.Stepped,
			Beside: c.beside(),
		})
	}
	if slices.Contains(c.Roles, RoleInbound) {
		n.inbound = inbound.New(inbound.Config{
			Store: n.store, Queue: n.queue, Catalog: n.catalog, Sealer: seal,
			Scheduler: inboundHints, Workers: cancels{n}, Matcher: toInbound, Clock: c.Clock, Hooks: n.inboundHooks(),
			Shared: c.shared, Near: c.Near, Horizon: c.Horizon, WaitLookEvery: c.waitLookEvery(), DeliverDirect: c.DeliverDirect,
			InboundKey: task.InboundKey(secret), Process: n.process(),
			Buffering: inbound.Buffering{Buffer: c.Buffer, Rate: c.InboundRate, Concurrency: c.InboundConcurrency},
		})
		n.lambdas = lambdas.New(lambdas.Config{
			Store: n.store, Queue: n.queue, Catalog: n.catalog, Tasks: n.inbound, Clock: c.Clock, Unregister: c.Unregister, Shared: c.shared,
			Hooks: lambdas.Hooks{Registered: n.registered, Registrations: n.metrics.registrations.set, Internal: n.internalError},
		})
	}
}

// Lambda finds a lambda by the reference that keys and messages have of it; false when none is known here.
func (n *Node) Lambda(ref uint32) (task.Lambda, bool) {
	if l := n.catalog.ByRef(ref); l != nil {
		return l.Lambda, true
	}
	return task.Lambda{}, false
}

// Lambdas are all that are known here, by name.
func (n *Node) Lambdas() []task.Lambda {
	entries := n.catalog.All()
	all := make([]task.Lambda, len(entries))
	for i, l := range entries {
		all[i] = l.Lambda
	}
	return all
}

// Registered reports whether a lambda came by a registration, so that its queues are not this program's to
// make.
func (n *Node) Registered(name string) bool {
	l, err := n.catalog.Lambda(name)
	return err == nil && l.Registration != ""
}

// Withdrawn reads which lambdas came by a registration that is gone. Their queues are most likely gone with
// it.
func (n *Node) Withdrawn(ctx context.Context) (map[string]bool, error) {
	withdrawn := map[string]bool{}
	for _, l := range n.catalog.All() {
		if l.Registration != "" {
			withdrawn[l.Name] = true
		}
	}
	if len(withdrawn) == 0 {
		return withdrawn, nil
	}
	registrations, err := catalog.Registrations(ctx, n.store)
	for _, r := range registrations {
		delete(withdrawn, r.Name)
	}
	return withdrawn, err
}

// Run runs the roles until ctx ends, then stops them in the direction the work flows: nothing new is
// accepted, others take over what is fired here, workers are told to go elsewhere, and nothing is fired any
// more. The store and the queue stay open.
func (n *Node) Run(ctx context.Context) error {
	defer n.draining.Store(true)
	roles, stopRoles := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRoles()
	group, groupCtx := errgroup.WithContext(roles)
	consuming := startPart(groupCtx, group, n.consume)
	serving := startPart(groupCtx, group, n.serve)
	firing := startPart(groupCtx, group, n.fire)
	registering := startPart(groupCtx, group, n.register)
	group.Go(func() error { return n.catalog.Run(groupCtx) })
	if n.steps != nil {
		group.Go(func() error { return n.watchClock(groupCtx) })
	}
	if n.grower != nil {
		group.Go(func() error { return n.grower.run(groupCtx) })
	}
	n.members.run(groupCtx, group.Go) // leaves when nothing is fired here any more
	group.Go(func() error {
		select {
		case <-ctx.Done():
		case <-groupCtx.Done():
		}
		n.draining.Store(true)
		n.members.leaving()
		if n.inbound != nil {
			n.inbound.Drain()
		}
		registering.end()
		consuming.end()
		if n.farewell(groupCtx) {
			serving.end() // so that nothing is told here any more that the others have not read
			_ = clock.Sleep(groupCtx, n.clock, scheduler.Linger)
		}
		firing.end()
		stopRoles()
		return nil
	})
	n.running.Store(true)
	return group.Wait()
}

// part is something that runs until it is told to end.
type part struct {
	stop  context.CancelFunc
	ended <-chan struct{}
}

// startPart runs a part.
func startPart(ctx context.Context, group *errgroup.Group, run func(ctx context.Context) error) part {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	group.Go(func() error {
		defer stop()
		defer close(ended)
		return run(ctx)
	})
	return part{stop, ended}
}

func (p part) end() {
	p.stop()
	<-p.ended
}

// Close closes the buffer, the queue and the store. Run must have returned.
func (n *Node) Close() error {
	var err error
	if n.buffer != nil {
		err = n.buffer.Close()
	}
	return errors.Join(err, n.queue.Close(), n.store.Close())
}

// process is the name of this process in the rows that it enqueues; empty where it fires nothing.
func (n *Node) process() string {
	if n.members == nil {
		return ""
	}
	return n.members.process()
}

// fire runs the roles that move due tasks on.
func (n *Node) fire(ctx context.Context) error {
	if n.scheduler == nil {
		<-ctx.Done()
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.scheduler.Run(ctx) })
	group.Go(func() error { return n.sweeper.Run(ctx) })
	group.Go(func() error { return n.watchOwners(ctx) })
	return group.Wait()
}

// serve serves workers.
func (n *Node) serve(ctx context.Context) error {
	if n.hsc == nil {
		<-ctx.Done()
		return nil
	}
	return n.hsc.Run(ctx)
}

// notReady says why new work should go elsewhere; empty when it is welcome.
func (n *Node) notReady() string {
	switch {
	case n.draining.Load():
		return "not ready: stopping"
	case !n.running.Load():
		return "not ready: starting"
	case n.damaged() != "":
		return n.damaged()
	case n.scheduler != nil && !n.warm.Load():
		return "not ready: reading ahead what is to be fired here"
	case n.unread() > 0:
		return fmt.Sprintf("not ready: %d partitions cannot be read; what they hold is not fired", n.unread())
	case n.store.Full():
		return "not ready: the store is full; it still drains what it has"
	}
	return ""
}

// damaged says that a part of what is stored cannot be read; empty when nothing is known of that. The rest is
// served, but nobody should be told that all is well.
func (n *Node) damaged() string {
	health, _ := n.store.Health()
	if len(health.Damaged) == 0 {
		return ""
	}
	return "not ready: damaged files, of which rows cannot be read: " + strings.Join(health.Damaged, ", ")
}

func (n *Node) internalError(ctx context.Context, procedure string, err error) {
	n.metrics.internal.Inc()
	n.log.ErrorContext(ctx, "call failed", slog.String("procedure", procedure), slog.Any("error", err))
}

// policies finds a task's policy in the catalog.
type policies struct{ catalog *catalog.Catalog }

func (p policies) PolicyOf(t *task.Task) (task.Policy, bool) {
	l := p.catalog.ByRef(t.Partition.Lambda)
	if l == nil {
		return task.Policy{}, false
	}
	return l.PolicyFor(t), true
}

// cancels tells workers to stop, wherever they are connected.
type cancels struct{ n *Node }

func (c cancels) CancelRequested(t *task.Task) {
	if c.n.hsc != nil {
		c.n.hsc.CancelRequested(*t)
		return
	}
	ctx, cancel := clock.Within(context.Background(), c.n.clock, attendWithin)
	defer cancel()
	if err := c.n.leases.Attend(ctx, t.Worker); err != nil && !errors.Is(err, lease.ErrLost) { // its rows tell later
		c.n.log.WarnContext(ctx, "worker not told of a cancel", slog.String("worker", t.Worker), slog.Any("error", err))
	}
}

// attendWithin bounds how long a cancel waits for its worker's lease to be marked.
const attendWithin = time.Second

// noScheduler is told what a scheduler would be, where there is none.
type noScheduler struct{}

func (noScheduler) Added(*task.Task)    {}
func (noScheduler) Awake(*task.Task)    {}
func (noScheduler) Enqueued(*task.Task) {}
func (noScheduler) Done([]task.Task)    {}

// forHSC is the scheduler as the HSC calls it.
type forHSC struct{ *scheduler.Scheduler }

func (s forHSC) Awake(t task.Task) { s.Scheduler.Awake(&t) }
