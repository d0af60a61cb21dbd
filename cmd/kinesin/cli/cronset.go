package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/internal/zones"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

const cronUpdateTriesMax = 5 // of an update that meets others

// cronFlags are the settings of a cron. A flag that is not given stays out of an update.
type cronFlags struct {
	cron     admin.Cron
	payload  newPayloadFlags
	settings *pflag.FlagSet
}

func (s *cronFlags) add(f *pflag.FlagSet) {
	s.settings = pflag.NewFlagSet("", pflag.ContinueOnError)
	addCronFlags(s.settings, &s.cron)
	managedByFlag(s.settings, &s.cron.ManagedBy)
	s.settings.Var(payloadText{&s.payload.text}, "payload", "payload `TEXT` of its tasks; {{nominal}} in it becomes the nominal time")
	s.settings.StringVar(&s.payload.file, "payload-file", "", "read the payload from `FILE`, - for stdin")
	f.AddFlagSet(s.settings)
}

// addCronFlags adds flags over the settings of a cron, but for its lambda and payload.
func addCronFlags(f *pflag.FlagSet, c *admin.Cron) {
	f.StringVar(&c.Schedule, "schedule", "", helpOf("Cron.schedule"))
	f.StringVar(&c.Zone, "zone", "UTC", helpOf("Cron.zone"))
	f.Var(instantValue{&c.Start}, "start", "nothing fires before this `TIME`, from which @every and an RRULE count")
	f.Var(instantValue{&c.End}, "end", "nothing fires at this `TIME` or later")
	f.Var(durationValue{d: &c.Jitter, max: cronspec.JitterMax}, "jitter", helpOf("Cron.jitter"))
	f.Var(choiceValue{(*string)(&c.Gap), wordsOf("Cron.gap")}, "gap", helpOf("Cron.gap"))
	f.Var(choiceValue{(*string)(&c.Fold), wordsOf("Cron.fold")}, "fold", helpOf("Cron.fold"))
	f.Var(choiceValue{(*string)(&c.Overlap), wordsOf("Cron.overlap")}, "overlap", helpOf("Cron.overlap"))
	f.Var(choiceValue{(*string)(&c.CatchUp), wordsOf("Cron.catch_up")}, "catch-up", helpOf("Cron.catch_up"))
	f.Var(intValue{n: &c.CatchUpMax, min: 1, max: 100_000}, "catch-up-max", helpOf("Cron.catch_up_max"))
	f.Var(durationValue{d: &c.CatchUpWithin, min: time.Second, max: 366 * day}, "catch-up-within", helpOf("Cron.catch_up_within"))
	f.Var(intValue{n: &c.FailuresMax, max: 1000}, "failures-max", helpOf("Cron.failures_max"))
	f.StringVar(&c.Priority, "priority", "", helpOf("Cron.priority"))
	f.StringVar(&c.Collection, "collection", "", helpOf("Cron.collection"))
	f.Var(tagsValue{&c.Tags}, "tag", "tag of its tasks, `NAME=VALUE`; may be repeated")
}

