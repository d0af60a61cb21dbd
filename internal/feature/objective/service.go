// Package objective keeps objectives: which share of a lambda's tasks is to start within a time after they
// are due, over a window. Each process counts starts, and deaths of all lambdas, by the hour, one small
// control row for each hour, so that a crash loses a minute of counts at most, and any process can tell about
// the fleet. What is late and has not started is counted anew each minute, by the owners of its partitions.
package objective

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

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
	err = s.change(ctx, l, func(have *Objective) (control.Do, error) {
		if have.isRegisteredOf(l) {
			return control.Keep, registered(l.Name)
		}
		return s.replace(have, o)
	})
	if err != nil {
		return nil, err
	}
	return &kinesinv1.SetObjectiveResponse{Objective: view(o)}, nil
}

// objectiveOf returns what is asked for by somebody; l is nil for a lambda that is not there yet.
func (s *Service) objectiveOf(l *catalog.Entry, r *kinesinv1.SetObjectiveRequest, by string) *Objective {
	o := &Objective{
		Within: task.Micros(r.GetWithin()), Percent: r.GetObjective(), Window: cmp.Or(task.Micros(r.GetWindow()), WindowDefault),
		Updated: s.Keeper.Clock.Now(), UpdatedBy: by, ManagedBy: r.GetManagedBy(),
	}
	if l != nil {
		o.Lambda, o.Ref = l.Name, l.Ref
	}
	return o
}

// change changes the objective of a lambda, which says nothing if it has none, or the row is of an earlier lambda of that
// name. What is changed is known here at once.
func (s *Service) change(ctx context.Context, l *catalog.Entry, edit func(have *Objective) (control.Do, error)) error {
	_, err := s.Keeper.book.Set(ctx, l.Name, func(o *Objective) (control.Do, error) {
		if o.Lambda == "" || o.Ref != l.Ref {
			*o = Objective{Meta: control.Meta{Version: o.Version}, Lambda: l.Name, Ref: l.Ref}
		}
		return edit(o)
	})
	if errors.Is(err, store.ErrConflict) {
		return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the objective of lambda %s is being changed by others; try again", l.Name)
	}
	if err == nil {
		_ = s.Keeper.Refresh(ctx) // else it is known a moment later
	}
	return err
}

// replace puts an objective in the place of what a lambda has.
func (s *Service) replace(have, with *Objective) (control.Do, error) {
	if n := len(s.Keeper.objectives()); have.Version == 0 && n >= ObjectivesMax {
		return control.Keep, refusal.Invalid("there are %d objectives: want at most %d; delete one first", n, ObjectivesMax)
	}
	meta := have.Meta
	*have = *with
	have.Meta = meta
	return control.Store, nil
}

// DeleteObjective deletes the objective of a lambda. Without one it does nothing.
func (s *Service) DeleteObjective(ctx context.Context, r *kinesinv1.DeleteObjectiveRequest) (_ *kinesinv1.DeleteObjectiveResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	l, err := s.Catalog.Find(ctx, r.GetLambda())
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, l, func(have *Objective) (control.Do, error) {
		switch {
		case have.isRegisteredOf(l):
			return control.Keep, registered(l.Name)
		case have.Version == 0:
			return control.Keep, nil
		}
		return control.Remove, nil
	})
	return &kinesinv1.DeleteObjectiveResponse{}, err
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

// registeredBy is who set the objectives of registrations.
const registeredBy = "(registration)"

// isRegisteredOf reports whether an objective is there because the registration of the lambda declares it.
func (o *Objective) isRegisteredOf(l *catalog.Entry) bool {
	return o.Registered && l.Made != ""
}

// registered refuses a call that changes what is the registration's.
func registered(lambda string) error {
	return api.Errorf(kinesinv1.Reason_REASON_REGISTERED,
		"the objective of lambda %s is registered with it: change or remove it there (objective of its module call in Terraform)", lambda)
}

// wanted returns the objective of a registration; nil if it declares none.
func (s *Service) wanted(l *catalog.Entry, r *catalog.Registration) *Objective {
	if r.Objective == nil {
		return nil
	}
	o := s.objectiveOf(l, r.Objective, registeredBy)
	o.Registered = true
	return o
}

// Check refuses an objective that cannot become that of a registration.
func (s *Service) Check(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	o := s.wanted(l, r)
	if o == nil {
		return nil
	}
	if err := o.Validate(); err != nil {
		return refusal.Invalid("objective: %v", err)
	}
	if l == nil {
		return nil
	}
	have, err := s.Keeper.book.Find(ctx, l.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil || have.Ref != l.Ref || have.ManagedBy == "":
		return err
	}
	return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "objective: there is one, managed by set %s: take it out of that file, and delete it with kinesin objective delete %s", have.ManagedBy, l.Name)
}

