package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) chainCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "chain",
		Short: "See and change chains of tasks that follow each other",
		Long:  `A chain is a task with all that follows it (docs/concepts/chains.md). Each command takes the id of any of its tasks.`,
	},
		a.chainGetCommand(), a.chainCancelCommand(), a.chainPauseCommand(), a.chainResumeCommand(), a.chainRedriveCommand(), a.chainExtendCommand(),
	)
}

// Formats of chain get alone.
const (
	formatDot     = "dot"
	formatMermaid = "mermaid"
)

func (a *app) chainGetCommand() *cobra.Command {
	c := &cobra.Command{
		Short: "Draw a chain: its tasks, their states and times, and what they wait for",
		Long:  "Draws a chain: its tasks, their states and times, and what they wait for; also as -o dot or -o mermaid.",
	}
	a.outputFlag(c.Flags(), formatDot, formatMermaid)
	return a.chains().getCommand(a, c)
}

func (a *app) printChain(c *kinesinv1.GetChainResponse) error {
	if c.GetMore() {
		a.note("the chain has more tasks than are shown")
	}
	switch a.output {
	case formatDot:
		return drawGraph(a.Stdout, c, dotForm)
	case formatMermaid:
		return drawGraph(a.Stdout, c, mermaidForm)
	}
	if _, err := fmt.Fprintf(a.Stdout, "chain %s: %s, %d tasks\n", c.GetId(), c.GetState(), c.GetCount()); err != nil {
		return err
	}
	return drawTree(a.Stdout, c.GetRoot(), "", "")
}

// drawTree draws a task and, below it, those that follow it.
func drawTree(w io.Writer, t *kinesinv1.ChainTask, first, rest string) error {
	if _, err := fmt.Fprintf(w, "%s%s\n", first, chainTaskText(t)); err != nil {
		return err
	}
	for i, next := range t.GetFollowups() {
		branch, below := "├─ ", "│  "
		if i == len(t.GetFollowups())-1 {
			branch, below = "└─ ", "   "
		}
		if err := drawTree(w, next, rest+branch, rest+below); err != nil {
			return err
		}
	}
	return nil
}

// chainTaskText says in a line what there is to say about a task of a chain.
func chainTaskText(t *kinesinv1.ChainTask) string {
	parts := []string{}
	if t.GetEdge() != "" {
		parts = append(parts, t.GetEdge())
	}
	parts = append(parts, cmp.Or(t.GetLambda(), "(hidden)"), t.GetState())
	if t.GetBeforeRedrive() {
		parts = append(parts, "(from before a redrive)")
	}
	switch {
	case t.GetEnded() != 0:
		parts = append(parts, "ended "+instantText(t.GetEnded()))
	case t.GetStarted() != 0:
		parts = append(parts, "started "+instantText(t.GetStarted()))
	case t.GetDue() != 0:
		parts = append(parts, "due "+instantText(t.GetDue()))
	case t.GetDelay() > 0:
		parts = append(parts, spanText(t.GetDelay())+" after that")
	}
	if t.GetAttempt() > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", t.GetAttempt()))
	}
	if t.GetWaitsFor() != "" {
		parts = append(parts, "waits: "+t.GetWaitsFor())
	}
	if t.GetError() != "" {
		parts = append(parts, "error: "+strings.ReplaceAll(t.GetError(), "\n", "; "))
	}
	if t.GetId() != "" {
		parts = append(parts, t.GetId())
	}
	return api.Visible(strings.Join(parts, "  "))
}

// graphForm is a language for graphs.
type graphForm struct {
	begin, end string
	node       func(n int, t *kinesinv1.ChainTask) string
	edge       func(from, to int, t *kinesinv1.ChainTask) string
}

var (
	dotForm = graphForm{ //nolint:gochecknoglobals // a table
		begin: "digraph chain {\n  node [shape=box]\n", end: "}\n",
		node: func(n int, t *kinesinv1.ChainTask) string {
			return fmt.Sprintf("  t%d [label=%q]\n", n, t.GetLambda()+"\n"+graphState(t))
		},
		edge: func(from, to int, t *kinesinv1.ChainTask) string {
			return fmt.Sprintf("  t%d -> t%d [label=%q%s]\n", from, to, t.GetEdge(), dotStyle(t))
		},
	}
	mermaidForm = graphForm{ //nolint:gochecknoglobals // a table
		begin: "flowchart TD\n",
		node: func(n int, t *kinesinv1.ChainTask) string {
			return fmt.Sprintf("  t%d[\"%s<br/>%s\"]\n", n, mermaidText(t.GetLambda()), graphState(t))
		},
		edge: func(from, to int, t *kinesinv1.ChainTask) string {
			arrow := "-->"
			if t.GetId() == "" {
				arrow = "-.->"
			}
			return fmt.Sprintf("  t%d %s|%s| t%d\n", from, arrow, t.GetEdge(), to)
		},
	}
)