func (a *app) cronCreateCommand() *cobra.Command {
	var s cronFlags
	c := &cobra.Command{
		Use:   "create NAME --lambda L --schedule EXPR [--zone Z] [flags]",
		Short: "Create a cron",
		Long: `Creates a cron, prints it, and says on stderr when it fires first: five seconds later at the earliest. What looks like a
mistake (docs/reference/expressions.md) is noted there too. One that exists is refused (exit 1): set changes it, and kinesin apply creates what is missing.`,
		Example: `  kinesin cron create nightly --lambda report --schedule '30 2 * * *' --zone Europe/Berlin --payload '{"at":"{{nominal}}"}'
  kinesin cron create sync --lambda sync --schedule '@every 90s' --overlap skip --catch-up none`,
		Args: one("NAME"),
	}
	c.Flags().StringVar(&s.cron.Lambda, "lambda", "", "`NAME` of the lambda, a managed one")
	s.add(c.Flags())
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		switch {
		case s.cron.Lambda == "":
			return usagef("--lambda is missing: it names the lambda whose tasks the cron schedules")
		case s.cron.Schedule == "":
			return usagef("--schedule is missing: want an expression in quotes, such as '30 2 * * *'")
		}
		if err := task.CheckName("lambda", s.cron.Lambda); err != nil {
			return usagef("--lambda: %v", err)
		}
		var err error
		if s.cron.Payload, err = s.payload.read(a, c); err != nil {
			return err
		}
		s.cron.Name = args[0]
		made, duplicate, err := admin.New(k).Crons.Create(ctx, s.cron)
		if err != nil {
			return err
		}
		if duplicate {
			return fmt.Errorf("cron %s exists already, with these settings; kinesin cron set %s changes them", made.Name, made.Name)
		}
		shown := wirecopy.To[kinesinv1.Cron](&made)
		a.noteWarning(shown)
		if first := firesText(shown, 1); first != "" {
			a.note("cron %s fires first at %s", made.Name, first)
		}
		return a.crons().show(a, shown)
	})
}

func (a *app) cronSetCommand() *cobra.Command {
	var s cronFlags
	var reset []string
	c := &cobra.Command{
		Use:     "set NAME [flags]",
		Aliases: []string{"update"},
		Short:   "Change settings of a cron",
		Long: `Changes the given settings and prints the cron. --tag replaces all tags. Occurrences of the next five seconds are as before.
The lambda is fixed at creation.`,
		Example: `  kinesin cron set nightly --schedule '0 3 * * *'
  kinesin cron set nightly --catch-up all --catch-up-within 6h
  kinesin cron set nightly --reset tags,collection`,
		Args: one("NAME"), ValidArgsFunction: a.crons().complete(a),
	}
	f := c.Flags()
	s.add(f)
	var resettable []string
	f.VisitAll(func(flag *pflag.Flag) {
		if name := cronField(flag.Name); name != "schedule" && !slices.Contains(resettable, name) {
			resettable = append(resettable, name)
		}
	})
	resetFlag(f, &reset, resettable...)
	f.String("lambda", "", "")
	f.Lookup("lambda").Hidden = true
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) (err error) {
		if f.Changed("lambda") {
			return usagef("--lambda is fixed at creation: delete the cron, and create another one")
		}
		if err := wantChange(c); err != nil {
			return err
		}
		f.Visit(func(flag *pflag.Flag) {
			if slices.Contains(reset, cronField(flag.Name)) {
				err = usagef("%s is to be reset and has a value: want one of them", cronField(flag.Name))
			}
		})
		if err != nil {
			return err
		}
		if s.cron.Payload, err = s.payload.read(a, c); err != nil {
			return err
		}
		var changed admin.Cron
		for range cronUpdateTriesMax {
			if changed, err = admin.New(k).Crons.Get(ctx, args[0]); err != nil {
				return err
			}
			s.apply(func(flag string) bool { return slices.Contains(reset, cronField(flag)) }, &admin.Cron{}, &changed)
			s.apply(f.Changed, &s.cron, &changed)
			if changed, err = admin.New(k).Crons.Update(ctx, changed); !errors.Is(err, sdk.ErrStaleSeq) {
				break
			}
		}
		if err != nil {
			return err
		}
		shown := wirecopy.To[kinesinv1.Cron](&changed)
		a.noteWarning(shown)
		return a.crons().show(a, shown)
	})
}

// cronField returns the field of a cron that a flag sets.
func cronField(flag string) string {
	switch flag {
	case "tag":
		return "tags"
	case "payload-file":
		return "payload"
	}
	return strings.ReplaceAll(flag, "-", "_")
}

