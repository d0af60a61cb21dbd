package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// statsObject is the statistics of a lambda in JSON.
type statsObject struct {
	Lambda     string              `json:"lambda"`
	Tasks      map[sdk.State]int64 `json:"tasks"`
	Exact      bool                `json:"exact"`
	OldestDue  string              `json:"oldest_due,omitempty"`
	Started    float64             `json:"started_per_second"`
	Ended      float64             `json:"ended_per_second"`
	Lateness50 float64             `json:"lateness_p50_ms"`
	Lateness99 float64             `json:"lateness_p99_ms"`
	Failed     float64             `json:"failed_per_second"`
	Throttled  float64             `json:"throttled_per_second"`
	DeadHour   int64               `json:"dead_hour"`
	DeadDay    int64               `json:"dead_day"`
	HeldBy     []heldByObject      `json:"held_by"`

	// The rest is for lambda get only.

	Priorities []priorityObject `json:"priorities,omitempty"`
	Workers    *int64           `json:"workers,omitempty"`
	Due        *int64           `json:"due,omitempty"`
	DueExact   *bool            `json:"due_exact,omitempty"`
}

func statsObjectOf(s *admin.LambdaStats) statsObject {
	o := statsObject{
		Lambda: s.Lambda, Tasks: orEmpty(s.Tasks), Exact: s.Exact, OldestDue: timeText(s.OldestDue), Started: s.StartedPerSecond, Ended: s.EndedPerSecond,
		Lateness50: millis(s.LatenessP50), Lateness99: millis(s.LatenessP99), Failed: s.FailedPerSecond, Throttled: s.ThrottledPerSecond, HeldBy: heldByObjects(s.HeldBy),
		DeadHour: s.DeadHour, DeadDay: s.DeadDay,
		Workers: known(int64(s.Workers)), Due: known(s.Due),
	}
	if o.Due != nil {
		o.DueExact = &s.DueExact
	}
	for i := range s.Priorities {
		p := &s.Priorities[i]
		o.Priorities = append(o.Priorities, priorityObject{p.Priority, p.StartedPerSecond, known(p.Queued), p.InFlight, millis(p.Oldest)})
	}
	return o
}

func (a *app) statsCommand() *cobra.Command {
	return a.stats().listCommand(a, &cobra.Command{
		Use:   "stats [LAMBDA]",
		Short: "Show what lives and runs, by lambda",
		Long: `Shows the live tasks of each lambda that you may read, by state; how long the task that waits longest for its first start is
overdue; first starts, ends, failed attempts and lateness of the last minute, on the server that answers; how many tasks died in
the last hour and day, on all servers, both from the beginning of their first hour; and what that server knows to hold tasks back.
With -o json, an array. kinesin lambda get shows more of one lambda.

With DynamoDB the numbers of tasks are estimates, each marked by a ~.`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}, func(ctx context.Context, k *sdk.Client, args []string) ([]admin.LambdaStats, error) {
		return admin.New(k).Lambdas.Stats(ctx, first(args))
	})
}

// tasksIn counts the live tasks in some states.
func tasksIn(s *admin.LambdaStats, states ...sdk.State) (n int64) {
	for _, state := range states {
		n += s.Tasks[state]
	}
	return n
}
