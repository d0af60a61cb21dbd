// Package inbound is where tasks come in and are asked about: it validates,
// de-duplicates and stores what users schedule, answers what became of it,
// cancels, and registers lambdas. It serves the TaskService and the
// LambdaService of the wire contract. It calls the store, hints the scheduler,
// and puts what is due within moments straight on its queue; it never talks to workers.
package inbound

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of what users may ask for. What is settable is in Config.
const (
	// HorizonDefault is how far ahead a task may be due.
	HorizonDefault = 10 * 365 * 24 * time.Hour
	// NearDefault is how soon a task must be due to go to its queue at once.
	NearDefault = 10 * time.Second
	// KeyBytesMax and CollectionBytesMax bound the labels of a task.
	KeyBytesMax, CollectionBytesMax = 256, 128
	// ScheduleItemsMax, IDsMax and ListMax bound one call.
	ScheduleItemsMax, IDsMax, ListMax = 10_000, 1000, 1000
	listDefault                       = 100
	waitMax                           = time.Minute
	// casTriesMax bounds how often a change is tried again because the task moved in between.
	casTriesMax = 8
)

// Store is what inbound needs of a store.
type Store interface {
	Apply(ctx context.Context, ops []store.Op) ([]error, error)
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Waiting(ctx context.Context, keys []store.WaitingKey) ([]task.Task, error)
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	ScanWaiting(ctx context.Context, p task.Partition, after store.WaitingKey, through task.Instant, limit int) ([]task.Task, error)
	ScanWakeups(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error)
	ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error)
	PayloadBytesMax() int
	PayloadInlineMax() int
}

// Queue is where tasks go that are due within moments.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
}

// Scheduler is told of what was stored. Both are hints; the scheduler also finds rows by itself.
type Scheduler interface {
	Added(t *task.Task)
	Awake(t *task.Task)
}

// Workers is told that a running task should stop.
type Workers interface {
	CancelRequested(t *task.Task)
}

// Config is what an Inbound is made of; Near, NearDepthMax and Horizon have defaults.
type Config struct {
	Store     Store
	Queue     Queue
	Catalog   *catalog.Catalog
	Sealer    *task.Sealer
	Scheduler Scheduler
	Workers   Workers
	Clock     clock.Clock
	Log       *slog.Logger
	Hooks     Hooks

	Near         time.Duration // 0: NearDefault; negative: never
	NearDepthMax int           // messages in a queue beyond which near tasks take the way over the store; 0: 4096
	Horizon      time.Duration // 0: HorizonDefault
	// DeliverReason, when not empty, is why lambdas of mode deliver are refused.
	DeliverReason string
}

// Hooks are told what happened. A nil hook is not called.
type Hooks struct {
	Accepted func(lambda string, priority string, n int)
	Refused  func(reason kinesinv1.Reason)
}

// Inbound serves users. It is safe for concurrent use.
type Inbound struct {
	Config

	mu    sync.Mutex // guards ended
	ended chan struct{}
}

// New returns an Inbound.
func New(c Config) *Inbound {
	if c.Near == 0 {
		c.Near = NearDefault
	}
	if c.NearDepthMax == 0 {
		c.NearDepthMax = 4096
	}
	if c.Horizon == 0 {
		c.Horizon = HorizonDefault
	}
	return &Inbound{Config: c, ended: make(chan struct{})}
}

// Ended tells those who wait that some task reached its end.
func (in *Inbound) Ended() {
	in.mu.Lock()
	defer in.mu.Unlock()
	close(in.ended)
	in.ended = make(chan struct{})
}

func (in *Inbound) nextEnd() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// invalid is a refusal that says what is allowed.
func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}
