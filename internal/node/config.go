package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/feature/blob"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/logging"
	processes "github.com/kinesin-io/kinesin/internal/process"
	"github.com/kinesin-io/kinesin/internal/tracing"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Roles that a process can have.
const (
	RoleInbound    = "inbound"    // accepts, answers and cancels
	RoleScheduler  = "scheduler"  // finds due tasks; only together with the dispatcher
	RoleDispatcher = "dispatcher" // puts due tasks on their queues; only together with the scheduler
	RoleHSC        = "hsc"        // serves workers
)

// Roles lists all roles, in the order in which work flows through them.
func Roles() []string { return []string{RoleInbound, RoleScheduler, RoleDispatcher, RoleHSC} }

// Config configures a Node. Store, Queue, Clock and Log are required.
type Config struct {
	Store   store.Driver
	Queue   queue.Driver
	Clock   clock.Clock
	Log     *slog.Logger
	Roles   []string        // none: all
	Metrics *Metrics        // nil: new ones
	Tracer  *tracing.Tracer // nil: nothing is traced
	Debug   Debug

	// Membership lists the processes that share the partitions, if they are known beforehand; mostly this one
	// alone. nil: they find each other by lease rows in the store, which several processes share.
	Membership partition.Membership
	// Shared says that several processes use the store although Membership is given: lease rows tell which of
	// the members are alive.
	Shared bool
	// Over returns a membership on top of that by lease rows, which runs beside it; nil: the lease rows alone
	// are the membership.
	Over func(rows *fleet.Membership) Membership
	// Name names this process for people, and is the member's name if Over is set. It need not be unique,
	// since random characters are added.
	Name string // empty: "kinesin"
	// Group names the fleet among the processes over the store, if Over tells fleets apart.
	Group string

	PayloadBytesMax int // 0: the store's default
	// Blobs is the place whose blobs this process deletes when no task needs them; nil: none.
	Blobs         blob.Blobs
	ShardsDefault uint16 // of a new lambda; 0: task's default
	Bounds        catalog.Bounds
	Horizon       time.Duration // 0: inbound's default
	Near          time.Duration // 0: inbound's default
	Window        time.Duration // 0: scheduler's default
	Lead          time.Duration // 0: scheduler's default
	Ahead         time.Duration // 0: HSC's default
	Silence       time.Duration // 0: HSC's default
	QueueDepthMax int           // 0: dispatcher's default; the queue driver's own bound should be higher

	// NoMatch turns off direct hand-off: all tasks go through their queues.
	NoMatch bool
	// LeasesOnly makes a worker lost only when its lease ends, even if its process is seen to have ended.
	LeasesOnly bool
	// NoGrow never adds shards to a lambda by itself.
	NoGrow bool

	// Buffer is between Schedule and the store; nil: none.
	Buffer             buffer.Buffer
	InboundRate        float64 // tasks per second out of the buffer; 0: inbound's default; negative: no bound
	InboundConcurrency int     // receives at a time; 0: inbound's default

	// DeliverDirect is how soon a task of a deliver lambda must be due to go straight to its lambda's queue.
	// 0: inbound's default, 15 minutes, which is the longest; negative: never.
	DeliverDirect time.Duration

	// Audit turns on the audit log; nil: nothing is recorded.
	Audit *AuditConfig
	// Defined returns what an identity may do that is defined elsewhere, so that no token can be made for it.
	// nil: there are no such identities, or they are not known here.
	Defined func(name string) (may access.Grants, found bool)

	// CheckTarget refuses, with task.ErrInvalid, targets of lambdas that the server does not call. nil: none is refused.
	CheckTarget func(t *task.Target) error

	// Unregister returns the command that deletes the registration of a lambda. nil: there are no
	// registrations.
	Unregister func(lambda string) string

	// Stepped is for a virtual clock that stands still and moves in jumps (docs/adr/0007). Then everything
	// that is due at a moment happens at that moment: nothing is done ahead of its time, nothing waits for a
	// batch to fill, there is no direct hand-off or prefetch, and leases and silent streams outlast every
	// jump.
	Stepped bool
	// Callers is the clock of who calls a Stepped node, if that is not Clock: calls wait by it, and workers renew
	// their leases by it. nil: Clock.
	Callers clock.Clock
	// Rests is called when the scheduler has nothing to do with a partition before the time that Node.Rests says. nil: not
	// called.
	Rests func()

	shared   bool    // several processes may use the store
	keyUnits float64 // write units that a key of the store takes in a second; 0: what DynamoDB documents
}

// AuditConfig configures the audit log of a node.
type AuditConfig struct {
	Keep time.Duration // 0: audit.KeepDefault
	// Written is called with each record, in order. It may be nil.
	Written func(audit.Record)
}

// Debug is what a process tells of itself besides its node.
type Debug struct {
	Log *logging.Log // nil: its levels cannot be changed
	// Settings are those of the process, without secrets.
	Settings func() any
}

// Membership is a membership that has to run, such as one by the pods of a cluster.
type Membership interface {
	partition.Membership
	// Run follows the members until its context ends.
	Run(ctx context.Context) error
	// Stalled returns how long ago Run last made progress.
	Stalled() time.Duration
}

// nameDefault is the name of a process without one.
const nameDefault = "kinesin"

// withSteps returns the configuration for a clock that moves in jumps, if it is one.
func (c Config) withSteps() Config {
	const atOnce = time.Nanosecond // since zero means a default
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

// waitLookEveryShared is how often a Wait reads its tasks if each read is a request to a service.
const waitLookEveryShared = 100 * time.Millisecond

// waitLookEvery returns how often a Wait reads its tasks; 0: inbound's default.
func (c Config) waitLookEvery() time.Duration {
	switch {
	case c.Stepped:
		return -1
	case c.shared:
		return waitLookEveryShared
	}
	return 0
}

// deliverTogether is how far apart the due times of deliveries in one batch may be; it is sent at the latest
// of them. At 100/s nine deliveries share a request, and the 95th percentile of their lateness stays below
// 100 ms.
const deliverTogether = 80 * time.Millisecond

// together returns deliverTogether, or 0 for a clock that moves in jumps.
func (c Config) together() time.Duration {
	if c.Stepped {
		return 0
	}
	return deliverTogether
}

// beside returns how the HSC watches worker processes on this machine, or nil if it must not.
func (c Config) beside() hsc.WatchProcess {
	if c.LeasesOnly || c.Stepped {
		return nil
	}
	return func(p *kinesinv1.Process) hsc.Process {
		id := processes.ID{PID: int(p.GetPid()), StartedTicks: p.GetStartedTicks()}
		if copy(id.Place[:], p.GetPlace()) != len(p.GetPlace()) || len(p.GetPlace()) != len(id.Place) {
			return nil
		}
		if watched, err := processes.Watch(id); err == nil {
			return watched
		}
		return nil // its lease tells
	}
}
