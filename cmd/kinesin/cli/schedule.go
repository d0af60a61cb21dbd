package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// payloadFileBytesMax is above the limit of any server, for payloads that are no blobs.
const payloadFileBytesMax = 15 << 20

// scheduleFlags are the flags of schedule.
type scheduleFlags struct {
	item                 sdk.Item       // what flags say as they are
	ofTask               *pflag.FlagSet // the flags of a task, which a line of a batch has itself
	due                  atFlags
	dueNote              string // what to tell people of the due time
	startBefore          string
	payload, payloadFile string
	then, batch          string
}

func (a *app) scheduleCommand() *cobra.Command {
	var s scheduleFlags
	c := &cobra.Command{
		Use:   "schedule LAMBDA [--in D | --at TIME] [flags]\n  kinesin schedule [LAMBDA] --batch FILE|-",
		Short: "Schedule a task, or many",
		Long: `Schedules a task and prints its id. When the id is printed, the task is durable. Without --in and --at it is due now; a time
in the past means now too, and one before 2001 is refused. If a change of clocks repeats the time of day in --at, the first of
the two is meant; if it leaves the time out, the first instant after the change.

A key is held while its task lives, and after success or delivered for as long as the lambda says; --on-conflict says what
happens to a second task with it: keep the first (exit 1 if that differs), replace its payload and time, or reject the second
(exit 1).

--then names a file with the tasks that follow (docs/concepts/chains.md): a task, or a list of tasks, which start when this one
has succeeded ("delay" counts from then); or an object with such lists as "then", "else" and "finally".

--batch reads a JSON object from each line and prints a result for each, in order: the id, or "error: line N: …". LAMBDA and
--on-conflict are for lines that have none of their own. Exit 1 when any line failed; the others are scheduled. Keys make it
harmless to run a batch again.

A task in JSON is what POST /v1/lambdas/LAMBDA/tasks takes. Its fields, of which all but "lambda" may be left out:
` + taskFields() + `.
A payload is any JSON, or a text in "payload_text", or other bytes in "payload_base64".`,
		Example: `  kinesin schedule greet --in 90s --payload Ada
  kinesin schedule greet --in 1h --start-before "$(date -ud '+2 hours' +%FT%TZ)" --max-attempts 3 --tag tenant=acme
  kinesin schedule greet --at 'tomorrow 9:00' --zone Europe/Paris
  kinesin schedule greet --at 2027-01-31T09:00:00+01:00 --key reminder-42 --payload-file letter.json
  echo '[{"lambda":"ship","delay":"1h","payload":42}]' | kinesin schedule charge --payload 42 --then -
  echo '{"lambda":"greet","delay":"3d","payload":{"user":42}}' | kinesin schedule --batch -`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.lambdas().complete(a),
	}
	s.add(c.Flags())
	c.RunE = does(func(ctx context.Context, args []string) error {
		if c.Flags().Changed("batch") {
			return a.scheduleBatch(ctx, &s, args)
		}
		return a.scheduleOne(ctx, c.Flags(), &s, args)
	})
	a.outputFlag(c.Flags())
	a.conn.AddTo(c.Flags())
	return c
}

func (s *scheduleFlags) add(f *pflag.FlagSet) {
	s.addTask(f)
	s.ofTask.StringVar(&s.item.Key, "key", "", helpOf("ScheduleItem.key"))
	f.AddFlagSet(s.ofTask)
	f.Var(choiceValue{(*string)(&s.item.OnConflict), wordsOf("ScheduleItem.on_conflict")}, "on-conflict", helpOf("ScheduleItem.on_conflict"))
}

// addTask adds the flags that a member of a group has, too.
func (s *scheduleFlags) addTask(f *pflag.FlagSet) {
	s.ofTask = pflag.NewFlagSet("", pflag.ContinueOnError)
	t, item := s.ofTask, &s.item
	t.Var(durationValue{d: &item.In, min: math.MinInt64}, "in", "due after `D` from now: 90s, 3d, 1h30m")
	s.due.add(t)
	t.StringVar(&item.Priority, "priority", "", helpOf("ScheduleItem.priority"))
	t.StringVar(&item.Collection, "collection", "", helpOf("ScheduleItem.collection"))
	t.StringVar(&item.LimitKey, "limit-key", "", helpOf("ScheduleItem.limit_key"))
	t.Var(payloadText{&s.payload}, "payload", "payload `TEXT`")
	t.StringVar(&s.payloadFile, "payload-file", "", "read the payload from `FILE`, - for stdin")
	t.StringVar(&s.startBefore, "start-before", "", "`TIME` by RFC 3339: "+helpOf("ScheduleItem.start_before"))
	t.Var(intValue{&item.MaxAttempts, 1, task.AttemptsMax}, "max-attempts", helpOf("ScheduleItem.max_attempts"))
	t.Var(durationValue{&item.Timeout, task.TimeoutMin, task.TimeoutMax}, "timeout", helpOf("ScheduleItem.timeout"))
	t.Var(rangeValue{&item.BackoffMin, &item.BackoffMax}, "backoff", "shortest and longest pause before a retry; that of the lambda when not set")
	t.Var(tagsValue{&item.Tags}, "tag", fmt.Sprintf("a tag of the task, `NAME=VALUE`; may be repeated, at most %d", task.TagsMax))
	t.StringVar(&item.Traceparent, "traceparent", "", helpOf("ScheduleItem.traceparent"))
	t.StringVar(&s.then, "then", "", "read what follows the task from a `FILE` of JSON, - for stdin")
	f.AddFlagSet(t)
	f.StringVar(&s.batch, "batch", "", "schedule the tasks in a `FILE` of JSON lines, - for stdin")
}

