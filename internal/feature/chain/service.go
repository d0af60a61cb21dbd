package chain

import (
	"context"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

var errForgotten = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND,
	"the first task of the chain is not kept any more, so that the chain cannot be shown or changed as a whole: it was deleted, its retention is over, or its key was used again; what is left of the chain runs on, and each of its tasks can be shown and changed by its own id")

// States of what is no task (yet).
const (
	statePlanned = "planned"
	stateSkipped = "skipped"
	stateMissing = "missing"
	stateHeld    = "held"
)

const missingText = "not kept any more, nor what followed it: it was deleted, its retention is over, or its lambda was deleted before it followed"

// States of a chain.
const (
	chainLive   = "live"
	chainPaused = "paused"
	chainEnded  = "ended"
)

// GetChain returns a chain by any of its tasks.
func (s *Service) GetChain(ctx context.Context, r *kinesinv1.GetChainRequest) (*kinesinv1.GetChainResponse, error) {
	root, public, err := s.rootOf(ctx, r.GetId())
	if err != nil {
		return nil, refusal.Wire(err)
	}
	first, whole, err := s.walk(ctx, root, tasksShownMax)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	shown := &showing{Service: s, left: tasksShownMax}
	response := &kinesinv1.GetChainResponse{Id: public, State: chainEnded}
	if response.Root, err = shown.node(ctx, first); err != nil {
		return nil, refusal.Wire(err)
	}
	first.each(func(n *node) {
		response.Count++
		switch {
		case n.row.State.IsEnd():
		case n.row.Chain != nil && n.row.Chain.Paused:
			response.State = chainPaused
		case response.State == chainEnded:
			response.State = chainLive
		}
	})
	response.More = !whole || shown.left <= 0
	return response, nil
}

// showing is a chain that is being shown.
type showing struct {
	*Service

	left int // of tasksShownMax
}

// node shows a task with what follows it.
func (s *showing) node(ctx context.Context, n *node) (*kinesinv1.ChainTask, error) {
	s.left--
	if n.row.ID.IsZero() {
		return s.absent(n), nil
	}
	v := s.view(&n.row)
	if n.row.Forgotten { // its row is still there, and says what followed it
		v = &kinesinv1.ChainTask{Lambda: v.Lambda, Collection: v.Collection, State: stateMissing, Error: "it was deleted"}
	}
	v.Edge, v.BeforeRedrive = n.edge.String(), n.isEarlier
	f, err := s.Keeper.Read(ctx, &n.row)
	if err != nil {
		return nil, fmt.Errorf("read what follows task %s: %w", v.Id, err)
	}
	there := 0
	for place, item := range All(f) {
		if s.left <= 0 {
			break
		}
		state := statePlanned
		switch {
		case n.row.State.IsEnd() && !n.row.Follows(place.Edge):
			state = stateSkipped
		case n.row.State.IsEnd():
			if there >= len(n.followups) {
				return v, nil // there were too many
			}
			next, err := s.node(ctx, n.followups[there])
			if err != nil {
				return nil, err
			}
			if there++; next.Lambda == "" {
				next.Lambda = item.GetLambda()
			}
			v.Followups = append(v.Followups, next)
			continue
		}
		v.Followups = append(v.Followups, s.planned(item, place, state))
	}
	for _, one := range n.earlier {
		if one.row.ID.IsZero() || s.left <= 0 {
			continue
		}
		next, err := s.node(ctx, one)
		if err != nil {
			return nil, err
		}
		v.Followups = append(v.Followups, next)
	}
	return v, nil
}

// absent shows a follow-up that is not there: its lambda was deleted, it is not kept any more, or another
// task held its key.
func (s *showing) absent(n *node) *kinesinv1.ChainTask {
	v := &kinesinv1.ChainTask{State: stateMissing, Edge: n.edge.String(), Error: missingText}
	if !n.held.ID.IsZero() {
		v.State, v.Error = stateHeld, "not created: its key was held by task "+s.Sealer.Seal(n.held.Token())
	}
	return v
}

// planned shows a follow-up that is not there, and what follows that.
func (s *showing) planned(item *kinesinv1.ScheduleItem, at Place, state string) *kinesinv1.ChainTask {
	s.left--
	v := &kinesinv1.ChainTask{
		Lambda: item.GetLambda(), Collection: item.GetCollection(), State: state, Edge: at.Edge.String(),
		Delay: item.GetDelay(), Due: item.GetDue(),
	}
	for place, next := range All(Of(item)) {
		if s.left <= 0 {
			break
		}
		v.Followups = append(v.Followups, s.planned(next, place, state))
	}
	return v
}

// view shows a task.
func (s *showing) view(t *task.Task) *kinesinv1.ChainTask {
	w := s.Tasks.View(&inbound.Row{Task: *t})
	v := &kinesinv1.ChainTask{
		Id: w.GetId(), Lambda: w.GetLambda(), Collection: w.GetCollection(), State: w.GetState(), Due: w.GetDue(),
		Started: w.GetStarted(), Ended: w.GetEnded(), Attempt: w.GetAttempt(), WaitsFor: w.GetWaitsFor().GetText(),
	}
	if c := t.Chain; c != nil && c.Paused && !t.State.IsEnd() {
		v.Paused, v.WaitsFor = true, "the chain is paused"
	}
	if n := len(t.History); n > 0 && t.State != task.Success {
		v.Error = t.History[n-1].Error
	}
	return v
}

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
