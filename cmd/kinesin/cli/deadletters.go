package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const (
	deadLetterLimitMax  = 1000
	deadLetterPaceMax   = 500 // messages a second: that of SQS
	deadLetterSampleMax = 10
)

// deadLetterChangeFlags are the flags of redrive that go with --dead-letters.
var deadLetterChangeFlags = []string{"dry-run", "pace", "detach"}

// deadLetterFlags are the flags of a command about the dead letters of a deliver lambda.
type deadLetterFlags struct {
	dead, payload, purge bool
	lambda, priority     string
	flags                *pflag.FlagSet
}

// limit and pace are flags that the command has for tasks, too.
func (d *deadLetterFlags) limit() int { return d.number("limit") }
func (d *deadLetterFlags) pace() int  { return d.number("pace") }

func (d *deadLetterFlags) isSet(name string) bool { return d.text(name) == "true" }

func (d *deadLetterFlags) text(name string) string { return d.flags.Lookup(name).Value.String() }

func (d *deadLetterFlags) number(name string) int {
	n, _ := strconv.Atoi(d.text(name)) // the flag has checked it
	return n
}

// withDeadLetters lets a complete command about tasks do the same with the messages in the dead-letter queues
// of a deliver lambda. goesWith are the flags of the command that it takes then, besides --lambda.
func (a *app) withDeadLetters(c *cobra.Command, goesWith []string, act func(context.Context, *sdk.Client, *deadLetterFlags) error) *cobra.Command {
	f := c.Flags()
	d := &deadLetterFlags{flags: f}
	f.BoolVar(&d.dead, "dead-letters", false, "not tasks: the messages in the SQS dead-letter queues of a deliver lambda")
	f.StringVar(&d.priority, "priority", "", "with --dead-letters: only those of this `PRIORITY`")
	own := []string{"priority"}
	switch c.Name() {
	case "list":
		f.BoolVar(&d.payload, "payload", false, "with --dead-letters: also their payloads, as consumers get them")
		own = append(own, "payload")
	case "delete":
		f.BoolVar(&d.purge, "purge", false, "with --dead-letters: have SQS empty the queues, within a minute")
		own = append(own, "purge")
	}
	tasks, args := c.RunE, c.Args
	c.Args = func(cmd *cobra.Command, ids []string) error {
		if d.dead {
			return d.check(ids, slices.Concat(goesWith, own))
		}
		for _, name := range own {
			if f.Changed(name) {
				return usagef("--%s is for --dead-letters; a filter (--where) has priority=…", name)
			}
		}
		return args(cmd, ids)
	}
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		if !d.dead {
			return tasks(cmd, ids)
		}
		return does(func(ctx context.Context, _ []string) error {
			return a.withClient(func(k *sdk.Client) error { return act(ctx, k, d) }, sdk.WithTries(triesInteractive))
		})(cmd, ids)
	}
	return c
}

func (d *deadLetterFlags) check(ids, goesWith []string) (err error) {
	if f := d.flags.Lookup("lambda"); f == nil {
		if err := one("LAMBDA, a deliver lambda,")(nil, ids); err != nil {
			return err
		}
		d.lambda = ids[0]
	} else if d.lambda = f.Value.String(); len(ids) > 0 {
		return usagef("%q: --dead-letters are messages, not tasks: want no IDs", shortened(ids[0]))
	} else if d.lambda == "" {
		return usagef("--dead-letters are those of a deliver lambda: name it with --lambda")
	}
	if err := task.CheckName("lambda", d.lambda); err != nil {
		return usagef("%v", err)
	}
	d.flags.Visit(func(f *pflag.Flag) {
		if !settings.Is(f) && !slices.Contains(slices.Concat(goesWith, []string{"lambda", "dead-letters", "config"}), f.Name) && err == nil {
			err = usagef("--%s does not go with --dead-letters: messages have no filter", f.Name)
		}
	})
	switch {
	case err != nil:
		return err
	case d.flags.Lookup("limit") != nil && d.limit() > deadLetterLimitMax:
		return usagef("--limit %d: want at most %d with --dead-letters", d.limit(), deadLetterLimitMax)
	case d.flags.Lookup("pace") != nil && d.pace() > deadLetterPaceMax:
		return usagef("--pace %d: want at most %d with --dead-letters, which is what SQS can", d.pace(), deadLetterPaceMax)
	case d.purge && d.pace() > 0:
		return usagef("--purge has no --pace: SQS does it at once")
	}
	return nil
}

// deadLetterObject is a dead letter in JSON.
type deadLetterObject struct {
	ID            string `json:"id"`
	MessageID     string `json:"message_id"`
	Priority      string `json:"priority"`
	Due           string `json:"due,omitempty"`
	Sent          string `json:"sent,omitempty"`
	Receives      int    `json:"receives"`
	PayloadBytes  int    `json:"payload_bytes"`
	Payload       string `json:"payload,omitempty"`
	PayloadBase64 string `json:"payload_base64,omitempty"`
}

func deadLetterObjectsOf(all []sdk.DeadLetter) []deadLetterObject {
	objects := make([]deadLetterObject, len(all))
	for i, l := range all {
		objects[i] = deadLetterObject{
			ID: string(l.ID), MessageID: l.MessageID, Priority: l.Priority, Due: timeText(l.Due), Sent: timeText(l.Sent),
			Receives: l.Receives, PayloadBytes: l.PayloadBytes,
		}
		objects[i].Payload, objects[i].PayloadBase64 = textOrBase64(l.Payload)
	}
	return objects
}

