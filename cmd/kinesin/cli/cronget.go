package cli

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) cronListCommand() *cobra.Command {
	var lambda string
	c := &cobra.Command{Short: "List crons"}
	c.Flags().StringVar(&lambda, "lambda", "", "only crons of the lambda with this `NAME`")
	return a.crons().listCommand(a, c, func(ctx context.Context, k *sdk.Client, _ []string) ([]admin.Cron, error) {
		return admin.New(k).Crons.List(ctx, lambda)
	})
}

// printCron prints a cron, a line for each setting.
func (a *app) printCron(c *admin.Cron) error {
	o := cronObjectOf(c)
	t := newTable(a.Stdout)
	facts := [][2]string{
		{"name", o.Name}, {"lambda", o.Lambda}, {"schedule", o.Schedule}, {"zone", o.Zone}, {"state", stateOfCron(c)},
	}
	if c.LambdaDeleted {
		facts = append(facts, [2]string{"reason", "lambda " + o.Lambda + " was deleted, so that it fires no more: delete it (kinesin cron delete " + o.Name + ")"})
	}
	if p := o.Pause; p != nil {
		facts = append(facts, [2]string{"reason", p.Reason}, [2]string{"paused by", cmp.Or(p.By, "its failures")}, [2]string{"paused", p.At})
	}
	catchUp := o.CatchUp
	if o.CatchUpMax > 0 {
		catchUp += ", at most " + strconv.Itoa(o.CatchUpMax) + " of the last " + formatDuration(c.CatchUpWithin)
	}
	failures := ""
	if o.FailuresMax > 0 {
		failures = strconv.Itoa(o.FailuresMax)
	}
	registered := ""
	if o.Registered {
		registered = registeredSource
	}
	facts = append(facts, [][2]string{
		{"next", firesText(c, previewShown)},
		{"start", o.Start},
		{"end", o.End},
		{"jitter", o.Jitter},
		{"gap", o.Gap},
		{"fold", o.Fold},
		{"overlap", o.Overlap},
		{"catch-up", catchUp},
		{"failures max", failures},
		{"priority", o.Priority},
		{"collection", o.Collection},
		{"tags", tagsText(o.Tags)},
		{"managed by", o.ManagedBy},
		{"registered", registered},
	}...)
	if n := len(c.Payload); n > 0 {
		facts = append(facts, [2]string{"payload", strconv.Itoa(n) + " bytes"})
	}
	facts = append(facts, [][2]string{
		{"version", strconv.FormatUint(o.Version, 10)}, {"created", o.Created + " by " + o.CreatedBy}, {"updated", o.Updated + " by " + cmp.Or(o.UpdatedBy, "itself")},
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
		Long: `Prints nominal times that have passed and manual runs (cron run), newest first, and what became of each: it ran, runs, waits, was skipped or missed, or is
forgotten, because its task ended longer ago than the lambda keeps ended tasks.`,
		Args: one("NAME"), ValidArgsFunction: a.crons().complete(a),
	}
	f := c.Flags()
	f.Var(intValue{n: &limit, min: 1, max: 1000}, "limit", "print `N` nominal times at most")
	f.Var(instantValue{&from}, "from", "from this `TIME` on; as far back as the limit reaches when not set")
	f.Var(instantValue{&to}, "to", "through this `TIME`; now when not set")
	return a.occurrences().listCommand(a, c, func(ctx context.Context, k *sdk.Client, args []string) ([]admin.CronOccurrence, error) {
		return admin.New(k).Crons.History(ctx, args[0], admin.CronHistoryOptions{From: from, To: to, Limit: limit})
	})
}

// cronObject is a cron in JSON. docs/cli-guide.md documents the fields; unset ones are omitted.
type cronObject struct {
	Name          string            `json:"name"`
	Lambda        string            `json:"lambda"`
	Schedule      string            `json:"schedule"`
	Zone          string            `json:"zone"`
	Start         string            `json:"start,omitempty"`
	End           string            `json:"end,omitempty"`
	Jitter        string            `json:"jitter,omitempty"`
	Gap           string            `json:"gap"`
	Fold          string            `json:"fold"`
	Overlap       string            `json:"overlap"`
	CatchUp       string            `json:"catch_up"`
	CatchUpMax    int               `json:"catch_up_max,omitempty"`
	CatchUpWithin string            `json:"catch_up_within,omitempty"`
	FailuresMax   int               `json:"failures_max,omitempty"`
	Priority      string            `json:"priority,omitempty"`
	Collection    string            `json:"collection,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	ManagedBy     string            `json:"managed_by,omitempty"`
	Registered    bool              `json:"registered,omitempty"`
	LambdaDeleted bool              `json:"lambda_deleted,omitempty"`
	Payload       string            `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	Version       uint64            `json:"version"`
	Revision      uint64            `json:"revision"`
	Created       string            `json:"created"`
	CreatedBy     string            `json:"created_by"`
	Updated       string            `json:"updated"`
	UpdatedBy     string            `json:"updated_by,omitempty"`
	Pause         *pauseObject      `json:"pause,omitempty"`
	Next          []string          `json:"next,omitempty"`
}

type pauseObject struct {
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
	At     string `json:"at"`
	Until  string `json:"until,omitempty"`
}

type occurrenceObject struct {
	Nominal  string   `json:"nominal"`
	Revision uint64   `json:"revision"`
	Outcome  string   `json:"outcome"`
	Reason   string   `json:"reason,omitempty"`
	ID       string   `json:"id,omitempty"`
	State    string   `json:"state,omitempty"`
	LateMS   *float64 `json:"late_ms,omitempty"`
	Backfill bool     `json:"backfill,omitempty"`
	Manual   bool     `json:"manual,omitempty"`
}

func occurrenceObjectOf(o *admin.CronOccurrence) occurrenceObject {
	object := occurrenceObject{
		Nominal: timeText(o.Nominal), Revision: o.Revision, Outcome: string(o.Outcome), Reason: o.Reason, ID: string(o.ID), State: string(o.State), Backfill: o.Backfill, Manual: o.Manual,
	}
	if o.Late > 0 {
		object.LateMS = new(float64(o.Late) / float64(time.Millisecond))
	}
	return object
}

func cronObjectOf(c *admin.Cron) cronObject {
	o := cronObject{
		Name: c.Name, Lambda: c.Lambda, Schedule: c.Schedule, Zone: c.Zone, Start: timeText(c.Start), End: timeText(c.End),
		Gap: string(c.Gap), Fold: string(c.Fold), Overlap: string(c.Overlap), CatchUp: string(c.CatchUp), CatchUpMax: c.CatchUpMax, FailuresMax: c.FailuresMax,
		Priority: c.Priority, Collection: c.Collection, Tags: c.Tags, ManagedBy: c.ManagedBy, Registered: c.Registered, LambdaDeleted: c.LambdaDeleted, Version: c.Version, Revision: c.Revision,
		Created: timeText(c.Created), CreatedBy: c.CreatedBy, Updated: timeText(c.Updated), UpdatedBy: c.UpdatedBy,
	}
	if c.Jitter > 0 {
		o.Jitter = formatDuration(c.Jitter)
	}
	if c.CatchUpWithin > 0 {
		o.CatchUpWithin = formatDuration(c.CatchUpWithin)
	}
	if len(c.Payload) > 0 {
		o.Payload, o.PayloadBase64 = textOrBase64(c.Payload)
	}
	if p := c.Pause; p != nil {
		o.Pause = &pauseObject{p.Reason, p.By, timeText(p.At), timeText(p.Until)}
	}
	for _, next := range c.Next {
		o.Next = append(o.Next, timeText(next))
	}
	return o
}
