package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) gateCommand() *cobra.Command {
	n := a.gates()
	return group(&cobra.Command{
		Use:   "gate",
		Short: "Hold tasks back, drop them, and let them go",
		Long: `A gate keeps tasks of a lambda from starting: all of them, or those of a priority, a collection or a tag. It is in force on all
servers within 2 s. Tasks that run go on, and tasks still expire. docs/gates.md tells more.`,
	}, a.gateSetCommand(admin.GatePause, "Make tasks wait until the gate is resumed or expires"),
		a.gateSetCommand(admin.GateDrop, "End tasks as dropped when they are due, until the gate is resumed or expires"),
		a.gateResumeCommand(), a.gateListCommand(),
		n.getCommand(a, &cobra.Command{Short: "Show a gate, and how many tasks it holds"}))
}

func (a *app) gateSetCommand(action admin.GateAction, short string) *cobra.Command {
	g := admin.Gate{Action: action}
	var lasts time.Duration
	var tags map[string]string
	var dryRun bool
	c := &cobra.Command{
		Use:   string(action) + " LAMBDA [--priority P | --collection C | --tag NAME=VALUE] --reason TEXT",
		Short: short,
		Long: short + `. Prints the gate's id, by which it is resumed. Whatever is unusual, such as an
overlap with another gate, is said on stderr. With --dry-run, prints how many tasks are due that it would hold or drop, and how many
come due within an hour, or before it ends.`,
		Example: `  kinesin gate ` + string(action) + ` mail --reason 'db maintenance' --for 2h
  kinesin gate ` + string(action) + ` mail --collection import-7 --reason 'bad batch' --dry-run`,
	}
	f := c.Flags()
	f.StringVar(&g.Priority, "priority", "", "only tasks of this `PRIORITY`")
	f.StringVar(&g.Collection, "collection", "", "only tasks of this `COLLECTION`")
	f.Var(tagsValue{&tags}, "tag", "only tasks with this tag, `NAME=VALUE`")
	f.StringVar(&g.Reason, "reason", "", "why, for those who find their tasks held back")
	f.Var(lastsValue{durationValue{d: &lasts, min: time.Second, max: 10 * 365 * day}}, "for", "end the gate by itself after `D`; never when not set")
	f.BoolVar(&dryRun, "dry-run", false, "only print how many tasks it is about")
	c.ValidArgsFunction = a.lambdas().complete(a)
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := one("LAMBDA")(cmd, args); err != nil {
			return err
		}
		g.Lambda = args[0]
		return checkGate(&g, tags)
	}
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		g.Tag = tagsText(tags)
		if lasts > 0 {
			g.Until = clock.Real().Now().Time().Add(lasts)
		}
		if dryRun {
			would, err := admin.New(k).Gates.DryRun(ctx, g)
			if err != nil {
				return err
			}
			return a.printCounts(&would)
		}
		set, err := admin.New(k).Gates.Create(ctx, g)
		if err != nil {
			return err
		}
		a.noteOf(&set)
		return a.print(gateObjectOf(&set, false), "%s", set.ID)
	})
}

// lastsValue is for how long a gate is in force.
type lastsValue struct{ durationValue }

func (v lastsValue) Set(text string) error {
	if d, err := api.ParseSignedDuration(text); err == nil && d <= 0 {
		return fmt.Errorf("%s: the gate would have expired already: want %s to %s from now", text, formatDuration(v.min), formatDuration(v.max))
	}
	return v.durationValue.Set(text)
}

