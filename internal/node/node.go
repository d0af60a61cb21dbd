// Package node composes the roles, and is the only place where they meet. A Node runs any set of roles over a
// store, a queue and a membership; it links no driver of these. It decides nothing about tasks and opens no
// port.
package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/chaining"
	"github.com/kinesin-io/kinesin/inbound/gating"
	"github.com/kinesin-io/kinesin/inbound/grouping"
	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/inbound/jobs"
	"github.com/kinesin-io/kinesin/inbound/periodic"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/internal/audit"
	"github.com/kinesin-io/kinesin/internal/blobsweep"
	"github.com/kinesin-io/kinesin/internal/breaker"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/chains"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/crons"
	"github.com/kinesin-io/kinesin/internal/gates"
	"github.com/kinesin-io/kinesin/internal/groups"
	"github.com/kinesin-io/kinesin/internal/guard"
	"github.com/kinesin-io/kinesin/internal/keyring"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/logging"
	"github.com/kinesin-io/kinesin/internal/objective"
	"github.com/kinesin-io/kinesin/internal/tracing"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// HandOverMax bounds how long a process that stops goes on with its partitions, until others have taken them
// over and it has dispatched what it still knows to be due.
const HandOverMax = fleet.FarewellMax + scheduler.Linger

// Node is a set of roles in one process.
type Node struct {
	log     *slog.Logger
	clock   clock.Clock
	steps   *clock.Steps // of that clock; nil if it moves in jumps
	metrics *Metrics
	store   *store.Store
	chains  *chains.Keeper // the store, for who may end tasks
	intake  *intake.Intake
	gone    goneLambdas
	queue   *queue.Queue
	buffer  buffer.Buffer // nil: none

	moves moves

	leases     *lease.Book
	catalog    *catalog.Catalog
	gates      *gates.Book
	keyring    *keyring.Ring
	quotas     *quotaKeeper
	members    *members             // nil without the scheduler's role
	scheduler  *scheduler.Scheduler // nil without the role
	dispatcher *dispatcher.Dispatcher
	sweeper    *scheduler.Sweeper
	blobs      *blobsweep.Sweeper // nil: none are swept
	inbound    *inbound.Inbound   // nil without the role
	ingest     *ingest.Ingest     // nil without inbound's role
	lambdas    *lambdas.Service   // nil without inbound's role
	jobs       *jobs.Service      // nil without inbound's role
	gating     *gating.Service    // nil without inbound's role
	firing     *crons.Firing
	chaining   *chaining.Service // nil without inbound's role
	horizon    time.Duration     // of due times; 0: inbound's default
	periodic   *periodic.Service // nil without inbound's role
	groups     *groups.Keeper    // nil without inbound's role
	grouping   *grouping.Service // nil without inbound's role
	hsc        *hsc.Service      // nil without the role
	noWorker   *noWorker
	guard      *guard.Guard
	tokens     *tokens.Registry
	sessions   *sessions.Registry
	audit      *audit.Log // nil: nothing is recorded
	defined    func(name string) (may access.Grants, found bool)
	grower     *grower // nil if shards are not added
	recent     *recent
	history    *history
	objectives *objective.Keeper
	breakers   *breaker.Keeper

	storeOutage, queueOutage outage
	tracer                   *tracing.Tracer // nil: nothing is traced
	debug                    Debug
	spans                    []connect.HandlerOption // that make those of calls

	shared   bool // several processes may use the store
	running  atomic.Bool
	warm     atomic.Bool // all partitions of this process have been read once
	draining atomic.Bool
}

