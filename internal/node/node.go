// Package node composes the roles, and is the only place where they meet. A Node runs any set of roles over a
// store, a queue and a membership; it links no driver of these. It decides nothing about tasks and opens no
// port.
package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/feature/job"
	"github.com/kinesin-io/kinesin/internal/feature/keyring"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/internal/logging"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

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
			n.metrics.storeOp(kind, took, err)
			if ops > 0 || err != nil { // else the driver was not called, which shows nothing
				n.storeOutage.note(err)
			}
		}},
	})
	limits := catalog.Limits{ShardsDefault: c.ShardsDefault, Bounds: c.Bounds}
	if most := int64(c.Bounds.Lambdas); most > 0 {
		const keptPart = 10 // for admins
		limits.Room = room.New("lambdas", most, most/keptPart)
		n.metrics.WatchRooms(c.Log, limits.Room)
	}
	n.catalog = catalog.New(n.store, c.Clock, c.Log, limits)
	n.metrics.existing = n.exists
	n.recent, n.history = newRecent(c.Clock, n.exists), newHistory(c.Clock)
	if err := n.catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	n.gates = gate.NewBook(n.store, c.Clock, c.Log)
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
	n.queue, n.buffer = n.newQueue(c.Queue), c.Buffer
	n.rests = c.Rests
	if !c.Stepped {
		n.steps = clock.NewSteps(c.Clock, n.clockStepped)
	}
	n.tokens, n.defined = tokens.NewRegistry(n.store, c.Clock, c.Log), c.Defined
	n.sessions = sessions.NewRegistry(n.store, n.keyring.Sessions(), c.Clock, c.Log)
	if n.quotas, err = n.newQuotas(ctx, &c); err != nil {
		return nil, err
	}
	n.breakers = n.newBreakers(&c)
	n.compose(c.withSteps())
	n.grower = n.newGrower(&c)
	n.registerCollectors()
	n.metrics.WatchRooms(c.Log, n.sessions.Room())
	if n.inbound != nil {
		n.metrics.WatchRooms(c.Log, append(n.inbound.Rooms(), n.jobs.Room(), n.gating.Room())...)
	}
	return n, nil
}

func (n *Node) newQueue(d queue.Driver) *queue.Queue {
	c := queue.Config{Answered: n.queueOutage.note, Seal: n.keyring.Messages(), Weights: n.weights}
	if n.tracer != nil {
		c.Sending = func(ctx context.Context) func(error) {
			began := clock.Mono(n.clock)
			return func(err error) { n.tracer.Op(ctx, "kinesin.queue", "send", clock.Mono(n.clock)-began, err) }
		}
	}
	return queue.New(d, c)
}

func (n *Node) compose(c Config) {
	seal := n.keyring.IDs()
	n.horizon = c.Horizon
	n.leases, n.noWorker, n.waits = c.newBook(n.store), &noWorker{n: n}, inbound.NewWaits()
	objectives := objective.Config{Rows: n.store, Clock: c.Clock, Log: c.Log, Exists: n.exists}
	var hscHints hsc.Scheduler
	var hints intake.Scheduler = noScheduler{}
	if slices.Contains(c.Roles, RoleScheduler) {
		n.members = n.newMembers(&c)
		n.scheduler = scheduler.New(scheduler.Config{
			Store: n.store, Queue: n.queue, Leases: n.leases,
			Ownership: partition.Ownership{Membership: n.members, Group: n.quotas.groupOf}, Handover: n.members.handover(), Partitions: n.catalog, Delivery: n.delivery(&c, seal), Downtime: n.downtime(&c, seal), Gating: n.holding(),
			Clock: c.Clock, Log: logging.Of(c.Log, "scheduler"), Hooks: n.schedulerHooks(),
			Process: n.members.process(), Presence: n.members.presence, Ready: n.becameReady,
			Foreign: c.shared, Window: c.Window, Lead: c.Lead, Quotas: countedStarts{n.quotas.starts, n.recent}, Concurrency: n.quotas.running,
			KeyLimits: n.keyLimits, RetryBudget: n.quotas.retries,
		})
		hscHints, hints = n.scheduler, n.scheduler
		objectives.Late, objectives.Shared = n.waitingLate, c.shared
		n.sweeper = &scheduler.Sweeper{Store: n.store, Clock: c.Clock, Steps: n.steps, Log: c.Log}
	}
	n.objectives = objective.New(objectives)
	n.deaths = &deaths{objectives: n.objectives, clock: c.Clock, log: c.Log, metered: n.store.EndedExpire()}
	starter := n.newStarter(&c, hints)
	n.composeIntake(&c, seal, hints, starter)
	n.guard = n.newGuard(&c)
	n.firing = n.newFiring(&c, hints)
	n.dispatcher = dispatcher.New(dispatcher.Config{
		Starter: starter, Store: n.chains, Log: logging.Of(c.Log, "dispatcher"), DepthMax: c.QueueDepthMax, Hooks: n.dispatcherHooks(), Starts: n.quotas.within,
		Occurrences: n.firing.Decide,
	})
	if slices.Contains(c.Roles, RoleHSC) {
		n.hsc = hsc.New(hsc.Config{
			Store: n.chains, Queue: n.queue, Catalog: n.catalog, Waiting: &n.slots, Leases: n.leases, Sealer: seal,
			Scheduler: hscHints, Held: n.isHeld, Awaited: n.quotas.running.isAwaited, Process: n.process(), Clock: c.Clock, Log: logging.Of(c.Log, "hsc"), Hooks: n.hscHooks(), Ended: n.waits.Ended, Ahead: c.Ahead, Silence: c.Silence, SlotsOnly: c.Stepped, Callers: c.Callers,
			Traceparent: n.tracer.Traceparent,
			Caller:      callerOf, Execute: n.guard.Execute, Foreign: n.guard.Foreign, WatchProcess: c.beside(), Extend: n.extendChain, Parent: chain.ParentOf,
		})
	}
	if slices.Contains(c.Roles, RoleInbound) {
		n.composeInbound(&c, seal)
	}
	n.composeBlobs(&c)
}