// checkGate checks the flags of a gate that need no server.
func checkGate(g *admin.Gate, tags map[string]string) error {
	ways := len(tags)
	for _, way := range []string{g.Priority, g.Collection} {
		if way != "" {
			ways++
		}
	}
	switch {
	case g.Reason == "":
		return usagef("--reason is missing: say why, for those who find their tasks held back")
	case ways > 1:
		return usagef("want at most one of --priority, --collection and --tag; set two gates for both")
	}
	if err := task.CheckName("lambda", g.Lambda); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// noteOf says what is unusual about a gate.
func (a *app) noteOf(g *admin.Gate) {
	if g.Note != "" && !a.json() {
		a.note("%s", g.Note)
	}
}

func (a *app) printCounts(g *admin.Gate) error {
	a.noteOf(g)
	if a.json() {
		return printJSON(a.Stdout, gateObjectOf(g, true))
	}
	return a.printLine(heldText(g, "would "+map[admin.GateAction]string{admin.GatePause: "hold", admin.GateDrop: "drop"}[g.Action]))
}

func heldText(g *admin.Gate, does string) string {
	about := ""
	if !g.Counts.Exact {
		about = "about "
	}
	text := fmt.Sprintf("%s %s%d tasks now", does, about, g.Counts.Now)
	switch {
	case g.State == "resuming": // what comes due is not held
	case !g.Until.IsZero() && g.Until.Before(clock.Real().Now().Time().Add(time.Hour)):
		text += fmt.Sprintf(" and %s%d more before it ends", about, g.Counts.NextHour)
	default:
		text += fmt.Sprintf(" and %s%d more within an hour", about, g.Counts.NextHour)
	}
	switch {
	case g.Counts.Sent > 0:
		text += fmt.Sprintf("; about %d are on SQS already and are not held", g.Counts.Sent)
	case g.Counts.Sent < 0:
		text += "; how many are on SQS already is not known"
	}
	return text
}

func (a *app) gateResumeCommand() *cobra.Command {
	var pace int
	c := &cobra.Command{
		Use:   "resume",
		Short: "End a gate, at once or at a pace",
		Long: `Ends a gate. With --pace N, its tasks go at N a second, higher priorities first, and the gate ends when none is left, and not at its
expiry; what comes due meanwhile is not held. Another resume changes the pace, or ends the gate at once. A gate that has ended stays so, and is said.`,
	}
	c.Flags().Var(intValue{n: &pace, max: 1_000_000}, "pace", "let `N` tasks go per second; when not set, the lambda's recovery quota, or all at once if it has none")
	return a.gates().action(a, c, func(ctx context.Context, k *sdk.Client, id string) (admin.Gate, error) {
		g, err := admin.New(k).Gates.Resume(ctx, id, admin.GateResumeOptions{Pace: pace})
		a.noteOf(&g)
		return g, err
	})
}

func (a *app) gateListCommand() *cobra.Command {
	var ended bool
	c := &cobra.Command{Use: "list [LAMBDA]", Short: "List gates, newest first", Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a)}
	c.Flags().BoolVar(&ended, "ended", false, "also those that ended in the last 30 days")
	return a.gates().listCommand(a, c, func(ctx context.Context, k *sdk.Client, args []string) ([]admin.Gate, error) {
		return admin.New(k).Gates.List(ctx, first(args), admin.GateListOptions{Ended: ended})
	})
}

const gateEnded = "ended" // the state of a gate that holds nothing any more

func (a *app) printGate(g *admin.Gate) error {
	isEnded := g.State == gateEnded
	t := newTable(a.Stdout)
	t.facts([][2]string{
		{"id", g.ID},
		{"action", string(g.Action)},
		{"tasks", gateTasksText(g)},
		{"state", gateStateText(g)},
		{"reason", g.Reason},
		{"owner", g.Owner},
		{"created", timeText(g.Created)},
		{"until", timeText(g.Until)},
		{"ended", timeText(g.Ended)},
		{map[bool]string{true: "ended by", false: "resumed by"}[isEnded], g.EndedBy},
		{"note", g.Note},
	})
	if !isEnded {
		t.fact("counts", heldText(g, map[admin.GateAction]string{admin.GatePause: "holds", admin.GateDrop: "drops"}[g.Action]))
	}
	return t.Flush()
}

// gateObject is a gate in JSON. docs/cli-guide.md documents the fields; unset ones are omitted.
type gateObject struct {
	ID         string `json:"id,omitempty"` // not of a dry run
	Action     string `json:"action"`
	Lambda     string `json:"lambda"`
	Priority   string `json:"priority,omitempty"`
	Collection string `json:"collection,omitempty"`
	Tag        string `json:"tag,omitempty"`
	Reason     string `json:"reason"`
	State      string `json:"state,omitempty"`
	Owner      string `json:"owner,omitempty"`
	Created    string `json:"created,omitempty"`
	Until      string `json:"until,omitempty"`
	Pace       int    `json:"pace,omitempty"`
	Ended      string `json:"ended,omitempty"`
	EndedBy    string `json:"ended_by,omitempty"`
	Note       string `json:"note,omitempty"`

	Counts *gateCounts `json:"counts,omitempty"` // of a dry run and of get
}

type gateCounts struct {
	Now      int64 `json:"now"`
	NextHour int64 `json:"next_hour"`
	Exact    bool  `json:"exact"`
	Sent     int64 `json:"sent"`
}

func gateObjectOf(g *admin.Gate, withCounts bool) gateObject {
	o := gateObject{
		ID: g.ID, Action: string(g.Action), Lambda: g.Lambda, Priority: g.Priority, Collection: g.Collection, Tag: g.Tag, Reason: g.Reason,
		State: string(g.State), Owner: g.Owner, Created: timeText(g.Created), Until: timeText(g.Until), Pace: g.Pace, Ended: timeText(g.Ended),
		EndedBy: g.EndedBy, Note: g.Note,
	}
	if withCounts {
		o.Counts = &gateCounts{g.Counts.Now, g.Counts.NextHour, g.Counts.Exact, g.Counts.Sent}
	}
	return o
}

// gateTasksText says which tasks a gate is about.
func gateTasksText(g *admin.Gate) string {
	switch {
	case g.Priority != "":
		return g.Lambda + ", priority " + g.Priority
	case g.Collection != "":
		return g.Lambda + ", collection " + g.Collection
	case g.Tag != "":
		return g.Lambda + ", tag " + g.Tag
	}
	return g.Lambda
}

func gateStateText(g *admin.Gate) string {
	if g.Pace > 0 && g.Ended.IsZero() {
		return string(g.State) + " at " + strconv.Itoa(g.Pace) + "/s"
	}
	return string(g.State)
}
