package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
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
		Long: `A dead letter is a message of a deliver lambda that its consumers received too often and never deleted
(docs/how-to/dead-letters-on-sqs.md). It is in a dead-letter queue of SQS, and no task any more.`,
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
	q, limit := &kinesinv1.ListDeadLettersRequest{}, listLimitDefault
	c := a.ofDeliverLambda(&cobra.Command{
		Use:     "list LAMBDA [--priority P] [--payload] [--limit N]",
		Short:   "List dead letters",
		Long:    `Lists messages, in no order. They stay in their queue; SQS hides them from others meanwhile, and counts a receive.`,
		Example: `  kinesin dead-letter list invoices --payload`,
	}, &q.Priority)
	f := c.Flags()
	f.BoolVar(&q.Payload, "payload", false, "also their payloads, as consumers get them")
	f.Var(intValue{n: &limit, max: deadLetterLimitMax}, "limit", fmt.Sprintf("how many to list at most; 0 for %d, which is the most", deadLetterLimitMax))
	return a.deadLetters().listCommand(a, c, func(ctx context.Context, c *calls, args []string) (proto.Message, error) {
		q.Lambda, q.Limit = args[0], uint32(cmp.Or(limit, deadLetterLimitMax))
		r, err := askSet(ctx, c, "dead letters", c.DeadLetters.ListDeadLetters, q)
		if r.GetMore() {
			a.note("there may be more than these %d; SQS shows them in no order, so other ones may come next time", len(r.GetMessages()))
		}
		return r, err
	})
}

func (a *app) deadLetterCountCommand() *cobra.Command {
	var priority string
	c := a.ofDeliverLambda(&cobra.Command{
		Use:     "count LAMBDA [--priority P]",
		Short:   "Count dead letters",
		Long:    `Counts the messages, about; with -o json also how far SQS is with a redrive.`,
		Example: `  kinesin dead-letter count invoices -o json`,
	}, &priority)
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		return a.countDeadLetters(ctx, over(k), args[0], priority)
	})
}

func (a *app) countDeadLetters(ctx context.Context, c *calls, lambda, priority string) error {
	r, err := askDeadLetters(ctx, c, lambda, priority)
	if err != nil {
		return err
	}
	for _, q := range r.GetQueues() {
		if m := q.GetMove(); m != nil && m.GetState() != string(admin.MoveCompleted) {
			a.note("the latest redrive of %s is %s: %d of about %d messages moved %s", q.GetName(), m.GetState(), m.GetMoved(), m.GetTotal(), m.GetProblem())
		}
	}
	return a.print(r, "about %d", r.GetCount())
}

func askDeadLetters(ctx context.Context, c *calls, lambda, priority string) (*kinesinv1.CountDeadLettersResponse, error) {
	return ask(ctx, c, "count dead letters", c.DeadLetters.CountDeadLetters, &kinesinv1.CountDeadLettersRequest{Lambda: lambda, Priority: priority})
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
			return a.dryRunDeadLetters(ctx, over(k), lambda, d.Priority)
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
		return a.print(&kinesinv1.ChangeDeadLettersResponse{Outcomes: outcomes}, "%s", cmp.Or(outcomesText(outcomes), "0 messages"))
	})
}

// dryRunDeadLetters prints how many messages a change would be about, and ten of them; with -o json, the
// answers to count and to list.
func (a *app) dryRunDeadLetters(ctx context.Context, c *calls, lambda, priority string) error {
	r, err := askDeadLetters(ctx, c, lambda, priority)
	sample, listErr := askSet(ctx, c, "dead letters", c.DeadLetters.ListDeadLetters,
		&kinesinv1.ListDeadLettersRequest{Lambda: lambda, Priority: priority, Limit: deadLetterSampleMax})
	if err := errors.Join(err, listErr); err != nil {
		return err
	}
	if a.json() {
		return printJSON(a.Stdout, struct {
			Count  json.RawMessage `json:"count"`
			Sample json.RawMessage `json:"sample"`
		}{jsonform.Append(nil, r), jsonform.Append(nil, sample)})
	}
	if err := a.print(nil, "about %d messages", r.GetCount()); err != nil || len(sample.GetMessages()) == 0 {
		return err
	}
	if err := a.printLine("\nSome of them:"); err != nil {
		return err
	}
	return a.deadLetters().printAll(a, sample, sample.GetMessages())
}