// New composes the roles. It reads the key ring and the lambdas, and starts nothing. The node
// closes the drivers, but not if New fails.
func New(ctx context.Context, c Config) (*Node, error) {
	if c.Metrics == nil {
		c.Metrics = NewMetrics(MetricsConfig{})
	}
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	c.shared = c.Membership == nil || c.Shared
	n := &Node{
		log: c.Log, clock: c.Clock, metrics: c.Metrics, shared: c.shared,
		storeOutage: outage{clock: c.Clock}, queueOutage: outage{clock: c.Clock}, tracer: c.Tracer, debug: c.Debug,
	}
	var err error
	if n.spans, err = n.tracer.Interceptors(); err != nil {
		return nil, err
	}
	n.store = store.New(c.Store, store.Config{
		PayloadBytesMax: c.PayloadBytesMax, Clock: c.Clock, Logger: logging.Of(c.Log, "store"),
		Observer: store.Observer{OpDone: func(ctx context.Context, kind string, ops int, took time.Duration, err error) {
			n.tracer.Op(ctx, "kinesin.store", kind, took, err)
			n.metrics.storeOp(kind, ops, took, err)
			if ops > 0 || err != nil { // else the driver was not called, which shows nothing
				n.storeOutage.note(err)
			}
		}},
	})
	n.queue, n.buffer = queue.New(c.Queue), c.Buffer
	n.queue.Answered = n.queueOutage.note
	if n.tracer != nil {
		n.queue.Sending = func(ctx context.Context) func(error) {
			began := clock.Mono(n.clock)
			return func(err error) { n.tracer.Op(ctx, "kinesin.queue", "send", clock.Mono(n.clock)-began, err) }
		}
	}
	n.catalog = catalog.New(n.store, c.Clock, c.Log)
	n.catalog.ShardsDefault, n.catalog.Bounds = c.ShardsDefault, c.Bounds
	n.metrics.existing = func(ref uint32) bool { return n.catalog.ByRef(ref) != nil }
	n.objectives = objective.New(n.store, c.Clock, c.Log, n.metrics.existing)
	n.recent, n.history = newRecent(c.Clock, n.metrics.existing), newHistory(c.Clock)
	if err := n.catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	n.gates = gates.NewBook(n.store, c.Clock, c.Log)
	if err := n.gates.Refresh(ctx); err != nil {
		return nil, err
	}
	n.keyring, err = keyring.Open(ctx, keyring.Config{
		Rows: n.store, Clock: c.Clock, Log: c.Log, Inbound: c.Buffer != nil,
		IDsFor: cmp.Or(c.Horizon, intake.HorizonDefault) + task.RetentionMax,
	})
	if err != nil {
		return nil, err
	}
	if !c.Stepped {
		n.steps = clock.NewSteps(c.Clock, n.clockStepped)
	}
	n.tokens, n.defined = tokens.NewRegistry(n.store, c.Clock, c.Log), c.Defined
	n.sessions = sessions.NewRegistry(n.store, n.keyring.Sessions(), c.Clock, c.Log)
	n.guard = n.newGuard(&c)
	if n.quotas, err = n.newQuotas(ctx, &c); err != nil {
		return nil, err
	}
	n.breakers = n.newBreakers(&c)
	n.compose(c.withSteps())
	n.grower = n.newGrower(&c)
	n.registerCollectors()
	return n, nil
}

func (n *Node) compose(c Config) {
	seal := n.keyring.IDs()
	n.horizon = c.Horizon
	n.queue.UseSealer(n.keyring.Messages())
	n.queue.UseWeights(n.weights)
	n.leases, n.noWorker = c.newBook(n.store), &noWorker{n: n}
	toDispatcher, toInbound := n.matchers(&c)
	var hscHints hsc.Scheduler
	var inboundHints intake.Scheduler = noScheduler{}
	n.chains = n.newChains(&c, func() intake.Scheduler { return inboundHints })
	n.firing = n.newFiring(&c, func(t *task.Task) { inboundHints.Added(t) })
	if slices.Contains(c.Roles, RoleScheduler) {
		n.members = n.newMembers(&c)
		n.dispatcher = dispatcher.New(dispatcher.Config{
			Store: n.chains, Queue: n.queue, Policies: policies{n.catalog}, Clock: c.Clock, Log: logging.Of(c.Log, "dispatcher"),
			Matcher: toDispatcher, DepthMax: c.QueueDepthMax, Hooks: n.dispatcherHooks(), Starts: n.quotas.within,
			Occurrences: n.firing.Decide,
		})
		n.scheduler = scheduler.New(scheduler.Config{
			Store: n.store, Queue: n.queue, Dispatcher: n.dispatcher, Leases: n.leases,
			Ownership: partition.Ownership{Membership: n.members, Group: n.quotas.groupOf}, Handover: n.members.handover(), Partitions: n.catalog, Delivery: n.delivery(&c, seal), Downtime: n.downtime(&c, seal), Gating: n.holding(),
			Clock: c.Clock, Log: logging.Of(c.Log, "scheduler"), Hooks: n.schedulerHooks(),
			Process: n.members.process(), Presence: n.members.presence, Found: n.foundClaimed, Ready: n.becameReady,
			Foreign: c.shared, Window: c.Window, Lead: c.Lead, Quotas: countedStarts{n.quotas.starts, n.recent}, Concurrency: n.quotas.running,
			KeyLimits: n.keyLimits, RetryBudget: n.quotas.retries,
		})
		hscHints, inboundHints = forHSC{n.scheduler}, n.scheduler
		n.sweeper = &scheduler.Sweeper{Store: n.store, Clock: c.Clock, Steps: n.steps, Log: c.Log}
	}
	if slices.Contains(c.Roles, RoleHSC) {
		n.hsc = hsc.New(hsc.Config{
			Store: n.chains, Queue: n.queue, Catalog: n.catalog, Leases: n.leases, Sealer: seal,
			Scheduler: hscHints, Held: n.isHeld, Limited: n.quotas.running.waitsForEnds, Process: n.process(), Clock: c.Clock, Log: logging.Of(c.Log, "hsc"), Hooks: n.hscHooks(), Ended: n.ended, Ahead: c.Ahead, Silence: c.Silence, SlotsOnly: c.Stepped,
			Traceparent: n.tracer.Traceparent,
			Caller:      callerOf, Execute: n.guard.Execute, Foreign: n.guard.Foreign, WatchProcess: c.beside(), Extend: n.extendChain,
		})
	}
	n.composeIntake(&c, seal, inboundHints, toInbound)
	if slices.Contains(c.Roles, RoleInbound) {
		n.composeInbound(&c, seal)
	}
	n.composeBlobs(&c)
}

