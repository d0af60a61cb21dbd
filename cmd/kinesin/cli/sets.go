package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	f.Var(intValue{n: &s.pace, max: 1_000_000}, "pace", "change at most `N` tasks per second; no limit when not set, but for redrive the recovery quota of the lambda if it has one")
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
				if err := wantLambda(ctx, k, lambda); err != nil {
					return err
				}
				return a.changeSet(ctx, k, spec, &s)
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
func (s *setFlags) spec(c *cobra.Command, action admin.JobAction) (spec admin.JobSpec, err error) {
	spec = admin.JobSpec{Action: action, All: s.all, Pace: s.pace, By: s.by, Spread: s.spread}
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
	if at, _ := c.Flags().GetString("at"); at != "" {
		if spec.Due, err = parseTime(at); err != nil {
			return spec, usagef("--at: %v", err)
		}
	}
	if in := c.Flags().Lookup("in"); in != nil && in.Changed {
		after, _ := in.Value.(durationValue)
		spec.Due = clock.Real().Now().Time().Add(max(0, *after.d))
	}
	ways := 0
	for _, name := range []string{"by", "spread", "at", "in"} {
		if c.Flags().Changed(name) {
			ways++
		}
	}
	if ways != 1 || spec.By == 0 && spec.Spread == 0 && spec.Due.IsZero() {
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
func wantLambda(ctx context.Context, k *sdk.Client, name string) error {
	if name == "" {
		return nil
	}
	_, err := admin.New(k).Lambdas.Get(ctx, name)
	return err
}

// changeSet makes a job, waits for its end unless the flags say otherwise, and prints it. Its error is
// errReported if the job could not change some tasks, or did not get to its end.
func (a *app) changeSet(ctx context.Context, k *sdk.Client, spec admin.JobSpec, s *setFlags) error {
	if !spec.Due.IsZero() && isPast(spec.Due) && spec.Action == admin.JobReschedule {
		a.note(pastText)
	}
	if s.dryRun {
		j, err := admin.New(k).Jobs.DryRun(ctx, spec)
		if err != nil {
			return err
		}
		return a.jobs().show(a, &j)
	}
	j, err := admin.New(k).Jobs.Create(ctx, spec)
	if err != nil {
		return err
	}
	if spec.Pace == 0 && j.Pace > 0 {
		a.note("it changes %d tasks per second, the recovery quota of its lambda (kinesin quota get LAMBDA); --pace sets another pace", j.Pace)
	}
	if s.detach {
		return a.print(jobObjectOf(&j), "%s", j.ID)
	}
	a.note("job %s runs on the server; it goes on if this command ends (kinesin job get, pause, stop)", j.ID)
	if j, err = a.follow(ctx, k, j); err != nil {
		return err
	}
	shown := j
	if !a.json() {
		shown.Refused = j.Refused[:min(len(j.Refused), refusedShownMax)]
	}
	if err := a.jobs().show(a, &shown); err != nil {
		return err
	}
	return a.judge(&j)
}

// refusedShownMax is how many refused ids a command prints for people, who would miss what is above them.
const refusedShownMax = 10

// follow waits for the end of a job and tells its progress.
func (a *app) follow(ctx context.Context, k *sdk.Client, j admin.Job) (admin.Job, error) {
	told := time.Duration(0)
	for waited := jobLookEvery; !j.State.IsEnd(); waited += jobLookEvery {
		if err := clock.Sleep(ctx, clock.Real(), jobLookEvery); err != nil {
			return j, err
		}
		now, err := admin.New(k).Jobs.Get(ctx, j.ID)
		if err != nil {
			return j, err
		}
		if j = now; waited-told >= progressNoteEvery && !j.State.IsEnd() {
			told = waited
			a.note("%s: %s", j.State, progressText(&j))
		}
	}
	return j, nil
}

func progressText(j *admin.Job) string {
	text := fmt.Sprintf("%d tasks met in %d rows", j.Matched, j.Examined)
	if len(j.Outcomes) > 0 {
		text += ": " + outcomesText(j.Outcomes)
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
func (a *app) judge(j *admin.Job) error {
	switch {
	case j.State == admin.JobFailed || j.State == admin.JobStopped:
		a.note("the job did not get to its end: %s", j.State)
	case j.RefusedCount() > 0:
		a.note("%d tasks were refused (%s); kinesin job get %s has up to 1,000 of them", j.RefusedCount(), outcomesText(j.Outcomes), j.ID)
	default:
		return nil
	}
	return errReported
}

// printJob prints a job, with the tasks of a dry run and the ids that it could not change.
func (a *app) printJob(j *admin.Job) error {
	o := jobObjectOf(j)
	t := newTable(a.Stdout)
	t.facts([][2]string{
		{"job", o.ID},
		{"action", actionText(j)},
		{"filter", o.Where},
		{"group", o.Group},
		{"occurrences", rangeText(j)},
		{"state", string(o.State)},
		{"created", o.Created},
		{"ended", o.Ended},
		{"made by", o.CreatedBy},
		{"tasks", matchedText(j)},
		{"outcomes", outcomesText(j.Outcomes)},
		{"cost", o.Cost},
		{"problem", o.Problem},
	})
	if err := t.Flush(); err != nil {
		return err
	}
	return printJobTasks(a.Stdout, j)
}

// actionText says what a job does, with the flags that say how.
func actionText(j *admin.Job) string {
	text := string(j.Action)
	switch {
	case j.By != 0:
		return text + " --by " + formatDuration(j.By)
	case j.Spread != 0:
		return text + " --spread " + formatDuration(j.Spread)
	case !j.Due.IsZero():
		return text + " --at " + timeText(j.Due)
	case j.Force:
		return text + " --force"
	}
	return text
}

func matchedText(j *admin.Job) string {
	text := fmt.Sprint(j.Matched)
	if j.State == admin.JobCounted && !j.MatchedExact {
		text = "about " + text
	}
	return text
}

func printJobTasks(w io.Writer, j *admin.Job) error {
	if len(j.Sample) > 0 {
		fmt.Fprintln(w, "\nSome of them:")
		row := listTable(w, true, false)
		for i := range j.Sample {
			if err := row(&j.Sample[i]); err != nil {
				return err
			}
		}
	}
	if len(j.Nominals) > 0 {
		fmt.Fprintln(w, "\nThe first nominal times:")
		for _, at := range j.Nominals {
			if _, err := fmt.Fprintln(w, timeText(at)); err != nil {
				return err
			}
		}
	}
	if len(j.Refused) > 0 {
		fmt.Fprintln(w, "\nRefused:")
		for _, r := range j.Refused {
			if _, err := fmt.Fprintf(w, "%s: %s\n", r.ID, r.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

// jobObject is a job in JSON.
type jobObject struct {
	ID        string           `json:"id,omitempty"`
	Action    string           `json:"action"`
	Where     string           `json:"where,omitempty"`
	All       bool             `json:"all,omitempty"`
	State     admin.JobState   `json:"state"`
	Pace      int              `json:"pace,omitempty"`
	By        string           `json:"by,omitempty"`
	Spread    string           `json:"spread,omitempty"`
	Due       string           `json:"due,omitempty"`
	Force     bool             `json:"force,omitempty"`
	Created   string           `json:"created,omitempty"`
	Ended     string           `json:"ended,omitempty"`
	CreatedBy string           `json:"created_by,omitempty"`
	Matched   int64            `json:"matched"`
	Exact     bool             `json:"matched_exact"`
	Examined  int64            `json:"examined"`
	Outcomes  map[string]int64 `json:"outcomes"`
	Refused   []refusedObject  `json:"refused,omitempty"`
	Sample    []taskObject     `json:"sample,omitempty"`
	Cost      string           `json:"cost,omitempty"`
	Problem   string           `json:"problem,omitempty"`
	Backfill  *backfillObject  `json:"backfill,omitempty"`
	Group     string           `json:"group,omitempty"`
}

type refusedObject struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func jobObjectOf(j *admin.Job) jobObject {
	o := jobObject{
		ID: j.ID, Action: string(j.Action), Where: j.Where, All: j.All, State: j.State, Pace: j.Pace, Due: timeText(j.Due), Force: j.Force,
		Created: timeText(j.Created), Ended: timeText(j.Ended), CreatedBy: j.CreatedBy, Matched: j.Matched, Exact: j.MatchedExact, Examined: j.Examined,
		Outcomes: j.Outcomes, Cost: j.Cost, Problem: j.Problem, Backfill: backfillObjectOf(j), Group: j.Group,
	}
	if o.Outcomes == nil {
		o.Outcomes = map[string]int64{}
	}
	if j.By != 0 {
		o.By = formatDuration(j.By)
	}
	if j.Spread != 0 {
		o.Spread = formatDuration(j.Spread)
	}
	for _, r := range j.Refused {
		o.Refused = append(o.Refused, refusedObject{string(r.ID), r.Text})
	}
	for i := range j.Sample {
		o.Sample = append(o.Sample, objectOf(&j.Sample[i]))
	}
	return o
}

// setCommand is a command that changes only sets.
func (a *app) setCommand(c *cobra.Command, action admin.JobAction) *cobra.Command {
	c.Args = func(*cobra.Command, []string) error {
		return usagef("--where is missing: it selects the tasks; --all means all of them")
	}
	return a.withSets(a.calling(c, func(context.Context, *sdk.Client, []string) error { return nil }), action)
}

func (a *app) expireCommand() *cobra.Command {
	return a.setCommand(&cobra.Command{
		Use:   "expire {--where FILTER | --all} [--lambda L] [--dry-run] [--pace N] [--detach]",
		Short: "End waiting tasks as expired",
		Long: `Ends the live tasks that a filter selects as expired, by a job on the server. A task that a worker has is refused.
docs/sets.md describes filters and jobs.`,
		Example: `  kinesin expire --lambda greet --where 'due<-1d'`,
	}, admin.JobExpire)
}

func (a *app) deleteCommand() *cobra.Command {
	return a.setCommand(&cobra.Command{
		Use:   "delete {--where FILTER | --all} [--lambda L] [--dry-run] [--pace N] [--detach]",
		Short: "Forget ended tasks",
		Long: `Deletes the rows and payloads of the ended tasks that a filter selects, before their retention is over, by a job on the server.
Their keys are free then. With DynamoDB or an inbound buffer, and of deliver lambdas, a row that may have to refuse a second start
of its task is refused for the retention of its lambda or some minutes. docs/sets.md describes filters and jobs.`,
		Example: `  kinesin delete --where 'state=dead and ended<-30d' --dry-run`,
	}, admin.JobDelete)
}