// refuseBeside refuses the flags of a task beside --batch.
func (s *scheduleFlags) refuseBeside() (err error) {
	s.ofTask.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			err = usagef("--%s does not go with --batch: set it in the lines", flag.Name)
		}
	})
	return err
}

func (a *app) scheduleOne(ctx context.Context, f *pflag.FlagSet, s *scheduleFlags, args []string) error {
	if len(args) == 0 {
		return usagef("the name of a lambda is missing: want LAMBDA or --batch")
	}
	item, err := s.task(f, args[0])
	if err != nil {
		return err
	}
	if err := a.readFiles(f, s, &item); err != nil {
		return err
	}
	return a.withClient(func(k *sdk.Client) error {
		r, err := k.Schedule(ctx, item)
		if err != nil {
			return err
		}
		if s.dueNote != "" && (r.Replaced || !r.Duplicate) && !a.json() {
			a.note("%s", s.dueNote)
		}
		return a.printScheduled(&r)
	}, sdk.WithTries(triesInteractive))
}

// readFiles reads what flags say is in files.
func (a *app) readFiles(f *pflag.FlagSet, s *scheduleFlags, item *sdk.Item) (err error) {
	if s.then == "-" && s.payloadFile == "-" {
		return usagef("--then and --payload-file cannot both read stdin")
	}
	if f.Changed("payload-file") {
		if item.Payload, err = a.readPayload(s.payloadFile); err != nil {
			return err
		}
	}
	follows, err := a.readFollow("then", s.then, followsIn)
	item.Then, item.Else, item.Finally = follows.Then, follows.Else, follows.Finally
	return err
}

func (s *scheduleFlags) task(f *pflag.FlagSet, lambda string) (sdk.Item, error) {
	item := s.item
	item.Lambda, item.Payload = lambda, []byte(s.payload)
	if f.Changed("on-conflict") && item.Key == "" {
		return item, usagef("--on-conflict is for a task with --key")
	}
	if f.Changed("in") && f.Changed("at") {
		return item, usagef("--in and --at exclude each other: a task is due once")
	}
	if f.Changed("payload") && f.Changed("payload-file") {
		return item, usagef("--payload and --payload-file exclude each other: a task has one payload")
	}
	if f.Changed("key") && item.Key == "" {
		return item, usagef("--key is empty: leave it out for a task without a key")
	}
	if err := task.CheckTraceparent(item.Traceparent); err != nil {
		return item, usagef("--traceparent: %v", err)
	}
	if f.Changed("limit-key") && item.LimitKey == "" {
		return item, usagef("--limit-key is empty: leave it out for a task that no limit by key applies to")
	}
	if item.In < 0 {
		s.dueNote = pastText
	}
	if f.Changed("at") || f.Changed("zone") {
		var err error
		if item.At, s.dueNote, err = s.due.read(); err != nil {
			return item, err
		}
	}
	if f.Changed("start-before") {
		before, err := parseTime(s.startBefore)
		if err != nil {
			return item, usagef("--start-before: %v", err)
		}
		item.StartBefore = before
	}
	return item, nil
}

func (a *app) readPayload(path string) ([]byte, error) {
	r, err := a.open(path)
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	defer r.Close()
	most := payloadFileBytesMax
	if a.conn.Blobs != "" {
		most = task.BlobBytesMax
	}
	payload, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	switch {
	case len(payload) > most && a.conn.Blobs == "":
		return nil, fmt.Errorf("payload in %s is too large: more than %d bytes; with --blobs it may have %d", path, most, task.BlobBytesMax)
	case len(payload) > most:
		return nil, fmt.Errorf("payload in %s is too large: more than %d bytes", path, most)
	}
	return payload, nil
}

// open opens a file, or stdin for "-".
func (a *app) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		a.readsStdin()
		return io.NopCloser(a.Stdin), nil
	}
	return os.Open(path) //nolint:gosec // the user names the file
}

// readsStdin has nobody disturbed who types what the command reads.
func (a *app) readsStdin() {
	if isTerminal(a.Stdin) {
		a.line.end()
	}
}

func (a *app) printScheduled(r *sdk.Result) error {
	if r.Duplicate && !a.json() {
		a.note("%s", duplicateText(r))
	}
	return a.print(scheduledOf(r), "%s", r.ID)
}

func scheduledOf(r *sdk.Result) *kinesinv1.ScheduleResult {
	return &kinesinv1.ScheduleResult{
		Id: string(r.ID), Due: int64(task.InstantOf(r.Due)), Duplicate: r.Duplicate, State: string(r.State), Replaced: r.Replaced,
	}
}

// duplicateText says what became of a task whose key was held.
func duplicateText(r *sdk.Result) string {
	if r.Replaced {
		return "a task held the key: it has this payload and time now, and this is its id"
	}
	text := "a task has the key already"
	switch {
	case r.State == "":
	case r.State.IsEnd():
		text += ", and is " + r.State.String()
	default:
		text += ", and is " + r.State.String() + ", due " + r.Due.UTC().Format(time.RFC3339) + "; --on-conflict replace gives it this payload and time"
	}
	return text + ": this is its id"
}