func (a *app) listDeadLetters(ctx context.Context, k *sdk.Client, d *deadLetterFlags) error {
	limit := d.limit()
	if limit == 0 {
		limit = deadLetterLimitMax
	}
	all, more, err := k.DeadLetters(ctx, d.lambda, sdk.DeadLetterQuery{Priority: d.priority, Limit: limit, Payload: d.payload})
	if err != nil {
		return err
	}
	if more {
		a.note("there may be more than these %d; SQS shows them in no order, so other ones may come next time", len(all))
	}
	if a.json() {
		return printJSON(a.Stdout, deadLetterObjectsOf(all))
	}
	return a.deadLetterTable(all)
}

func (a *app) deadLetterTable(all []sdk.DeadLetter) error {
	t := newTable(a.Stdout)
	for i, o := range deadLetterObjectsOf(all) {
		if i == 0 {
			t.row("PRIORITY", "DUE", "SENT", "RECEIVES", "BYTES", "ID")
		}
		text := o.ID
		if shown := quotedText(o.Payload) + o.PayloadBase64; shown != "" {
			text += "  " + shown
		}
		t.row(o.Priority, cmp.Or(o.Due, "-"), cmp.Or(o.Sent, "-"), strconv.Itoa(o.Receives), strconv.Itoa(o.PayloadBytes), text)
	}
	return t.Flush()
}

// deadLetterCountObject is the number of dead letters in JSON.
type deadLetterCountObject struct {
	countObject

	Queues []deadLetterQueueObject `json:"queues"`
	Sample []deadLetterObject      `json:"sample,omitempty"` // of a dry run
}

type deadLetterQueueObject struct {
	Priority    string      `json:"priority"`
	Source      string      `json:"source"`
	Name        string      `json:"name"`
	ReceivesMax int         `json:"receives_max"`
	Count       int64       `json:"count"`
	Move        *moveObject `json:"move,omitempty"`
}

type moveObject struct {
	State   string `json:"state"`
	Moved   int64  `json:"moved"`
	Total   int64  `json:"total"`
	Started string `json:"started,omitempty"`
	Problem string `json:"problem,omitempty"`
}

func deadLetterCountOf(queues []sdk.DeadLetterQueue) (o deadLetterCountObject) {
	for _, q := range queues {
		v := deadLetterQueueObject{q.Priority, q.Source, q.Name, q.ReceivesMax, q.Count, nil}
		if m := q.Move; m != nil {
			v.Move = &moveObject{m.State, m.Moved, m.Total, timeText(m.Started), m.Problem}
		}
		o.Count += q.Count
		o.Queues = append(o.Queues, v)
	}
	return o
}

func (a *app) countDeadLetters(ctx context.Context, k *sdk.Client, d *deadLetterFlags) error {
	queues, err := k.CountDeadLetters(ctx, d.lambda, d.priority)
	if err != nil {
		return err
	}
	o := deadLetterCountOf(queues)
	for _, q := range o.Queues {
		if m := q.Move; m != nil && m.State != "completed" {
			a.note("the latest redrive of %s is %s: %d of about %d messages moved %s", q.Name, m.State, m.Moved, m.Total, m.Problem)
		}
	}
	return a.print(o, "about %d", o.Count)
}

// deadLettersChangedObject is the end of a change in JSON.
type deadLettersChangedObject struct {
	Action   string           `json:"action"`
	Lambda   string           `json:"lambda"`
	Outcomes map[string]int64 `json:"outcomes"`
}

// changeDeadLetters is the action of redrive and delete.
func (a *app) changeDeadLetters(
	action sdk.JobAction, change func(*sdk.Client, context.Context, string, sdk.DeadLetterChange) (map[string]int64, error),
) func(context.Context, *sdk.Client, *deadLetterFlags) error {
	return func(ctx context.Context, k *sdk.Client, d *deadLetterFlags) error {
		if d.isSet("dry-run") {
			return a.dryRunDeadLetters(ctx, k, d)
		}
		told := clock.Mono(clock.Real())
		outcomes, err := change(k, ctx, d.lambda, sdk.DeadLetterChange{
			Priority: d.priority, Pace: d.pace(), Detach: d.isSet("detach"), Purge: d.purge,
			Progress: func(outcomes map[string]int64) {
				if now := clock.Mono(clock.Real()); now-told >= progressNoteEvery {
					told = now
					a.note("%s", outcomesText(outcomes))
				}
			},
		})
		if err != nil && outcomesText(outcomes) != "" {
			a.note("until then: %s", outcomesText(outcomes))
		}
		if err != nil {
			return err
		}
		if d.isSet("detach") {
			a.note("SQS goes on by itself, where it moves messages itself; kinesin count %s --dead-letters tells how far it is", d.lambda)
		}
		text := outcomesText(outcomes)
		if text == "" {
			text = "0 messages"
		}
		return a.print(deadLettersChangedObject{string(action), d.lambda, outcomes}, "%s", text)
	}
}

// dryRunDeadLetters prints how many messages a change would be about, and ten of them.
func (a *app) dryRunDeadLetters(ctx context.Context, k *sdk.Client, d *deadLetterFlags) error {
	queues, err := k.CountDeadLetters(ctx, d.lambda, d.priority)
	sample, _, listErr := k.DeadLetters(ctx, d.lambda, sdk.DeadLetterQuery{Priority: d.priority, Limit: deadLetterSampleMax})
	if err := errors.Join(err, listErr); err != nil {
		return err
	}
	o := deadLetterCountOf(queues)
	o.Sample = deadLetterObjectsOf(sample)
	if a.json() {
		return printJSON(a.Stdout, o)
	}
	if err := a.print(nil, "about %d messages", o.Count); err != nil || len(sample) == 0 {
		return err
	}
	if err := a.printLine("\nSome of them:"); err != nil {
		return err
	}
	return a.deadLetterTable(sample)
}