// graphState says in a graph what has become of a task.
func graphState(t *kinesinv1.ChainTask) string {
	if t.GetBeforeRedrive() {
		return t.GetState() + " (from before a redrive)"
	}
	return t.GetState()
}

func dotStyle(t *kinesinv1.ChainTask) string {
	if t.GetId() == "" {
		return ", style=dashed"
	}
	return ""
}

// mermaidText returns a text that ends no label.
func mermaidText(s string) string { return strings.ReplaceAll(s, `"`, "#quot;") }

func drawGraph(w io.Writer, c *kinesinv1.GetChainResponse, f graphForm) error {
	var b strings.Builder
	b.WriteString(f.begin)
	n := 0
	var add func(t *kinesinv1.ChainTask) int
	add = func(t *kinesinv1.ChainTask) int {
		at := n
		n++
		b.WriteString(f.node(at, t))
		for _, next := range t.GetFollowups() {
			b.WriteString(f.edge(at, add(next), next))
		}
		return at
	}
	add(c.GetRoot())
	b.WriteString(f.end)
	_, err := io.WriteString(w, b.String())
	return err
}

// changingChain makes a command that changes a chain. request completes the request; nil: there is nothing to add. after
// says more about what was changed; nil: nothing.
func (a *app) changingChain(c *cobra.Command, done string, request func(*kinesinv1.ControlChainRequest) error, after func(ctx context.Context, c *calls, id string)) *cobra.Command {
	c.Args = one("ID")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		r := &kinesinv1.ControlChainRequest{Id: args[0], Action: c.Name()}
		if request != nil {
			if err := request(r); err != nil {
				return err
			}
		}
		calls := over(k)
		changed, err := ask(ctx, calls, r.GetAction()+" chain", calls.Chains.ControlChain, r)
		if err != nil {
			return err
		}
		if after != nil {
			after(ctx, calls, changed.GetId())
		}
		text := fmt.Sprintf("%s: %d", done, changed.GetChanged())
		if told := changed.GetTold(); told > 0 {
			text += fmt.Sprintf("; running, and told to stop: %d", told)
		}
		if left := changed.GetLeft(); left > 0 {
			a.note("not cancelled, since else or finally leads to them: %d; cancel one by its own id (kinesin chain get %s)", left, changed.GetId())
		}
		return a.print(changed, "%s", text)
	})
}

func (a *app) chainCancelCommand() *cobra.Command {
	return a.changingChain(&cobra.Command{
		Use: "cancel ID", Short: "Cancel a chain; what undoes it still runs",
		Long: `Cancels the tasks that wait, and tells those that run to stop. Their follow-ups by else and finally still run, to undo what
the chain has done; in a paused chain they wait until it is resumed.`,
	}, "cancelled", nil, func(ctx context.Context, c *calls, id string) {
		if chain, err := a.chains().get(ctx, c, id); err == nil && chain.GetState() == "paused" { // who may cancel need not be allowed to read
			a.note("the chain is paused: what else and finally lead to starts when it is resumed (kinesin chain resume %s)", id)
		}
	})
}

func (a *app) chainPauseCommand() *cobra.Command {
	return a.changingChain(&cobra.Command{
		Use: "pause ID", Short: "Have no task of a chain start until it is resumed", Long: "Has no task of a chain start until it is resumed. Tasks that run go on, and tasks still expire.",
	}, "paused", nil, nil)
}

func (a *app) chainResumeCommand() *cobra.Command {
	return a.changingChain(&cobra.Command{Use: "resume ID", Short: "Undo a pause", Long: "Undoes a pause. Tasks that were due meanwhile are due now."}, "resumed", nil, nil)
}

func (a *app) chainRedriveCommand() *cobra.Command {
	return a.changingChain(&cobra.Command{
		Use: "redrive ID", Short: "Have a chain go on from the tasks that failed",
		Long: `Starts the tasks anew that did not succeed; what follows them follows the new end. Tasks that succeeded do not run again.
Follow-ups of the failure have run, and are not undone.`,
	}, "redriven", nil, nil)
}

func (a *app) chainExtendCommand() *cobra.Command {
	var before string
	c := a.changingChain(&cobra.Command{
		Use: "extend ID --start-before TIME", Short: "Give the tasks of a chain that have not started more time",
		Long: "Gives the tasks of a chain that have not started more time, also those that follow later.",
	}, "extended", func(r *kinesinv1.ControlChainRequest) error {
		if before == "" {
			return usagef("--start-before is missing: want the time by which the tasks have to start")
		}
		at, err := parseTime(before)
		if err != nil {
			return usagef("--start-before: %v", err)
		}
		r.StartBefore = at.UnixMicro()
		return nil
	}, nil)
	c.Flags().StringVar(&before, "start-before", "", "the tasks end as expired if they have not started by this `TIME`, RFC 3339; required")
	return c
}