// composeIntake makes what takes tasks in: for inbound, and follow-ups with keys in any role.
func (n *Node) composeIntake(c *Config, seal *task.Sealer, hints intake.Scheduler, matcher intake.Matcher) {
	n.intake = intake.New(intake.Config{
		Complete: n.chains.Complete,
		Store:    n.chains, Queue: n.queue, Catalog: n.catalog, Sealer: seal, Scheduler: hints, Matcher: matcher, Clock: c.Clock,
		Hooks: n.intakeHooks(), InboundSealer: n.keyring.Inbound(), Process: n.process(), SchedulerOnly: n.schedulerOnly, Shared: c.shared,
		Near: c.Near, Horizon: c.Horizon, DeliverDirect: c.DeliverDirect,
	})
}

// composeInbound makes what serves users: inbound, ingest and the lambdas' service.
func (n *Node) composeInbound(c *Config, seal *task.Sealer) {
	in := n.intake
	backlog := ingest.NewBacklog(c.Clock, c.Buffer != nil)
	n.inbound = inbound.New(inbound.Config{
		Intake: in, Store: n.chains, Workers: cancels{n}, Hooks: n.inboundHooks(), WaitLookEvery: c.waitLookEvery(),
		Buffering: inbound.Buffering{Buffer: c.Buffer, Backlog: backlog}, Pages: n.keyring.Pages(), Rates: n.recent.rates, Gates: n.gates, NoWorker: n.noWorker.is,
		HeldBack: n.heldBack(), CountWorkers: n.countWorkers,
		Admission: n.quotas.admission, StartQuota: n.quotas.ofStarts, QueueFull: n.queueFull, KeyWait: n.keyWait,
	})
	n.ingest = ingest.New(ingest.Config{
		Intake: in, Buffer: c.Buffer, Backlog: backlog, Rejected: n.newRejected(in), Hooks: n.ingestHooks(),
		Rate: c.InboundRate, Concurrency: c.InboundConcurrency,
	})
	n.jobs = jobs.New(jobs.Config{
		Store: n.store, Tasks: n.inbound, Clock: c.Clock, Log: c.Log, Shared: c.shared,
		Metered: n.store.EndedExpire(), Ended: n.jobEnded, Recovery: n.recoveryOf, GrantsOf: n.grantsOf,
		Traced: n.tracer.Current, Step: n.tracer.Step,
		Fill: func(ctx context.Context, b *crons.Backfill, after task.Instant, limit int) (crons.Filled, error) {
			return n.periodic.Fill(ctx, b, after, limit)
		},
		Members: func(ctx context.Context, group string, from uint32, limit int) ([]inbound.Row, uint32, bool, error) {
			return n.grouping.ToCancel(ctx, group, from, limit)
		},
	})
	n.gating = gating.New(gating.Config{
		Store: n.store, Book: n.gates, Tasks: n.inbound, Lambdas: n.catalog, Queue: n.queue, Clock: c.Clock, Log: c.Log,
		Recovery: n.quotas.book.Recovery,
	})
	n.chaining = chaining.New(chaining.Config{
		Store: n.store, Keeper: n.chains, Tasks: n.inbound, Sealer: seal, Clock: c.Clock,
	})
	n.periodic = periodic.New(periodic.Config{
		Store: n.store, Keeper: n.firing, Jobs: n.jobs, Lambdas: n.catalog, Tasks: n.inbound, FirstRow: cronFirstRow, PublicID: seal.SealTask, Clock: c.Clock,
		PayloadBytesMax: n.store.PayloadBytesMax(), Traced: n.tracer.Current,
	})
	n.composeGroups(c, seal)
	n.lambdas = lambdas.New(lambdas.Config{
		Store: n.store, Queue: n.queue, Catalog: n.catalog, Tasks: n.inbound, Backlog: backlog, Clock: c.Clock,
		Unregister: c.Unregister, Shared: c.shared, Live: n.inbound.Live, Quotas: n.quotas.service,
		Declared: []lambdas.Declared{n.periodic, n.objectiveService()}, CronsOf: n.periodic.CronsOf,
		Hooks: lambdas.Hooks{Registered: n.registered, Registrations: n.metrics.registrations.set, Internal: n.internalError},
	})
}

