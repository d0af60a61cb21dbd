package admin

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
)

// Objective says that a share of a lambda's tasks starts within a time after they are due, over a window that
// ends now.
type Objective struct {
	Lambda    string
	Within    time.Duration // 1 ms to 24 h
	Percent   float64       // above 0 and below 100
	Window    time.Duration // whole hours, up to 90 days; zero: 30 days
	ManagedBy string        // name of the declared set that it is of (kinesin apply); empty: none

	// The fields below are read only.

	Updated   time.Time
	UpdatedBy string // an identity
	// Registered says that the registration of the lambda set it (Terraform). Only that changes and deletes
	// it: calls are refused with sdk.ErrRegistered.
	Registered bool
}

// ObjectiveStatus says how an objective is met.
type ObjectiveStatus struct {
	Objective

	Started    int64   // tasks that started in the window, or expired, and those of Waiting
	Good       int64   // those of them that started in time
	Waiting    int64   // tasks that are late already and have not started
	Attained   float64 // percent; 100 while there is none
	BudgetLeft float64 // share of what may be late that is left, up to 1; negative when more was late
	Burns      []Burn
}

// Burn is how fast the budget was used up over a time: at 1 all of it is in one window.
type Burn struct {
	Over    time.Duration
	Rate    float64
	Started int64
}

// Objectives has the calls about the objectives of lambdas.
type Objectives struct{ c *calls }

// Set sets the objective of a lambda, and returns it. Starts that were counted before stay, by the time that held
// then. It returns ErrRegistered for one that the lambda's registration set.
func (s Objectives) Set(ctx context.Context, o Objective) (Objective, error) {
	request := wirecopy.To[kinesinv1.SetObjectiveRequest](&o)
	request.Objective = o.Percent
	r, err := call(ctx, s.c, "set objective", s.c.Objectives.SetObjective, request)
	return objectiveOf(r.GetObjective()), err
}

// List returns how the objective of a lambda is met, or how those of all are. There is none of a lambda that has no
// objective.
func (s Objectives) List(ctx context.Context, lambda string) ([]ObjectiveStatus, error) {
	r, err := call(ctx, s.c, "get objectives", s.c.Objectives.GetObjectives, &kinesinv1.GetObjectivesRequest{Lambda: lambda})
	all := wirecopy.All[ObjectiveStatus](r.GetObjectives())
	for i, w := range r.GetObjectives() {
		all[i].Objective = objectiveOf(w.GetObjective())
	}
	return all, err
}

// Delete deletes the objective of a lambda; one that has none stays so.
func (s Objectives) Delete(ctx context.Context, lambda string) error {
	_, err := call(ctx, s.c, "delete objective", s.c.Objectives.DeleteObjective, &kinesinv1.DeleteObjectiveRequest{Lambda: lambda})
	return err
}

func objectiveOf(w *kinesinv1.Objective) Objective {
	o := wirecopy.From[Objective](w)
	o.Percent = w.GetObjective()
	return o
}
