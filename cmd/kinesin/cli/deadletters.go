package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

const (
	deadLetterLimitMax  = 1000
	deadLetterPaceMax   = 500 // messages a second: that of SQS
	deadLetterSampleMax = 10
)

func (a *app) deadLetterCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dead-letter",
		Short: "List, count, redrive and delete messages that the consumers of a deliver lambda failed on",
		Long: `A dead letter is a message of a deliver lambda that its consumers received too often and never deleted. It stays in an SQS
dead-letter queue of the lambda, and is no task any more. docs/sets.md tells more.`,
	}, a.deadLetterListCommand(), a.deadLetterCountCommand(),
		a.deadLetterChangeCommand(&cobra.Command{
			Use:   "redrive LAMBDA [--priority P] [--pace N] [--dry-run] [--detach]",
			Short: "Have SQS move dead letters back to the queues of their lambda",
			Long:  "Has SQS move the messages back, each at least once. It goes on if this command ends; count tells how far it is.",
			Example: `  kinesin dead-letter redrive invoices --dry-run
  kinesin dead-letter redrive invoices --pace 50`,
		}, admin.JobRedrive, admin.DeadLetters.Redrive),
		a.deadLetterChangeCommand(&cobra.Command{
			Use:     "delete LAMBDA [--priority P] [--pace N | --purge] [--dry-run]",
			Short:   "Delete dead letters",
			Example: `  kinesin dead-letter delete invoices --priority low`,
		}, admin.JobDelete, admin.DeadLetters.Delete))
}

// ofDeliverLambda lets a command take a deliver lambda, and one of its priorities.
func (a *app) ofDeliverLambda(c *cobra.Command, priority *string) *cobra.Command {
	c.Flags().StringVar(priority, "priority", "", "only those of this `PRIORITY`")
	c.ValidArgsFunction = a.lambdas().complete(a)
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := one("LAMBDA")(cmd, args); err != nil {
			return err
		}
		if err := task.CheckName("lambda", args[0]); err != nil {
			return usagef("%v", err)
		}
		return nil
	}
	return c
}

func (a *app) deadLetterListCommand() *cobra.Command {
	q := admin.DeadLetterListOptions{Limit: listLimitDefault}
	c := a.ofDeliverLambda(&cobra.Command{
		Use:   "list LAMBDA [--priority P] [--payload] [--limit N]",
		Short: "List dead letters",
		Long: `Lists the messages in the dead-letter queues of a deliver lambda, in no order. They stay there; SQS hides them from others meanwhile,
and counts a receive.`,
		Example: `  kinesin dead-letter list invoices --payload`,
	}, &q.Priority)
	f := c.Flags()
	f.BoolVar(&q.Payload, "payload", false, "also their payloads, as consumers get them")
	f.Var(intValue{n: &q.Limit, max: deadLetterLimitMax}, "limit", fmt.Sprintf("how many to list at most; 0 for %d, which is the most", deadLetterLimitMax))
	return a.deadLetters().listCommand(a, c, func(ctx context.Context, k *sdk.Client, args []string) ([]admin.DeadLetter, error) {
		if q.Limit == 0 {
			q.Limit = deadLetterLimitMax
		}
		all, more, err := admin.New(k).DeadLetters.List(ctx, args[0], q)
		if more {
			a.note("there may be more than these %d; SQS shows them in no order, so other ones may come next time", len(all))
		}
		return all, err
	})
}

func (a *app) deadLetterCountCommand() *cobra.Command {
	var priority string
	c := a.ofDeliverLambda(&cobra.Command{
		Use:     "count LAMBDA [--priority P]",
		Short:   "Count dead letters",
		Long:    `Counts the messages in the dead-letter queues of a deliver lambda, about; and, with -o json, shows how far SQS is with a redrive.`,
		Example: `  kinesin dead-letter count invoices -o json`,
	}, &priority)
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		return a.countDeadLetters(ctx, k, args[0], priority)
	})
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