// apply copies the settings of whose flags are given to a cron.
func (s *cronFlags) apply(isGiven func(flag string) bool, from, to *admin.Cron) {
	s.settings.VisitAll(func(flag *pflag.Flag) {
		if isGiven(flag.Name) {
			name := strings.ReplaceAll(cronField(flag.Name), "_", "")
			field := func(c *admin.Cron) reflect.Value {
				return reflect.ValueOf(c).Elem().FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
			}
			field(to).Set(field(from))
		}
	})
	if to.CatchUp != cronspec.CatchUpAll { // then its bounds mean nothing, and the server refuses them if they are given
		if !isGiven("catch-up-max") {
			to.CatchUpMax = 0
		}
		if !isGiven("catch-up-within") {
			to.CatchUpWithin = 0
		}
	}
}

// noteWarning shows what the author of a cron's expression may not have meant.
func (a *app) noteWarning(c *kinesinv1.Cron) {
	if c.GetWarning() != "" {
		a.note("%s", c.GetWarning())
	}
}

// warningText returns what the author of an expression may not have meant, for a cron that is not made yet.
func warningText(c *admin.Cron) string {
	s, err := cronspec.Parse(cronspec.ConfigOf(wirecopy.To[kinesinv1.Cron](c)))
	if err != nil {
		return ""
	}
	return s.Note(s.After(time.Now(), previewShown))
}

// firesText returns the next times at which a cron fires, on its clock; empty if there are none.
func firesText(c *kinesinv1.Cron, limit int) string {
	zone, err := zones.Default().Load(c.GetZone())
	if err != nil {
		zone = time.UTC // a server with a newer release of the database knows the zone
	}
	next := c.GetNext()[:min(len(c.GetNext()), limit)]
	texts := make([]string, len(next))
	for i, at := range next {
		texts[i] = time.UnixMicro(at).In(zone).Format(time.RFC3339)
	}
	return strings.Join(texts, ", ")
}

func (a *app) cronPauseCommand() *cobra.Command {
	var reason string
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "pause NAME --reason TEXT [--for D]",
		Short: "Have a cron fire no more, until it is resumed or for a while",
		Long: `Has a cron fire no more, from five seconds later on. Occurrences that run go on. When it is resumed, its catch-up policy
decides about what it missed.`,
		Example: `  kinesin cron pause nightly --reason 'moving the database' --for 2h`,
		Args:    one("NAME"), ValidArgsFunction: a.crons().complete(a),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for those who miss its occurrences")
	c.Flags().Var(durationValue{d: &lasts, min: time.Second, max: 10 * 365 * day}, "for", "resume by itself after `D`; never when not set")
	return a.crons().action(a, c, func(ctx context.Context, c *calls, name string) (*kinesinv1.Cron, error) {
		if strings.TrimSpace(reason) == "" {
			return nil, usagef("--reason is missing: say why, for those who miss its occurrences")
		}
		request := &kinesinv1.PauseCronRequest{Name: name, Reason: reason}
		if lasts > 0 {
			request.Until = clock.Real().Now().Time().Add(lasts).UnixMicro()
		}
		r, err := ask(ctx, c, "pause cron", c.Crons.PauseCron, request)
		return r.GetCron(), err
	})
}

func (a *app) cronRunCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "run NAME",
		Short: "Schedule a task as a cron would, now",
		Long: `Schedules a task as the cron would and prints its id. It is no occurrence: --overlap does not apply to it, and a paused cron
runs too.`,
		Args: one("NAME"), ValidArgsFunction: a.crons().complete(a),
	}, func(ctx context.Context, k *sdk.Client, args []string) error {
		c := over(k)
		r, err := ask(ctx, c, "run cron", c.Crons.RunCron, &kinesinv1.RunCronRequest{Name: args[0], RequestId: c.RequestID()})
		if err != nil {
			return err
		}
		return a.print(r, "%s", r.GetId())
	})
}

// stateOfCron says in a few words whether a cron fires.
func stateOfCron(c *kinesinv1.Cron) string {
	switch p := c.GetPause(); {
	case c.GetLambdaDeleted():
		return "lambda deleted"
	case p == nil && len(c.GetNext()) == 0:
		return "fires no more"
	case p == nil:
		return "active"
	case p.GetUntil() == 0:
		return "paused"
	default:
		return "paused until " + instantText(p.GetUntil())
	}
}
