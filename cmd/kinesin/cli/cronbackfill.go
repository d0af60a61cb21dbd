package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) cronBackfillCommand() *cobra.Command {
	spec := &kinesinv1.BackfillCronRequest{}
	var from, to time.Time
	var s setFlags
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
	f.Var(instantValue{&from}, "from", "nominal times from this `TIME` on")
	f.Var(instantValue{&to}, "to", "and before this `TIME`, which has passed")
	f.BoolVar(&s.dryRun, "dry-run", false, "only print how many nominal times there are, ten of them, and what would become of them")
	f.Var(intValue{n: &s.pace, max: 1_000_000}, "pace", "schedule at most `N` tasks per second; when not set, the recovery quota of the lambda if it has one")
	f.BoolVar(&spec.All, "all", false, "allow more than 100,000 occurrences")
	f.BoolVar(&s.detach, "detach", false, "print the job and do not wait for its end")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		switch {
		case from.IsZero() || to.IsZero():
			return usagef("--from and --to are missing: want the range of nominal times, from the first one on and before the other")
		case !from.Before(to):
			return usagef("--from is not before --to")
		case s.dryRun && s.detach:
			return usagef("--detach goes with a job, and --dry-run makes none")
		}
		c := over(k)
		spec.Name, spec.From, spec.To, spec.DryRun, spec.RequestId = args[0], from.UnixMicro(), to.UnixMicro(), s.dryRun, c.RequestID()
		spec.Pace = uint32(s.pace)
		r, err := askSet(ctx, c, "backfill cron", c.Crons.BackfillCron, spec)
		if err != nil {
			return err
		}
		return a.printSet(ctx, c, r.GetJob(), &s)
	})
}

// rangeText returns what a backfill is about.
func rangeText(j *kinesinv1.Job) string {
	b := j.GetBackfill()
	if b == nil {
		return ""
	}
	return fmt.Sprintf("%s from %s until %s", b.GetCron(), instantText(b.GetFrom()), instantText(b.GetTo()))
}
