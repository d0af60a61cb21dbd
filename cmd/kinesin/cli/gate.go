package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
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
		Long: `A gate keeps tasks of a lambda from starting: all, or those of a priority, a collection or a tag (docs/concepts/limits.md#gates). It
is in force on all servers within 2 s. Tasks that run go on, and tasks still expire.`,
	}, a.gateSetCommand(admin.GatePause, "Make tasks wait until the gate is resumed or expires"),
		a.gateSetCommand(admin.GateDrop, "End tasks as dropped when they are due, until the gate is resumed or expires"),
		a.gateResumeCommand(), a.gateListCommand(),
		n.getCommand(a, &cobra.Command{Short: "Show a gate, and how many tasks it holds"}))
}

func (a *app) gateSetCommand(action admin.GateAction, short string) *cobra.Command {
	g := &kinesinv1.Gate{Action: string(action)}
	var lasts time.Duration
	var tags map[string]string
	var dryRun bool
	c := &cobra.Command{
		Use:   string(action) + " LAMBDA [--priority P | --collection C | --tag NAME=VALUE] {--reason TEXT | --dry-run}",
		Short: short,
		Long: short + `. Prints the gate's id, by which you resume it; notes, such as an overlap with
another gate, go to stderr. --dry-run prints how many tasks it would hold or drop, now and in the next hour, and sets nothing.`,
		Example: `  kinesin gate ` + string(action) + ` mail --reason 'db maintenance' --for 2h
  kinesin gate ` + string(action) + ` mail --collection import-7 --dry-run`,
	}
	f := c.Flags()
	f.StringVar(&g.Priority, "priority", "", helpOf("Gate.priority"))
	f.StringVar(&g.Collection, "collection", "", helpOf("Gate.collection"))
	f.Var(tagsValue{&tags}, "tag", "only tasks with this tag, `NAME=VALUE`")
	f.StringVar(&g.Reason, "reason", "", helpOf("Gate.reason"))
	f.Var(lastsValue{durationValue{d: &lasts, min: time.Second, max: 10 * 365 * day}}, "for", "end the gate by itself after `D`; never when not set")
	f.BoolVar(&dryRun, "dry-run", false, "only print how many tasks it is about")
	c.ValidArgsFunction = a.lambdas().complete(a)
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := one("LAMBDA")(cmd, args); err != nil {
			return err
		}
		if g.Lambda = args[0]; dryRun {
			g.Reason = cmp.Or(g.Reason, "dry run")
		}
		return checkGate(g, tags)
	}
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		g.Tag = tagsText(tags)
		if lasts > 0 {
			g.Until = clock.Real().Now().Time().Add(lasts).UnixMicro()
		}
		c := over(k)
		r, err := askSet(ctx, c, "set gate", c.Gates.SetGate, &kinesinv1.SetGateRequest{Gate: g, DryRun: dryRun, RequestId: c.RequestID()})
		if err != nil {
			return err
		}
		a.noteOf(r.GetGate())
		if dryRun {
			return a.print(r.GetGate(), "%s", heldText(r.GetGate(), "would "+map[admin.GateAction]string{admin.GatePause: "hold", admin.GateDrop: "drop"}[action]))
		}
		return a.print(r.GetGate(), "%s", r.GetGate().GetId())
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
func checkGate(g *kinesinv1.Gate, tags map[string]string) error {
	ways := len(tags)
	for _, way := range []string{g.GetPriority(), g.GetCollection()} {
		if way != "" {
			ways++
		}
	}
	switch {
	case g.GetReason() == "":
		return usagef("--reason is missing: say why, for those who find their tasks held back")
	case ways > 1:
		return usagef("want at most one of --priority, --collection and --tag; set two gates for both")
	}
	if err := task.CheckName("lambda", g.GetLambda()); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// noteOf says what is unusual about a gate.
func (a *app) noteOf(g *kinesinv1.Gate) {
	if g.GetNote() != "" && !a.json() {
		a.note("%s", g.GetNote())
	}
}

func heldText(g *kinesinv1.Gate, does string) string {
	about, counts := "", g.GetCounts()
	if !counts.GetExact() {
		about = "about "
	}
	text := fmt.Sprintf("%s %s%d tasks now", does, about, counts.GetNow())
	switch {
	case g.GetState() == string(admin.GateResuming): // what comes due is not held
	case g.GetUntil() != 0 && g.GetUntil() < clock.Real().Now().Time().Add(time.Hour).UnixMicro():
		text += fmt.Sprintf(" and %s%d more before it ends", about, counts.GetNextHour())
	default:
		text += fmt.Sprintf(" and %s%d more within an hour", about, counts.GetNextHour())
	}
	switch {
	case counts.GetSent() > 0:
		text += fmt.Sprintf("; about %d are on SQS already and are not held", counts.GetSent())
	case counts.GetSent() < 0:
		text += "; how many are on SQS already is not known"
	}
	return text
}

func (a *app) gateResumeCommand() *cobra.Command {
	var pace int
	c := &cobra.Command{
		Use:   "resume",
		Short: "End a gate, at once or at a pace",
		Long: `Ends a gate. With --pace N its tasks go at N a second, higher priorities first, and the gate ends when none is left; what comes
due meanwhile is not held. Another resume changes the pace, or ends the gate at once.`,
	}
	c.Flags().Var(intValue{n: &pace, max: 1_000_000}, "pace", helpOf("ResumeGateRequest.pace"))
	return a.gates().action(a, c, func(ctx context.Context, c *calls, id string) (*kinesinv1.Gate, error) {
		r, err := ask(ctx, c, "resume gate", c.Gates.ResumeGate, &kinesinv1.ResumeGateRequest{Id: id, Pace: uint32(pace)})
		a.noteOf(r.GetGate())
		return r.GetGate(), err
	})
}

func (a *app) gateListCommand() *cobra.Command {
	var ended bool
	c := &cobra.Command{Use: "list [LAMBDA]", Short: "List gates, newest first", Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a)}
	c.Flags().BoolVar(&ended, "ended", false, "also those that ended in the last 30 days")
	return a.gates().listCommand(a, c, func(ctx context.Context, c *calls, args []string) (proto.Message, error) {
		return ask(ctx, c, "list gates", c.Gates.ListGates, &kinesinv1.ListGatesRequest{Lambda: first(args), Ended: ended})
	})
}

