package objective

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// casTriesMax bounds how often a change is tried again because another one came in between.
const casTriesMax = 5

// Service is the ObjectiveService.
type Service struct {
	Keeper  *Keeper
	Catalog *catalog.Catalog
}

// SetObjective sets the objective of a lambda. Starts that were counted stay, so a change of the time holds
// for starts from then on.
func (s *Service) SetObjective(ctx context.Context, r *kinesinv1.SetObjectiveRequest) (_ *kinesinv1.SetObjectiveResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	l, err := s.Catalog.Find(ctx, r.GetLambda())
	if err != nil {
		return nil, err
	}
	o := &Objective{
		Lambda: l.Name, Ref: l.Ref, Within: task.Micros(r.GetWithinMicros()), Percent: r.GetObjective(), Window: task.Micros(r.GetWindowMicros()),
		Updated: s.Keeper.clock.Now(), UpdatedBy: access.From(ctx).Name,
	}
	if o.Window == 0 {
		o.Window = WindowDefault
	}
	if err := o.Validate(); err != nil {
		return nil, refusal.Invalid("%v", err)
	}
	for range casTriesMax {
		if err = s.put(ctx, o); !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if errors.Is(err, store.ErrConflict) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the objective of lambda %s is being changed by others; try again", l.Name)
	}
	if err != nil {
		return nil, err
	}
	_ = s.Keeper.Refresh(ctx) // else it is known a moment later
	return &kinesinv1.SetObjectiveResponse{Objective: view(o)}, nil
}

func (s *Service) put(ctx context.Context, o *Objective) error {
	row, err := s.Keeper.rows.Control(ctx, Kind, o.Lambda)
	switch {
	case err == nil:
		o.Version = row.Version
	case !errors.Is(err, store.ErrNotFound):
		return err
	default:
		if n := len(*s.Keeper.objectives.Load()); n >= ObjectivesMax {
			return refusal.Invalid("there are %d objectives: want at most %d; delete one first", n, ObjectivesMax)
		}
		o.Version = 0
	}
	if row, err = encode(o); err != nil {
		return err
	}
	return s.Keeper.rows.PutControl(ctx, row)
}

// DeleteObjective deletes the objective of a lambda. Without one it does nothing.
func (s *Service) DeleteObjective(ctx context.Context, r *kinesinv1.DeleteObjectiveRequest) (_ *kinesinv1.DeleteObjectiveResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	l, err := s.Catalog.Find(ctx, r.GetLambda())
	if err != nil {
		return nil, err
	}
	row, err := s.Keeper.rows.Control(ctx, Kind, l.Name)
	if err == nil {
		err = s.Keeper.rows.DeleteControl(ctx, row)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("delete an objective: %w", err)
	}
	_ = s.Keeper.Refresh(ctx)
	return &kinesinv1.DeleteObjectiveResponse{}, nil
}

// GetObjectives tells how the objective of a lambda is met, or all of them.
func (s *Service) GetObjectives(ctx context.Context, r *kinesinv1.GetObjectivesRequest) (_ *kinesinv1.GetObjectivesResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if r.GetLambda() != "" {
		if _, err := s.Catalog.Find(ctx, r.GetLambda()); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(s.Keeper.Refresh(ctx), s.Keeper.Flush(ctx), s.Keeper.readDays(ctx)); err != nil {
		return nil, err
	}
	response := &kinesinv1.GetObjectivesResponse{}
	for _, status := range s.Keeper.Statuses() {
		if r.GetLambda() == "" || r.GetLambda() == status.Lambda {
			response.Objectives = append(response.Objectives, statusView(&status))
		}
	}
	return response, nil
}

func statusView(s *Status) *kinesinv1.ObjectiveStatus {
	v := &kinesinv1.ObjectiveStatus{
		Objective: view(&s.Objective), Started: s.Started, Good: s.Good, Attained: s.Attained(), BudgetLeft: s.BudgetLeft(),
	}
	for _, b := range s.Burns {
		v.Burns = append(v.Burns, &kinesinv1.Burn{OverMicros: b.Over.Microseconds(), Rate: b.Burn(s.Percent), Started: b.Started})
	}
	return v
}

func view(o *Objective) *kinesinv1.Objective {
	return &kinesinv1.Objective{
		Lambda: o.Lambda, WithinMicros: o.Within.Microseconds(), Objective: o.Percent, WindowMicros: o.Window.Microseconds(),
		UpdatedMicros: int64(o.Updated), UpdatedBy: o.UpdatedBy,
	}
}
