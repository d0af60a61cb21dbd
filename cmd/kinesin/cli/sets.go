package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/where"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// jobLookEvery is how often a job that somebody waits for is looked at; progressNoteEvery is how often its
// progress is told.
const (
	jobLookEvery      = 250 * time.Millisecond
	progressNoteEvery = 2 * time.Second
)

const whereUsage = "only tasks that match this `FILTER`, such as 'state=dead and due<-1h'"

// setFlags are the flags of a command that changes the tasks that a filter selects.
type setFlags struct {
	where               string
	all, dryRun, detach bool
	pace                int

	by, spread time.Duration // of reschedule
	dueNote    string        // what to tell people of the due time
}

// setOnly are the flags that make a command one of a set.
var setOnly = []string{"where", "all", "dry-run", "pace", "detach", "by", "spread"}

// singleOnly are the flags of a single task that a set cannot have.
var singleOnly = []string{"if-seq", "payload", "payload-file"}

// withSets lets a complete command that changes tasks by their ids also change those that a filter selects,
// by a job on the server.
func (a *app) withSets(c *cobra.Command, action admin.JobAction) *cobra.Command {
	var s setFlags
	f := c.Flags()
	f.StringVar(&s.where, "where", "", whereUsage+"; as a job on the server")
	f.BoolVar(&s.all, "all", false, "all tasks; with --where, also if the filter matches all")
	f.BoolVar(&s.dryRun, "dry-run", false, "only print how many tasks would be changed, ten of them, and the cost")
	f.Var(intValue{n: &s.pace, max: 1_000_000}, "pace", "change at most `N` tasks per second; when not set no limit, for redrive the recovery quota")
	f.BoolVar(&s.detach, "detach", false, "print the job and do not wait for its end")
	if f.Lookup("lambda") == nil {
		f.String("lambda", "", "only tasks of the lambda with this `NAME`; with --where or --all")
	}
	if action == admin.JobReschedule {
		f.Var(durationValue{d: &s.by, min: -10 * 365 * day}, "by", "move each due time by `D`, which may be negative; with --where or --all")
		f.Var(durationValue{d: &s.spread, min: time.Millisecond}, "spread", "due times evenly over `D` from now; with --where or --all")
	}
	single, args := c.RunE, c.Args
	isSet := func(cmd *cobra.Command) bool { return anyOf(cmd, setOnly...) }
	c.Args = func(cmd *cobra.Command, ids []string) error {
		switch {
		case !isSet(cmd):
			return args(cmd, ids)
		case len(ids) > 0:
			return usagef("%q: a filter selects the tasks: want no IDs", shortened(ids[0]))
		}
		return s.check(cmd)
	}
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		if !isSet(cmd) {
			return single(cmd, ids)
		}
		return does(func(ctx context.Context, _ []string) error {
			spec, err := s.spec(cmd, action)
			if err != nil {
				return err
			}
			return a.withClient(func(k *sdk.Client) error {
				lambda, _ := cmd.Flags().GetString("lambda")
				if err := wantLambda(ctx, over(k), lambda); err != nil {
					return err
				}
				return a.changeSet(ctx, over(k), spec, &s)
			}, sdk.WithTries(triesInteractive))
		})(cmd, ids)
	}
	return c
}

// wantChange refuses a command that changes settings without a flag for one of them; but are flags that are for others.
func wantChange(c *cobra.Command, but ...string) error {
	want := slices.DeleteFunc(ownFlags(c), func(name string) bool { return slices.Contains(but, name) })
	if anyOf(c, want...) {
		return nil
	}
	return usagef("nothing to change: want any of --%s", strings.Join(want, ", --"))
}

func anyOf(c *cobra.Command, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return c.Flags().Changed(name) })
}

func (s *setFlags) check(c *cobra.Command) error {
	for _, name := range singleOnly {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return usagef("--%s is for one task, and --where or --all names a set", name)
		}
	}
	switch {
	case s.where == "" && !s.all:
		return usagef("--where is missing: it selects the tasks; --all means all of them")
	case checkFilter(s.where) != nil:
		return checkFilter(s.where)
	case c.Flags().Lookup("key") != nil && c.Flags().Changed("key"):
		return usagef("--key names one task, and --where or --all a set: want one of them; a filter has key=…")
	}
	return nil
}

