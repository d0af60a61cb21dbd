package chain

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
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

// Tasks changes single tasks.
type Tasks interface {
	RowsOf(ctx context.Context, ids []string) ([]inbound.Row, error)
	View(row *inbound.Row) *kinesinv1.Task
	Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error)
	Redrive(ctx context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error)
	ExtendInChain(ctx context.Context, id string, startBefore task.Instant) (changed bool, err error)
	PauseInChain(ctx context.Context, id string, to task.Instant) (changed bool, err error)
}

// ServiceConfig is what a Service is made of.
type ServiceConfig struct {
	Keeper *Keeper
	Tasks  Tasks
	Sealer *task.Sealer
}

// Service serves the ChainService of the wire contract: it shows chains, and cancels, pauses, resumes and
// redrives them. The ids of follow-ups follow from the task before them, so that a chain is found from its first
// task without an index. A Service is safe for concurrent use.
type Service struct{ ServiceConfig }

// NewService returns a Service.
func NewService(c ServiceConfig) *Service { return &Service{c} }
