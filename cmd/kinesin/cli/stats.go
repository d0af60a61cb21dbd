package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
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

func statsObjectOf(s *sdk.LambdaStats) statsObject {
	o := statsObject{
		Lambda: s.Lambda, Tasks: s.Tasks, Exact: s.Exact, OldestDue: timeText(s.OldestDue), Started: s.Started, Ended: s.Ended,
		Lateness50: millis(s.Lateness50), Lateness99: millis(s.Lateness99), Failed: s.Failed, Throttled: s.Throttled, HeldBy: heldByObjects(s.HeldBy),
		DeadHour: s.DeadHour, DeadDay: s.DeadDay,
		Workers: known(int64(s.Workers)), Due: known(s.Due),
	}
	if o.Due != nil {
		o.DueExact = &s.DueExact
	}
	for i := range s.Priorities {
		p := &s.Priorities[i]
		o.Priorities = append(o.Priorities, priorityObject{p.Priority, p.Started, known(p.Queued), p.InFlight, millis(p.Oldest)})
	}
	return o
}

func (a *app) statsCommand() *cobra.Command {
	var lambda string
	c := &cobra.Command{
		Use:   "stats [--lambda L]",
		Short: "Show what lives and runs, by lambda",
		Long: `Shows the live tasks of each lambda that you may read, by state; how long the task that waits longest for its first start is
overdue; first starts, ends, failed attempts and lateness of the last minute, on the server that answers; how many tasks died in
the last hour and day, on all servers, both from the beginning of their first hour; and what that server knows to hold tasks back.
With -o json, an array. kinesin lambda get shows more of one lambda.

With DynamoDB the numbers of tasks are estimates, each marked by a ~.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&lambda, "lambda", "", "only the lambda with this `NAME`")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		all, err := k.Stats(ctx, lambda)
		if err != nil {
			return err
		}
		return a.printStats(all)
	})
}

func (a *app) printStats(all []sdk.LambdaStats) error {
	titles := []string{"LAMBDA", "WAITING", "QUEUED", "RUNNING", "OVERDUE", "STARTED/S", "ENDED/S", "FAILED/S", "DEAD 1H", "DEAD 1D", "P50", "P99", "HELD BACK BY"}
	now := clock.Real().Now().Time()
	return printList(a, objectsOf(all, statsObjectOf), "", titles, func(i int, _ *statsObject) []string {
		s := &all[i]
		count := func(states ...sdk.State) string {
			n := int64(0)
			for _, state := range states {
				n += s.Tasks[state]
			}
			return numberText(n, s.Exact)
		}
		overdue := "-"
		if !s.OldestDue.IsZero() {
			overdue = max(0, now.Sub(s.OldestDue)).Round(time.Second).String()
		}
		return []string{
			s.Lambda, count(sdk.StateScheduled, sdk.StateRetriableFailure), count(sdk.StateEnqueued, sdk.StateAcquired),
			count(sdk.StateClaimed, sdk.StateProcessing), overdue, fmt.Sprintf("%.1f", s.Started), fmt.Sprintf("%.1f", s.Ended), fmt.Sprintf("%.1f", s.Failed),
			strconv.FormatInt(s.DeadHour, 10), strconv.FormatInt(s.DeadDay, 10), latenessText(s.Lateness50), latenessText(s.Lateness99), heldByReasons(s.HeldBy),
		}
	})
}