// checkFilter returns an error if a filter cannot be read. It is checked before the flag --lambda gets into
// it, so that the error says where in the filter it goes wrong.
func checkFilter(filter string) error {
	if _, err := where.Parse(filter, clock.Real().Now()); err != nil {
		return usagef("--where: %v", err)
	}
	return nil
}

// spec returns the job that the flags describe.
func (s *setFlags) spec(c *cobra.Command, action admin.JobAction) (spec *kinesinv1.CreateJobRequest, err error) {
	spec = &kinesinv1.CreateJobRequest{
		Action: string(action), All: s.all, DryRun: s.dryRun, Pace: uint32(s.pace), By: s.by.Microseconds(), Spread: s.spread.Microseconds(),
	}
	lambda, _ := c.Flags().GetString("lambda")
	if spec.Where, err = ofLambda(lambda, s.where); err != nil {
		return spec, err
	}
	if action == admin.JobRedrive && c.Flags().Lookup("force") != nil {
		spec.Force, _ = c.Flags().GetBool("force")
	}
	if action != admin.JobReschedule {
		return spec, nil
	}
	if anyOf(c, "at", "zone") {
		at, note, err := (&atFlags{c.Flag("at").Value.String(), c.Flag("zone").Value.String()}).read()
		if err != nil {
			return spec, err
		}
		spec.Due, s.dueNote = at.UnixMicro(), note
	}
	if in := c.Flags().Lookup("in"); in != nil && in.Changed {
		after, _ := in.Value.(durationValue)
		if *after.d < 0 {
			s.dueNote = pastText
		}
		spec.Due = clock.Real().Now().Time().Add(max(0, *after.d)).UnixMicro()
	}
	ways := 0
	for _, name := range []string{"by", "spread", "at", "in"} {
		if c.Flags().Changed(name) {
			ways++
		}
	}
	if ways != 1 || spec.GetBy() == 0 && spec.GetSpread() == 0 && spec.GetDue() == 0 {
		return spec, usagef("want one of --by D, --spread D, --in D and --at TIME, which says when the tasks are to be due")
	}
	return spec, nil
}

// ofLambda limits a filter to a lambda, if one is named.
func ofLambda(lambda, where string) (string, error) {
	if lambda == "" {
		return where, nil
	}
	if err := task.CheckName("lambda", lambda); err != nil {
		return "", usagef("%v", err)
	}
	if strings.TrimSpace(where) == "" {
		return "lambda=" + lambda, nil
	}
	return "lambda=" + lambda + " and (" + where + ")", nil
}

// wantLambda returns an error if a flag names a lambda that is not there: a filter of its name would select
// nothing, without a word.
func wantLambda(ctx context.Context, c *calls, name string) error {
	if name == "" {
		return nil
	}
	_, err := ask(ctx, c, "get lambda", c.Lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: name})
	return err
}

// changeSet makes a job and prints it, as printSet does.
func (a *app) changeSet(ctx context.Context, c *calls, spec *kinesinv1.CreateJobRequest, s *setFlags) error {
	if s.dueNote != "" && !a.json() {
		a.note("%s", s.dueNote)
	}
	spec.RequestId = c.RequestID()
	r, err := askSet(ctx, c, "job", c.Jobs.CreateJob, spec)
	if err != nil {
		return err
	}
	return a.printSet(ctx, c, r.GetJob(), s)
}

// printSet waits for the end of a job that a command has made, unless the flags say otherwise, and prints it. The error is
// errReported if the job could not change some tasks, or did not get to its end.
func (a *app) printSet(ctx context.Context, c *calls, j *kinesinv1.Job, s *setFlags) (err error) {
	if s.dryRun {
		return a.jobs().show(a, j)
	}
	if s.pace == 0 && j.GetPace() > 0 {
		a.note("it changes %d tasks per second, the recovery quota of its lambda (kinesin quota get LAMBDA); --pace sets another pace", j.GetPace())
	}
	if s.detach {
		return a.print(j, "%s", j.GetId())
	}
	a.note("job %s runs on the server; it goes on if this command ends (kinesin job get, pause, stop)", j.GetId())
	if j, err = a.follow(ctx, c, j); err != nil {
		return err
	}
	shown, _ := proto.Clone(j).(*kinesinv1.Job)
	if !a.json() {
		shown.Refused = j.GetRefused()[:min(len(j.GetRefused()), refusedShownMax)]
	}
	if err := a.jobs().show(a, shown); err != nil {
		return err
	}
	return a.judge(j)
}