// Lambda returns the lambda with the reference that keys and messages hold.
func (n *Node) Lambda(ref uint32) (task.Lambda, bool) {
	if l := n.catalog.ByRef(ref); l != nil {
		return l.Lambda, true
	}
	return task.Lambda{}, false
}

// weights returns the weights of a lambda's priorities; nil if their order is strict.
func (n *Node) weights(lambda uint32) []uint16 {
	if l := n.catalog.ByRef(lambda); l != nil {
		return l.PriorityWeights
	}
	return nil
}

// Lambdas returns all known lambdas, sorted by name.
func (n *Node) Lambdas() []task.Lambda {
	entries := n.catalog.All()
	all := make([]task.Lambda, len(entries))
	for i, l := range entries {
		all[i] = l.Lambda
	}
	return all
}

// Registered reports whether a lambda was created by a registration, which then also made its queues.
func (n *Node) Registered(name string) bool {
	l, err := n.catalog.Lambda(name)
	return err == nil && l.Registration != ""
}

// Withdrawn returns the lambdas whose registration is gone, and most likely their queues with it.
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

// Run runs the roles until ctx ends, then stops them in the direction in which work flows: it accepts nothing
// new, waits until others have taken over its partitions, sends workers elsewhere, and dispatches nothing
// more. The store and the queue stay open.
func (n *Node) Run(ctx context.Context) error {
	defer n.draining.Store(true)
	roles, stopRoles := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRoles()
	group, groupCtx := errgroup.WithContext(roles)
	group.Go(func() error { return n.catalog.Run(groupCtx) })
	group.Go(func() error { return n.gates.Run(groupCtx) })
	group.Go(func() error { return n.keyring.Run(groupCtx) })
	group.Go(func() error { return n.objectives.Run(groupCtx) })
	group.Go(func() error { return n.quotas.book.Run(groupCtx) })
	if n.steps != nil {
		group.Go(func() error { return n.watchClock(groupCtx) })
	}
	if n.grower != nil {
		group.Go(func() error { return n.grower.run(groupCtx) })
	}
	if n.audit != nil {
		group.Go(func() error { return n.audit.Run(groupCtx) })
	}
	if n.blobs != nil {
		group.Go(func() error { return n.blobs.Run(groupCtx) })
	}
	var registering, consuming, serving, scheduling, changing, gating, grouping part
	if n.inbound != nil {
		consuming = startPart(groupCtx, group, n.consume)
		registering = startPart(groupCtx, group, n.register)
		changing = startPart(groupCtx, group, n.jobs.Run)
		gating = startPart(groupCtx, group, n.gating.Run)
		grouping = startPart(groupCtx, group, n.groups.Run)
	}
	group.Go(func() error { return n.firing.Run(groupCtx) })
	group.Go(func() error { return n.chains.Run(groupCtx) })
	if n.hsc != nil || n.scheduler != nil {
		group.Go(func() error { return n.breakers.Run(groupCtx) })
	}
	if n.hsc != nil {
		serving = startPart(groupCtx, group, n.hsc.Run)
	}
	if n.scheduler != nil {
		scheduling = startPart(groupCtx, group, n.schedule)
		n.members.run(groupCtx, group) // leaves the fleet after scheduling has ended
	}
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
		changing.end()
		gating.end()
		grouping.end()
		consuming.end()
		if n.farewell(groupCtx) {
			serving.end() // so that workers report nothing more here, which the others would not know
			_ = clock.Sleep(groupCtx, n.clock, scheduler.Linger)
		}
		scheduling.end()
		stopRoles()
		return nil
	})
	n.running.Store(true)
	return group.Wait()
}