func deadLetterObjectOf(l *admin.DeadLetter) deadLetterObject {
	o := deadLetterObject{
		ID: string(l.ID), MessageID: l.MessageID, Priority: l.Priority, Due: timeText(l.Due), Sent: timeText(l.Sent),
		Receives: l.Receives, PayloadBytes: l.PayloadBytes,
	}
	o.Payload, o.PayloadBase64 = textOrBase64(l.Payload)
	return o
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

func deadLetterCountOf(queues []admin.DeadLetterQueue) (o deadLetterCountObject) {
	for _, q := range queues {
		v := deadLetterQueueObject{q.Priority, q.Source, q.Name, q.ReceivesMax, q.Count, nil}
		if m := q.Move; m != nil {
			v.Move = &moveObject{string(m.State), m.Moved, m.Total, timeText(m.Started), m.Problem}
		}
		o.Count += q.Count
		o.Queues = append(o.Queues, v)
	}
	return o
}

func (a *app) countDeadLetters(ctx context.Context, k *sdk.Client, lambda, priority string) error {
	queues, err := admin.New(k).DeadLetters.Count(ctx, lambda, admin.DeadLetterCountOptions{Priority: priority})
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

// deadLetterChangeCommand makes a command that redrives or deletes.
func (a *app) deadLetterChangeCommand(
	c *cobra.Command, action admin.JobAction, change func(admin.DeadLetters, context.Context, string, admin.DeadLetterChangeOptions) (map[string]int64, error),
) *cobra.Command {
	var d admin.DeadLetterChangeOptions
	var dryRun bool
	f := a.ofDeliverLambda(c, &d.Priority).Flags()
	f.BoolVar(&dryRun, "dry-run", false, "only print how many messages there are, and ten of them")
	f.Var(intValue{n: &d.Pace, max: deadLetterPaceMax}, "pace", fmt.Sprintf("at most `N` messages per second, %d at most; as many as SQS can when not set", deadLetterPaceMax))
	if action == admin.JobRedrive {
		f.BoolVar(&d.Detach, "detach", false, "do not wait for the end")
	} else {
		f.BoolVar(&d.Purge, "purge", false, "have SQS empty the queues, within a minute")
	}
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		lambda := args[0]
		switch {
		case d.Purge && d.Pace > 0:
			return usagef("--purge has no --pace: SQS does it at once")
		case dryRun:
			return a.dryRunDeadLetters(ctx, k, lambda, d.Priority)
		}
		told := clock.Mono(clock.Real())
		d.Progress = func(outcomes map[string]int64) {
			if now := clock.Mono(clock.Real()); now-told >= progressNoteEvery {
				told = now
				a.note("%s", outcomesText(outcomes))
			}
		}
		outcomes, err := change(admin.New(k).DeadLetters, ctx, lambda, d)
		if err != nil && outcomesText(outcomes) != "" {
			a.note("until then: %s", outcomesText(outcomes))
		}
		if err != nil {
			return err
		}
		if d.Detach {
			a.note("SQS goes on by itself, where it moves messages itself; kinesin dead-letter count %s tells how far it is", lambda)
		}
		return a.print(deadLettersChangedObject{string(action), lambda, outcomes}, "%s", cmp.Or(outcomesText(outcomes), "0 messages"))
	})
}

// dryRunDeadLetters prints how many messages a change would be about, and ten of them.
func (a *app) dryRunDeadLetters(ctx context.Context, k *sdk.Client, lambda, priority string) error {
	queues, err := admin.New(k).DeadLetters.Count(ctx, lambda, admin.DeadLetterCountOptions{Priority: priority})
	sample, _, listErr := admin.New(k).DeadLetters.List(ctx, lambda, admin.DeadLetterListOptions{Priority: priority, Limit: deadLetterSampleMax})
	if err := errors.Join(err, listErr); err != nil {
		return err
	}
	o := deadLetterCountOf(queues)
	o.Sample = objectsOf(sample, deadLetterObjectOf)
	if a.json() {
		return printJSON(a.Stdout, o)
	}
	if err := a.print(nil, "about %d messages", o.Count); err != nil || len(sample) == 0 {
		return err
	}
	if err := a.printLine("\nSome of them:"); err != nil {
		return err
	}
	return a.deadLetters().printAll(a, sample)
}