func (a *app) printGate(g *kinesinv1.Gate) error {
	endedBy, isEnded := "resumed by", g.GetState() == string(admin.GateEnded)
	if isEnded {
		endedBy = "ended by"
	}
	t := newTable(a.Stdout)
	t.facts([][2]string{
		{"id", g.GetId()},
		{"action", g.GetAction()},
		{"tasks", gateTasksText(g)},
		{"state", gateStateText(g)},
		{"reason", g.GetReason()},
		{"owner", g.GetOwner()},
		{"created", instantText(g.GetCreated())},
		{"until", instantText(g.GetUntil())},
		{"ended", instantText(g.GetEnded())},
		{endedBy, g.GetEndedBy()},
		{"note", g.GetNote()},
	})
	if !isEnded {
		t.fact("counts", heldText(g, map[string]string{string(admin.GatePause): "holds", string(admin.GateDrop): "drops"}[g.GetAction()]))
	}
	return t.Flush()
}

// gateTasksText says which tasks a gate is about.
func gateTasksText(g *kinesinv1.Gate) string {
	switch {
	case g.GetPriority() != "":
		return g.GetLambda() + ", priority " + g.GetPriority()
	case g.GetCollection() != "":
		return g.GetLambda() + ", collection " + g.GetCollection()
	case g.GetTag() != "":
		return g.GetLambda() + ", tag " + g.GetTag()
	}
	return g.GetLambda()
}

func gateStateText(g *kinesinv1.Gate) string {
	if g.GetPace() > 0 && g.GetEnded() == 0 {
		return g.GetState() + " at " + strconv.Itoa(int(g.GetPace())) + "/s"
	}
	return g.GetState()
}