// part is a role, or a part of one, that can be ended alone. The zero value is none.
type part struct {
	stop  context.CancelFunc
	ended <-chan struct{}
}

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

// end stops the part and waits for it.
func (p part) end() {
	if p.stop != nil {
		p.stop()
		<-p.ended
	}
}

// schedule runs everything that belongs to the scheduler's role.
func (n *Node) schedule(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.scheduler.Run(ctx) })
	group.Go(func() error { return n.sweeper.Run(ctx) })
	group.Go(func() error { return n.watchOwners(ctx) })
	return group.Wait()
}

// Close closes the buffer, the queue and the store. Run must have returned.
func (n *Node) Close() error {
	var err error
	n.quotas.starts.Limiter.Wait()
	if n.audit != nil {
		n.audit.Flush(context.Background())
	}
	if flushErr := n.objectives.Flush(context.Background()); flushErr != nil {
		n.log.Warn("the last counts of objectives not stored", slog.Any("error", flushErr))
	}
	if n.buffer != nil {
		err = n.buffer.Close()
	}
	return errors.Join(err, n.queue.Close(), n.store.Close())
}

// process returns the name of this process in the rows that it enqueues; empty without the scheduler's role.
func (n *Node) process() string {
	if n.members == nil {
		return ""
	}
	return n.members.process()
}

func (n *Node) internalError(ctx context.Context, procedure string, err error) {
	n.metrics.internal.Inc()
	n.log.ErrorContext(ctx, "call failed", slog.String("procedure", procedure), slog.Any("error", err))
}

// policies returns a task's policy from the catalog.
type policies struct{ catalog *catalog.Catalog }

func (p policies) PolicyOf(t *task.Task) (task.Policy, bool) {
	l := p.catalog.ByRef(t.Partition.Lambda)
	if l == nil {
		return task.Policy{}, false
	}
	return l.PolicyFor(t), true
}

func (p policies) PrioritiesBefore(t *task.Task) uint8 {
	if l := p.catalog.ByRef(t.Partition.Lambda); l != nil {
		return l.PrioritiesBefore(t.Partition.Priority)
	}
	return t.Partition.Priority + 1
}

// cancels tells the worker of a task to stop it, on whichever server it is connected to.
type cancels struct{ n *Node }

func (c cancels) CancelRequested(t *task.Task) {
	if c.n.hsc != nil {
		c.n.hsc.CancelRequested(*t)
		return
	}
	ctx, cancel := clock.Within(context.Background(), c.n.clock, attendWithin)
	defer cancel()
	if err := c.n.leases.Attend(ctx, t.Worker); err != nil && !errors.Is(err, lease.ErrLost) { // if so, its rows tell later
		c.n.log.WarnContext(ctx, "worker not told of a cancel", slog.String("worker", t.Worker), slog.Any("error", err))
	}
}

// attendWithin bounds how long a cancel waits for its worker's lease to be marked.
const attendWithin = time.Second

// noScheduler stands in for a scheduler on a server without that role.
type noScheduler struct{}

func (noScheduler) Added(*task.Task)    {}
func (noScheduler) Awake(*task.Task)    {}
func (noScheduler) Enqueued(*task.Task) {}
func (noScheduler) Done([]task.Task)    {}

// forHSC adapts the scheduler to the HSC.
type forHSC struct{ *scheduler.Scheduler }

func (s forHSC) Awake(t task.Task) { s.Scheduler.Awake(&t) }

func (s forHSC) PutBack(t task.Task, hasRow bool) { s.Scheduler.PutBack(&t, hasRow) }
