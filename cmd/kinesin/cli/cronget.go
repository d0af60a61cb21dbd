package cli

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) cronListCommand() *cobra.Command {
	var lambda string
	c := &cobra.Command{Short: "List crons"}
	c.Flags().StringVar(&lambda, "lambda", "", "only crons of the lambda with this `NAME`")
	return a.crons().listCommand(a, c, func(ctx context.Context, c *calls, _ []string) (proto.Message, error) {
		return listCrons(ctx, c, lambda)
	})
}

func listCrons(ctx context.Context, c *calls, lambda string) (proto.Message, error) {
	return askSet(ctx, c, "list crons", c.Crons.ListCrons, &kinesinv1.ListCronsRequest{Lambda: lambda})
}

// printCron prints a cron, a line for each setting.
func (a *app) printCron(c *kinesinv1.Cron) error {
	t := newTable(a.Stdout)
	facts := [][2]string{
		{"name", c.GetName()}, {"lambda", c.GetLambda()}, {"schedule", c.GetSchedule()}, {"zone", c.GetZone()}, {"state", stateOfCron(c)},
	}
	if c.GetLambdaDeleted() {
		facts = append(facts, [2]string{"reason", "lambda " + c.GetLambda() + " was deleted, so that it fires no more: delete it (kinesin cron delete " + c.GetName() + ")"})
	}
	if p := c.GetPause(); p != nil {
		facts = append(facts, [2]string{"reason", p.GetReason()}, [2]string{"paused by", cmp.Or(p.GetBy(), "its failures")}, [2]string{"paused", instantText(p.GetAt())})
	}
	catchUp := c.GetCatchUp()
	if c.GetCatchUpMax() > 0 {
		catchUp += ", at most " + countText(c.GetCatchUpMax()) + " of the last " + spanText(c.GetCatchUpWithin())
	}
	jitter, registered := "", ""
	if c.GetJitter() > 0 {
		jitter = spanText(c.GetJitter())
	}
	if c.GetRegistered() {
		registered = registeredSource
	}
	facts = append(facts, [][2]string{
		{"next", firesText(c, previewShown)},
		{"start", instantText(c.GetStart())},
		{"end", instantText(c.GetEnd())},
		{"jitter", jitter},
		{"gap", c.GetGap()},
		{"fold", c.GetFold()},
		{"overlap", c.GetOverlap()},
		{"catch-up", catchUp},
		{"failures max", countText(c.GetFailuresMax())},
	}...)
	facts = append(append(facts, api.Shown(c)...), [][2]string{
		{"tags", tagsText(c.GetTags())},
		{"managed by", c.GetManagedBy()},
		{"registered", registered},
	}...)
	if n := len(c.GetPayload()); n > 0 {
		facts = append(facts, [2]string{"payload", strconv.Itoa(n) + " bytes"})
	}
	facts = append(facts, [][2]string{
		{"version", strconv.FormatUint(c.GetVersion(), 10)},
		{"created", instantText(c.GetCreated()) + " by " + c.GetCreatedBy()},
		{"updated", instantText(c.GetUpdated()) + " by " + cmp.Or(c.GetUpdatedBy(), "itself")},
	}...)
	t.facts(facts)
	return t.Flush()
}

func (a *app) cronHistoryCommand() *cobra.Command {
	var from, to time.Time
	limit := 20
	c := &cobra.Command{
		Use:   "history NAME [--limit N] [--from T] [--to T]",
		Short: "Show what became of nominal times, newest first",
		Long: `Prints past nominal times and manual runs, newest first, and what became of each: it ran, runs, waits, was skipped or
missed, or is forgotten.`,
		Args: one("NAME"), ValidArgsFunction: a.crons().complete(a),
	}
	f := c.Flags()
	f.Var(intValue{n: &limit, min: 1, max: 1000}, "limit", "print `N` nominal times at most")
	f.Var(instantValue{&from}, "from", "from this `TIME` on; as far back as the limit reaches when not set")
	f.Var(instantValue{&to}, "to", "through this `TIME`; now when not set")
	return a.occurrences().listCommand(a, c, func(ctx context.Context, c *calls, args []string) (proto.Message, error) {
		return askSet(ctx, c, "history of a cron", c.Crons.CronHistory, &kinesinv1.CronHistoryRequest{
			Name: args[0], From: int64(task.InstantOf(from)), To: int64(task.InstantOf(to)), Limit: uint32(limit),
		})
	})
}
