package sdk

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk/slo"
	"github.com/kinesin-io/kinesin/task"
)

// SetObjective sets the objective of a lambda, and returns it. Starts that were counted before stay, by the
// time that held then. It returns ErrRegistered for one that the lambda's registration set.
func (c *Client) SetObjective(ctx context.Context, o slo.Objective) (slo.Objective, error) {
	r, err := call(ctx, c, "set objective", c.backend.objectives.SetObjective, &kinesinv1.SetObjectiveRequest{
		Lambda: o.Lambda, Within: o.Within.Microseconds(), Objective: o.Percent, Window: o.Window.Microseconds(), ManagedBy: o.ManagedBy,
	})
	return objectiveOf(r.GetObjective()), err
}

// Objectives returns how the objective of a lambda is met; with an empty name, how those of all lambdas are
// that the client may read. There is none of a lambda that has no objective.
func (c *Client) Objectives(ctx context.Context, lambda string) ([]slo.Status, error) {
	r, err := call(ctx, c, "get objectives", c.backend.objectives.GetObjectives, &kinesinv1.GetObjectivesRequest{Lambda: lambda})
	all := make([]slo.Status, 0, len(r.GetObjectives()))
	for _, w := range r.GetObjectives() {
		s := slo.Status{
			Objective: objectiveOf(w.GetObjective()), Started: w.GetStarted(), Good: w.GetGood(), Waiting: w.GetWaiting(), Attained: w.GetAttained(), BudgetLeft: w.GetBudgetLeft(),
		}
		for _, b := range w.GetBurns() {
			s.Burns = append(s.Burns, slo.Burn{Over: task.Micros(b.GetOver()), Rate: b.GetRate(), Started: b.GetStarted()})
		}
		all = append(all, s)
	}
	return all, err
}

// DeleteObjective deletes the objective of a lambda; one that has none stays so.
func (c *Client) DeleteObjective(ctx context.Context, lambda string) error {
	_, err := call(ctx, c, "delete objective", c.backend.objectives.DeleteObjective, &kinesinv1.DeleteObjectiveRequest{Lambda: lambda})
	return err
}

func objectiveOf(w *kinesinv1.Objective) slo.Objective {
	return slo.Objective{
		Lambda: w.GetLambda(), Within: task.Micros(w.GetWithin()), Percent: w.GetObjective(), Window: task.Micros(w.GetWindow()),
		ManagedBy: w.GetManagedBy(), Updated: timeOf(w.GetUpdated()), UpdatedBy: w.GetUpdatedBy(), Registered: w.GetRegistered(),
	}
}