// refusedShownMax is how many refused ids a command prints for people, who would miss what is above them.
const refusedShownMax = 10

func stateOf(j *kinesinv1.Job) admin.JobState { return admin.JobState(j.GetState()) }

// follow waits for the end of a job and tells its progress.
func (a *app) follow(ctx context.Context, c *calls, j *kinesinv1.Job) (*kinesinv1.Job, error) {
	told := time.Duration(0)
	for waited := jobLookEvery; !stateOf(j).IsEnd(); waited += jobLookEvery {
		if err := clock.Sleep(ctx, clock.Real(), jobLookEvery); err != nil {
			return j, err
		}
		now, err := a.jobs().get(ctx, c, j.GetId())
		if err != nil {
			return j, err
		}
		if j = now; waited-told >= progressNoteEvery && !stateOf(j).IsEnd() {
			told = waited
			a.note("%s: %s", j.GetState(), progressText(j))
		}
	}
	return j, nil
}

func progressText(j *kinesinv1.Job) string {
	text := fmt.Sprintf("%d tasks met in %d rows", j.GetMatched(), j.GetExamined())
	if len(j.GetOutcomes()) > 0 {
		text += ": " + outcomesText(j.GetOutcomes())
	}
	return text
}

func outcomesText(outcomes map[string]int64) string {
	parts := make([]string, 0, len(outcomes))
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		parts = append(parts, fmt.Sprintf("%d %s", outcomes[outcome], outcome))
	}
	return strings.Join(parts, ", ")
}

// judge returns errReported, and says why, unless a job has changed all tasks.
func (a *app) judge(j *kinesinv1.Job) error {
	refused := (&admin.Job{Outcomes: j.GetOutcomes()}).RefusedCount()
	switch {
	case stateOf(j) == admin.JobFailed || stateOf(j) == admin.JobStopped:
		a.note("the job did not get to its end: %s", j.GetState())
	case refused > 0:
		a.note("%d tasks were refused (%s); kinesin job get %s has up to 1,000 of them", refused, outcomesText(j.GetOutcomes()), j.GetId())
	default:
		return nil
	}
	return errReported
}

// printJob prints a job, with the tasks of a dry run and the ids that it could not change.
func (a *app) printJob(j *kinesinv1.Job) error {
	t := newTable(a.Stdout)
	t.facts([][2]string{
		{"job", j.GetId()},
		{"action", actionText(j)},
		{"filter", j.GetWhere()},
		{"group", j.GetGroup()},
		{"occurrences", rangeText(j)},
		{"state", j.GetState()},
		{"created", instantText(j.GetCreated())},
		{"ended", instantText(j.GetEnded())},
		{"made by", j.GetCreatedBy()},
		{"tasks", matchedText(j)},
		{"outcomes", outcomesText(j.GetOutcomes())},
		{"cost", j.GetCost()},
		{"problem", j.GetProblem()},
	})
	if err := t.Flush(); err != nil {
		return err
	}
	return printJobTasks(a.Stdout, j)
}

// actionText says what a job does, with the flags that say how.
func actionText(j *kinesinv1.Job) string {
	switch {
	case j.GetBy() != 0:
		return j.GetAction() + " --by " + spanText(j.GetBy())
	case j.GetSpread() != 0:
		return j.GetAction() + " --spread " + spanText(j.GetSpread())
	case j.GetDue() != 0:
		return j.GetAction() + " --at " + instantText(j.GetDue())
	case j.GetForce():
		return j.GetAction() + " --force"
	}
	return j.GetAction()
}

func matchedText(j *kinesinv1.Job) string {
	text := strconv.FormatInt(j.GetMatched(), 10)
	if stateOf(j) == admin.JobCounted && !j.GetMatchedExact() {
		text = "about " + text
	}
	return text
}

