package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) cronBackfillCommand() *cobra.Command {
	spec := admin.JobSpec{Action: admin.JobBackfill}
	var dryRun, detach bool
	c := &cobra.Command{
		Use:   "backfill NAME --from T --to T [--dry-run] [--pace N] [--all] [--detach]",
		Short: "Schedule the occurrences of a past range",
		Long: `Schedules the occurrences of a cron with nominal times from --from on and before --to, by a job on the server. They are due now, and
run beside each other: --overlap does not apply, --pace does. Nominal times whose occurrence ran, runs or may run yet are left alone, and
so are those that an earlier backfill has scheduled. More than 100,000 are refused without --all, with their number. docs/cron.md tells more.`,
		Example: `  kinesin cron backfill nightly --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --dry-run
  kinesin cron backfill nightly --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --pace 5`,
		Args: one("NAME"), ValidArgsFunction: a.crons().complete(a),
	}
	f := c.Flags()
	f.Var(instantValue{&spec.From}, "from", "nominal times from this `TIME` on")
	f.Var(instantValue{&spec.To}, "to", "and before this `TIME`, which has passed")
	f.BoolVar(&dryRun, "dry-run", false, "only print how many nominal times there are, ten of them, and what would become of them")
	f.Var(intValue{n: &spec.Pace, max: 1_000_000}, "pace", "schedule at most `N` tasks per second; when not set, the recovery quota of the lambda if it has one")
	f.BoolVar(&spec.All, "all", false, "allow more than 100,000 occurrences")
	f.BoolVar(&detach, "detach", false, "print the job and do not wait for its end")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		switch {
		case spec.From.IsZero() || spec.To.IsZero():
			return usagef("--from and --to are missing: want the range of nominal times, from the first one on and before the other")
		case !spec.From.Before(spec.To):
			return usagef("--from is not before --to")
		case dryRun && detach:
			return usagef("--detach goes with a job, and --dry-run makes none")
		}
		spec.Cron = args[0]
		return a.changeSet(ctx, k, spec, &setFlags{dryRun: dryRun, detach: detach})
	})
}

// rangeText returns what a backfill is about.
func rangeText(j *admin.Job) string {
	if j.Cron == "" {
		return ""
	}
	return fmt.Sprintf("%s from %s until %s", j.Cron, timeText(j.From), timeText(j.To))
}

// backfillObject is the backfill of a job in JSON.
type backfillObject struct {
	Cron   string   `json:"cron"`
	From   string   `json:"from"`
	To     string   `json:"to"`
	Sample []string `json:"sample,omitempty"`
}

func backfillObjectOf(j *admin.Job) *backfillObject {
	if j.Cron == "" {
		return nil
	}
	o := &backfillObject{Cron: j.Cron, From: timeText(j.From), To: timeText(j.To)}
	for _, at := range j.Nominals {
		o.Sample = append(o.Sample, timeText(at))
	}
	return o
}