// Make sets the objective of a registration, or deletes that of an earlier one.
func (s *Service) Make(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error {
	return s.register(ctx, l, s.wanted(l, r))
}

// Remove deletes the objective that a registration declared.
func (s *Service) Remove(ctx context.Context, l *catalog.Entry) error {
	return s.register(ctx, l, nil)
}

func (s *Service) register(ctx context.Context, l *catalog.Entry, want *Objective) error {
	return s.change(ctx, l, func(have *Objective) (control.Do, error) {
		if want == nil && !have.Registered {
			return control.Keep, nil
		}
		if err := s.Catalog.CheckCurrent(ctx, l); err != nil {
			return control.Keep, err
		}
		if want == nil {
			return control.Remove, nil
		}
		return s.replace(have, want)
	})
}

// Kind is the kind of the control rows of objectives, each named after its lambda.
const Kind = "objective"

// Bounds of an objective.
const (
	WithinMin     = time.Millisecond
	WithinMax     = 24 * time.Hour
	WindowMin     = time.Hour
	WindowMax     = 90 * 24 * time.Hour
	WindowDefault = 30 * 24 * time.Hour
	// ObjectivesMax bounds the objectives of an installation, and so the size of the rows with counts.
	ObjectivesMax = 500
)

// Objective is that of a lambda. Its JSON is how it is stored.
type Objective struct {
	control.Meta `json:"-"`

	Lambda    string        `json:"-"`
	Ref       uint32        `json:"ref"`
	Within    time.Duration `json:"within_ns"`
	Percent   float64       `json:"percent"`
	Window    time.Duration `json:"window_ns"`
	Updated   task.Instant  `json:"updated"`
	UpdatedBy string        `json:"updated_by,omitempty"`
	// ManagedBy names the declared set that it is of; empty: none.
	ManagedBy string `json:"managed_by,omitempty"`
	// Registered says that the registration of the lambda set it.
	Registered bool `json:"registered,omitempty"`
}

// Validate says what is allowed.
func (o *Objective) Validate() error {
	switch {
	case o.Within < WithinMin || o.Within > WithinMax:
		return fmt.Errorf("within %v: want %v to %v", o.Within, WithinMin, WithinMax)
	case !(o.Percent > 0 && o.Percent < 100):
		return fmt.Errorf("objective %v: want a percentage above 0 and below 100, such as 99 or 99.9; 100 would leave no budget", o.Percent)
	case o.Window < WindowMin || o.Window > WindowMax || o.Window%time.Hour != 0:
		return fmt.Errorf("window %v: want whole hours, 1 h to 90 days", o.Window)
	}
	return nil
}

// asRows says how objectives are kept as rows.
var asRows = control.Kind[Objective]{
	Live: Kind, What: "objective of lambda", Name: func(o *Objective) string { return o.Lambda },
	Read: func(name string, value []byte, o *Objective) error {
		o.Lambda = name
		return json.Unmarshal(value, o)
	},
}

// Count is how many tasks started, how many of them in time, and how many died. Those of a lambda without an
// objective died only.
type Count struct {
	Started, Good int64
	Dead          int64 `json:",omitempty"`
}

func (c Count) plus(other Count) Count {
	return Count{c.Started + other.Started, c.Good + other.Good, c.Dead + other.Dead}
}

// Attained returns the share of tasks that started in time, in percent.
func (c Count) Attained() float64 {
	if c.Started == 0 {
		return 100
	}
	return 100 * float64(c.Good) / float64(c.Started)
}

// Burn returns how fast the budget of an objective is used up: 1 uses up all of it in one window.
func (c Count) Burn(percent float64) float64 {
	return (100 - c.Attained()) / (100 - percent)
}

// Status says how an objective is met.
type Status struct {
	Objective
	Count

	Waiting int64 // tasks that are late already and have not started, which Count and Burns have as started
	Burns   []Burn
}

// BudgetLeft returns the share of the budget that is left; negative when more was late than may be.
func (s *Status) BudgetLeft() float64 { return 1 - s.Burn(s.Percent) }

// Burn is how fast the budget was used up over a time.
type Burn struct {
	Over time.Duration
	Count
}

// BurnSpans are the times over which burn is told. Counts are by the hour, so each is up to an hour longer.
func BurnSpans() []time.Duration {
	return []time.Duration{time.Hour, 6 * time.Hour, 72 * time.Hour}
}
