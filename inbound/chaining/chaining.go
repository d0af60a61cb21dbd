// Package chaining serves the ChainService of the wire contract: it shows chains, and cancels, pauses,
// resumes and redrives them. The ids of follow-ups follow from the task before them, so that a chain is
// found from its first task without an index. The package creates no follow-up: package chains does,
// together with an end.
package chaining

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/chains"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// tasksShownMax bounds the tasks of a chain that are shown, those included that may come.
	tasksShownMax = 10_000
	// tasksMax bounds the tasks of a chain that one call changes.
	tasksMax = 100_000
	// passesMax bounds how often a chain is gone over that goes on meanwhile.
	passesMax = task.ChainDepthMax + 10
)

// Store reads rows.
type Store interface {
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error)
}

// Keeper knows what follows tasks.
type Keeper interface {
	Followups(ctx context.Context, ended *task.Task) ([]chains.Followup, *kinesinv1.Followups, error)
	Earlier(ctx context.Context, t *task.Task) ([]chains.EarlierEnd, error)
	Read(ctx context.Context, t *task.Task) (*kinesinv1.Followups, error)
	Complete(ctx context.Context, ended *task.Task) error
}

// Tasks changes single tasks.
type Tasks interface {
	RowsOf(ctx context.Context, ids []string) ([]inbound.Row, error)
	View(row *inbound.Row) *kinesinv1.Task
	Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error)
	Redrive(ctx context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error)
	ExtendInChain(ctx context.Context, id string, startBefore task.Instant) (changed bool, err error)
	PauseInChain(ctx context.Context, id string, to task.Instant) (changed bool, err error)
}

// Config is what a Service is made of.
type Config struct {
	Store  Store
	Keeper Keeper
	Tasks  Tasks
	Sealer *task.Sealer
	Clock  clock.Clock
}

// Service serves chains. It is safe for concurrent use.
type Service struct{ Config }

// New returns a Service.
func New(c Config) *Service { return &Service{c} }
