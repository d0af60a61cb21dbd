package node

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/feature/blob"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/feature/gate/breaker"
	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/internal/feature/job"
	"github.com/kinesin-io/kinesin/internal/feature/keyring"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/internal/guard"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/internal/tracing"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
)

// Node is a set of roles in one process.
type Node struct {
	log     *slog.Logger
	clock   clock.Clock
	steps   *clock.Steps // of that clock; nil if it moves in jumps
	metrics *Metrics
	store   *store.Store
	chains  *chain.Keeper // the store, for who may end tasks
	intake  *intake.Intake
	gone    goneLambdas
	queue   *queue.Queue
	buffer  buffer.Buffer // nil: none

	moves moves

	leases     *lease.Book
	catalog    *catalog.Catalog
	gates      *gate.Book
	keyring    *keyring.Ring
	quotas     *quotaKeeper
	members    *members             // nil without the scheduler's role
	scheduler  *scheduler.Scheduler // nil without the role
	dispatcher *dispatcher.Dispatcher
	sweeper    *scheduler.Sweeper
	blobs      *blob.Sweeper // nil: none are swept
	waits      *inbound.Waits
	inbound    *inbound.Inbound // nil without the role
	ingest     *ingest.Ingest   // nil without inbound's role
	lambdas    *lambdas.Service // nil without inbound's role
	jobs       *job.Service     // nil without inbound's role
	gating     *gate.Service    // nil without inbound's role
	firing     *cron.Firing
	chaining   *chain.Service // nil without inbound's role
	horizon    time.Duration  // of due times; 0: inbound's default
	periodic   *cron.Service  // nil without inbound's role
	groups     *group.Keeper  // nil without inbound's role
	grouping   *group.Service // nil without inbound's role
	slots      dispatcher.Register
	hsc        *hsc.Service // nil without the role
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
	deaths     *deaths
	breakers   *breaker.Keeper

	storeOutage, queueOutage outage
	tracer                   *tracing.Tracer // nil: nothing is traced
	debug                    Debug
	spans                    []connect.HandlerOption // that make those of calls

	shared   bool // several processes may use the store
	running  atomic.Bool
	warm     atomic.Bool // all partitions of this process have been read once
	draining atomic.Bool

	rests func() // Config.Rests; it may be nil
}

// noWorker knows of which lambdas no worker runs the tasks, on any server, for whoever looks at what waits.
type noWorker struct {
	n *Node

	mu   sync.Mutex
	last leaseLook
}

// leaseLook is what was seen when the leases were read, at a monotonic time; 0: never.
type leaseLook struct {
	at     time.Duration
	leases []lease.Lease
	failed bool // they could not be read
}

// quotaKeeper has what keeps the quotas of a process.
type quotaKeeper struct {
	book      *quota.Book
	starts    *quota.Starts
	running   running
	admission *quota.Admission
	retries   *limit.Retries
	service   *quota.Service
}

// running says which partitions have one owner because their running tasks are counted together: those of a
// lambda with a concurrency quota, and those of a shard of a lambda with limits by key.
type running struct {
	*quota.Running

	n *Node
}
