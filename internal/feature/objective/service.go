package objective

import (
	"cmp"
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
	if r.GetManagedBy() != "" {
		if err := task.CheckName("managed by", r.GetManagedBy()); err != nil {
			return nil, err
		}
	}
	o := s.objectiveOf(l, r, access.From(ctx).Name)
	if err := o.Validate(); err != nil {
		return nil, refusal.Invalid("%v", err)
	}
	for range casTriesMax {
		if err = s.set(ctx, l, o); !errors.Is(err, store.ErrConflict) {
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

// objectiveOf returns what is asked for by somebody; l is nil for a lambda that is not there yet.
func (s *Service) objectiveOf(l *catalog.Entry, r *kinesinv1.SetObjectiveRequest, by string) *Objective {
	o := &Objective{
		Within: task.Micros(r.GetWithin()), Percent: r.GetObjective(), Window: cmp.Or(task.Micros(r.GetWindow()), WindowDefault),
		Updated: s.Keeper.clock.Now(), UpdatedBy: by, ManagedBy: r.GetManagedBy(),
	}
	if l != nil {
		o.Lambda, o.Ref = l.Name, l.Ref
	}
	return o
}

// set stores an objective that a call wants.
func (s *Service) set(ctx context.Context, l *catalog.Entry, o *Objective) error {
	have, err := s.read(ctx, l)
	if err != nil {
		return err
	}
	if have.isRegisteredOf(l) {
		return registered(l.Name)
	}
	o.Version = have.Version
	return s.put(ctx, o)
}

// read reads the objective of a lambda; one of nothing if it has none, or the row is of an earlier lambda of
// that name.
func (s *Service) read(ctx context.Context, l *catalog.Entry) (*Objective, error) {
	row, err := s.Keeper.rows.Control(ctx, Kind, l.Name)
	if errors.Is(err, store.ErrNotFound) {
		return &Objective{Lambda: l.Name, Ref: l.Ref}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read an objective: %w", err)
	}
	o, err := decode(&row)
	if err != nil {
		return nil, err
	}
	if o.Ref != l.Ref {
		return &Objective{Lambda: l.Name, Ref: l.Ref, Version: row.Version}, nil
	}
	return o, nil
}

// put stores an objective in place of the version that was read; 0: there was none.
func (s *Service) put(ctx context.Context, o *Objective) error {
	if n := len(*s.Keeper.objectives.Load()); o.Version == 0 && n >= ObjectivesMax {
		return refusal.Invalid("there are %d objectives: want at most %d; delete one first", n, ObjectivesMax)
	}
	row, err := encode(o)
	if err != nil {
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
	have, err := s.read(ctx, l)
	if err != nil {
		return nil, err
	}
	if have.isRegisteredOf(l) {
		return nil, registered(l.Name)
	}
	if err := s.delete(ctx, have); err != nil {
		return nil, err
	}
	_ = s.Keeper.Refresh(ctx)
	return &kinesinv1.DeleteObjectiveResponse{}, nil
}

func (s *Service) delete(ctx context.Context, o *Objective) error {
	if o.Version == 0 {
		return nil
	}
	err := s.Keeper.rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: o.Lambda, Version: o.Version})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("delete an objective: %w", err)
	}
	return nil
}

// GetObjectives tells how the objective of a lambda is met, or all of them.
func (s *Service) GetObjectives(ctx context.Context, r *kinesinv1.GetObjectivesRequest) (_ *kinesinv1.GetObjectivesResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if r.GetLambda() != "" {
		if _, err := s.Catalog.Find(ctx, r.GetLambda()); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(s.Keeper.Refresh(ctx), s.Keeper.Flush(ctx), s.Keeper.readDays(ctx), s.Keeper.look(ctx)); err != nil {
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
		Waiting: s.Waiting,
	}
	for _, b := range s.Burns {
		v.Burns = append(v.Burns, &kinesinv1.Burn{Over: b.Over.Microseconds(), Rate: b.Burn(s.Percent), Started: b.Started})
	}
	return v
}

func view(o *Objective) *kinesinv1.Objective {
	return &kinesinv1.Objective{
		Lambda: o.Lambda, Within: o.Within.Microseconds(), Objective: o.Percent, Window: o.Window.Microseconds(),
		Updated: int64(o.Updated), UpdatedBy: o.UpdatedBy,
		ManagedBy: o.ManagedBy, Registered: o.Registered,
	}
}
