package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/internal/zones"
	"github.com/kinesin-io/kinesin/sdk"
)

const (
	previewCountMax = 10_000
	previewShown    = 3 // fire times that a warning shows
)

func (a *app) cronCommand() *cobra.Command {
	n := a.crons()
	return group(&cobra.Command{
		Use:   "cron",
		Short: "Schedule tasks of a lambda again and again, on the clock of a zone",
		Long:  `A cron schedules a task of a lambda whenever its expression says (docs/concepts/crons.md).`,
	}, a.cronCreateCommand(), a.cronSetCommand(), a.cronListCommand(), a.cronPauseCommand(), a.cronRunCommand(), a.cronBackfillCommand(),
		a.cronHistoryCommand(), a.cronPreviewCommand(),
		n.getCommand(a, &cobra.Command{Short: "Show a cron, and when it fires next"}),
		n.deleteCommand(a, &cobra.Command{
			Short: "Delete a cron",
			Long:  "Deletes a cron. Occurrences that were sent to workers go on; others are skipped.",
		}),
		n.action(a, &cobra.Command{
			Use:   "resume",
			Short: "Have a cron fire again",
			Long:  "Ends the pause of a cron. Its catch-up policy decides about what it missed.",
		}, func(ctx context.Context, c *calls, name string) (*kinesinv1.Cron, error) {
			r, err := ask(ctx, c, "resume cron", c.Crons.ResumeCron, &kinesinv1.ResumeCronRequest{Name: name})
			return r.GetCron(), err
		}))
}

type previewFlags struct {
	cronspec.Config

	gap, fold  string
	from       time.Time
	count      int
	start, end time.Time
}

func (a *app) cronPreviewCommand() *cobra.Command {
	p := previewFlags{gap: string(cronspec.GapShift), fold: string(cronspec.FoldFirst), count: 10}
	c := &cobra.Command{
		Use:   "preview EXPR [--zone Z] [--from T] [--count N]",
		Short: "Print the next times at which an expression fires, across clock changes",
		Long: `Prints the next times at which an expression fires, and marks changes of the clock: five fields, six with seconds first,
@daily and its like, "@every 90s" or an RRULE. Calls no server. With -o json it prints an array of times.`,
		Example: `  kinesin cron preview '30 2 * * *' --zone Europe/Berlin --from 2026-03-28T00:00:00Z
  kinesin cron preview 'H H(1-5) * * mon-fri' --name report -o json
  kinesin cron preview 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0' --zone America/New_York`,
		Args: one("EXPR in quotes"),
	}
	f := c.Flags()
	f.StringVar(&p.Zone, "zone", "UTC", helpOf("Cron.zone"))
	f.Var(instantValue{&p.from}, "from", "print what fires after this `TIME`, in RFC 3339; now when not set")
	f.Var(intValue{n: &p.count, min: 1, max: previewCountMax}, "count", "print `N` times")
	f.Var(choiceValue{&p.gap, wordsOf("Cron.gap")}, "gap", helpOf("Cron.gap"))
	f.Var(choiceValue{&p.fold, wordsOf("Cron.fold")}, "fold", helpOf("Cron.fold"))
	f.StringVar(&p.Name, "name", "", "`NAME` by which H spreads")
	f.Var(instantValue{&p.start}, "start", "nothing fires before this `TIME`, from which @every and an RRULE count")
	f.Var(instantValue{&p.end}, "end", "nothing fires at this `TIME` or later")
	return a.acting(c, func(_ context.Context, args []string) error {
		p.Expression, p.Gap, p.Fold = args[0], cronspec.Gap(p.gap), cronspec.Fold(p.fold)
		return a.preview(&p)
	})
}

func (a *app) preview(p *previewFlags) error {
	if p.from.IsZero() {
		p.from = clock.Real().Now().Time().Truncate(time.Second)
	}
	p.Start, p.End = p.start, p.end
	after := p.from
	if p.start.IsZero() && cronspec.NeedsStart(p.Expression) {
		p.Start, after = p.from, p.from.Add(-1) // its start is its first time
	}
	s, err := cronspec.Parse(p.Config)
	if err != nil {
		return usagef("%v", err)
	}
	times := s.After(after, max(p.count, previewShown))
	a.noteSchedule(s, times, p)
	times = times[:min(len(times), p.count)]
	if a.json() {
		all := make([]string, len(times))
		for i, t := range times {
			all[i] = t.Format(time.RFC3339)
		}
		return printJSON(a.Stdout, all)
	}
	a.note("zone %s of the tz database %s", s.Zone(), zones.Default().Source())
	return printFires(a.Stdout, times, p.from.In(s.Zone()))
}

// noteSchedule says what the author of an expression may not have meant.
func (a *app) noteSchedule(s *cronspec.Schedule, times []time.Time, p *previewFlags) {
	if text := s.Note(times); text != "" {
		a.note("%s", text)
	}
	if s.HasSpread() && p.Name == "" {
		a.note("H depends on the name: give the one that you mean with --name")
	}
	if len(times) < p.count {
		a.note("it fires %d times after %s, and then no more", len(times), p.from.Format(time.RFC3339))
	}
}

// printFires prints times in columns, and beside one the new offset if it differs from that before.
func printFires(out io.Writer, times []time.Time, from time.Time) error {
	w := newTable(out)
	w.row("TIME", "DAY", "ZONE", "CLOCK CHANGE")
	_, before := from.Zone()
	for _, t := range times {
		abbreviation, offset := t.Zone()
		change := ""
		if offset != before {
			change = fmt.Sprintf("%s since the line before", signed(time.Duration(offset-before)*time.Second))
		}
		before = offset
		w.row(t.Format(time.RFC3339), t.Format("Mon"), abbreviation, change)
	}
	return w.Flush()
}

// signed returns a duration with its sign: +1h.
func signed(d time.Duration) string {
	if d > 0 {
		return "+" + formatDuration(d)
	}
	return formatDuration(d)
}

// instantValue is a flag with a time.
type instantValue struct{ t *time.Time }

func (v instantValue) String() string {
	if v.t == nil || v.t.IsZero() {
		return ""
	}
	return v.t.Format(time.RFC3339)
}

func (instantValue) Type() string { return "time" }

func (v instantValue) Set(text string) (err error) {
	*v.t, err = parseTime(text)
	return err
}

func (a *app) cronBackfillCommand() *cobra.Command {
	spec := &kinesinv1.BackfillCronRequest{}
	var from, to time.Time
	var s setFlags
	c := &cobra.Command{
		Use:   "backfill NAME --from T --to T [--dry-run] [--pace N] [--all] [--detach]",
		Short: "Schedule the occurrences of a past range",
		Long: `Schedules the occurrences with nominal times from --from on and before --to, by a job on the server. They are due now and
run beside each other, at --pace. What ran, runs or may run yet is left alone.`,
		Example: `  kinesin cron backfill nightly --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --dry-run
  kinesin cron backfill nightly --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --pace 5`,
		Args: one("NAME"), ValidArgsFunction: a.crons().complete(a),
	}
	f := c.Flags()
	f.Var(instantValue{&from}, "from", "nominal times from this `TIME` on")
	f.Var(instantValue{&to}, "to", "and before this `TIME`, which has passed")
	f.BoolVar(&s.dryRun, "dry-run", false, "only print how many there are, and ten of them")
	f.Var(intValue{n: &s.pace, max: 1_000_000}, "pace", "schedule at most `N` tasks per second; when not set, the recovery quota")
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