// composeIntake makes what takes tasks in, for inbound, and follow-ups with keys in any role; and the store for
// who may end tasks.
func (n *Node) composeIntake(c *Config, seal *task.Sealer, hints intake.Scheduler, starter *dispatcher.Starter) {
	rows := n.newChains(c, starter, hints)
	n.intake = intake.New(intake.Config{
		Store: rows, Chains: rows, Queue: n.queue, Catalog: n.catalog, Sealer: seal, Scheduler: hints, Starter: starter, Clock: c.Clock,
		Hooks: n.intakeHooks(), InboundSealer: n.keyring.Inbound(), Process: n.process(), Shared: c.shared,
		Near: c.Near, Horizon: c.Horizon, DeliverDirect: c.DeliverDirect,
	})
	n.chains = rows.Taking(n.intake.Take)
}

// composeInbound makes what serves users: inbound, ingest and the lambdas' service.
func (n *Node) composeInbound(c *Config, seal *task.Sealer) {
	in := n.intake
	backlog := ingest.NewBacklog(c.Clock, c.Buffer != nil)
	n.inbound = inbound.New(inbound.Config{
		Intake: in, Store: n.chains, Workers: cancels{n}, Waits: n.waits, Hooks: n.inboundHooks(), WaitLookEvery: c.waitLookEvery(), Callers: c.Callers,
		Buffering: inbound.Buffering{Buffer: c.Buffer, Backlog: backlog}, Pages: n.keyring.Pages(), Rates: n.recent.rates, Gates: n.gates.OfLambda, NoWorker: n.noWorker.is,
		HeldBack: n.heldBack(), CountWorkers: n.countWorkers, Deaths: n.deaths.of,
		Admission: n.quotas.admission, StartQuota: n.quotas.ofStarts, QueueFull: n.queueFull, KeyWait: n.keyWait,
	})
	n.ingest = ingest.New(ingest.Config{
		Intake: in, Buffer: c.Buffer, Backlog: backlog, Rejected: n.newRejected(in), Hooks: n.ingestHooks(),
		Rate: c.InboundRate, Concurrency: c.InboundConcurrency,
	})
	n.jobs = job.New(job.Config{
		Store: n.store, Tasks: n.inbound, Clock: c.Clock, Log: c.Log, Shared: c.shared,
		Metered: n.store.EndedExpire(), Ended: n.jobEnded, Recovery: n.recoveryOf, GrantsOf: n.grantsOf, Rested: n.rests,
		Traced: n.tracer.Current, Step: n.tracer.Step,
		Backfills: func(ctx context.Context, of string, position []byte, limit int) (inbound.Part, error) {
			return n.periodic.Range(ctx, of, position, limit)
		},
		Members: func(ctx context.Context, of string, position []byte, limit int) (inbound.Part, error) {
			return n.grouping.Range(ctx, of, position, limit)
		},
	})
	n.gating = gate.New(gate.Config{
		Store: n.store, Book: n.gates, Tasks: n.inbound, Lambdas: n.catalog, Queue: n.queue, Clock: c.Clock, Log: c.Log,
		Recovery: n.quotas.book.Recovery,
	})
	n.chaining = chain.NewService(chain.ServiceConfig{Keeper: n.chains, Tasks: n.inbound, Sealer: seal})
	n.periodic = cron.NewService(cron.ServiceConfig{
		Store: n.store, Keeper: n.firing, Jobs: n.jobs, Lambdas: n.catalog, Tasks: n.inbound, FirstRow: cronFirstRow, PublicID: seal.SealTask, Clock: c.Clock,
		PayloadBytesMax: n.store.PayloadBytesMax(), Traced: n.tracer.Current,
	})
	n.composeGroups(c, seal)
	n.lambdas = lambdas.New(lambdas.Config{
		Store: n.store, Queue: n.queue, Catalog: n.catalog, Tasks: n.inbound, Backlog: backlog, Clock: c.Clock,
		Unregister: c.Unregister, Shared: c.shared, CheckTarget: c.CheckTarget, Live: n.inbound.Live, Quotas: n.quotas.service,
		Declared: []lambdas.Declared{n.periodic, n.objectiveService()}, CronsOf: n.periodic.CronsOf,
		Hooks: lambdas.Hooks{Registered: n.registered, Registrations: n.metrics.setRegistrations, Internal: n.internalError},
	})
}

// newGrower returns nil if the store has no limit for a partition.
func (n *Node) newGrower(c *Config) *grower {
	taken := c.Store.Capabilities().KeyLoads
	if taken == nil || c.NoGrow {
		return nil
	}
	limit := c.keyUnits
	if limit == 0 {
		limit = keyUnitsMax
	}
	return &grower{
		taken: taken, rows: n.store, catalog: n.catalog, clock: c.Clock, log: c.Log, grown: n.metrics.grew,
		name: fmt.Sprintf("%016x", c.Clock.Uint64()), limit: limit, since: clock.Mono(c.Clock),
	}
}