func printJobTasks(w io.Writer, j *kinesinv1.Job) error {
	if len(j.GetSample()) > 0 {
		fmt.Fprintln(w, "\nSome of them:")
		row := listTable(w, true, false)
		for _, t := range j.GetSample() {
			if err := row(t); err != nil {
				return err
			}
		}
	}
	if nominals := j.GetBackfill().GetSample(); len(nominals) > 0 {
		fmt.Fprintln(w, "\nThe first nominal times:")
		for _, at := range nominals {
			if _, err := fmt.Fprintln(w, instantText(at)); err != nil {
				return err
			}
		}
	}
	if len(j.GetRefused()) > 0 {
		fmt.Fprintln(w, "\nRefused:")
		for _, r := range j.GetRefused() {
			if _, err := fmt.Fprintf(w, "%s: %s\n", r.GetId(), r.GetText()); err != nil {
				return err
			}
		}
	}
	return nil
}

// idHeadChars is how much of an id a filter finds: its form and 126 bits of the task's own id.
const idHeadChars = 23

// setCommand is a command that changes only sets.
func (a *app) setCommand(c *cobra.Command, action admin.JobAction) *cobra.Command {
	c.Args = func(_ *cobra.Command, ids []string) error {
		id := first(ids)
		if head := id[:min(idHeadChars, len(id))]; task.IsShortened(head) {
			return usagef("a filter selects the tasks: want no IDs; --where 'any~^%s' selects this one", head)
		}
		return usagef("--where is missing: it selects the tasks; --all means all of them")
	}
	return a.withSets(a.calling(c, func(context.Context, *sdk.Client, []string) error { return nil }), action)
}

func (a *app) expireCommand() *cobra.Command {
	return a.setCommand(&cobra.Command{
		Use:   "expire {--where FILTER | --all} [--lambda L] [--dry-run] [--pace N] [--detach]",
		Short: "End waiting tasks as expired",
		Long: `Ends the live tasks that a filter selects as expired, by a job on the server (docs/reference/filters.md). A task that a worker has is
refused.`,
		Example: `  kinesin expire --lambda greet --where 'due<-1d'`,
	}, admin.JobExpire)
}

func (a *app) deleteCommand() *cobra.Command {
	return a.setCommand(&cobra.Command{
		Use:   "delete {--where FILTER | --all} [--lambda L] [--dry-run] [--pace N] [--detach]",
		Short: "Forget ended tasks",
		Long: `Deletes the ended tasks that a filter selects before their retention is over, by a job on the server (docs/reference/filters.md). Their
keys are free then. A row that may have to refuse a second start of its task is refused for some minutes, or as long as the
lambda keeps it.`,
		Example: `  kinesin delete --where 'state=dead and ended<-30d' --dry-run`,
	}, admin.JobDelete)
}

func (a *app) jobCommand() *cobra.Command {
	n := a.jobs()
	control := func(action, short string) *cobra.Command {
		return n.action(a, &cobra.Command{
			Use:   action,
			Short: short,
			Long:  short + ". Exit 1 when it has ended, or when there is none with the ID.",
		}, func(ctx context.Context, c *calls, id string) (*kinesinv1.Job, error) {
			r, err := ask(ctx, c, action+" job", c.Jobs.ControlJob, &kinesinv1.ControlJobRequest{Id: id, Action: action})
			return r.GetJob(), err
		})
	}
	return group(&cobra.Command{
		Use:   "job",
		Short: "Show, pause, resume and stop changes of sets of tasks",
		Long: `A job changes the tasks that a filter selects: cancel, redrive, reschedule, expire and delete with --where make one. It goes on
whatever becomes of the command that made it. An identity sees its own jobs; admin:* sees all.`,
	},
		n.listCommand(a, &cobra.Command{
			Short: "List jobs, newest first",
			Long:  `Lists the jobs of the last 30 days, at most 1,000 of those that have ended, newest first.`,
		}, nil),
		n.getCommand(a, &cobra.Command{Short: "Show a job, and up to 1,000 tasks that it could not change"}),
		control("pause", "Make a job wait"),
		control("resume", "Let a paused job go on"),
		control("stop", "End a job; what it has changed stays changed"))
}
