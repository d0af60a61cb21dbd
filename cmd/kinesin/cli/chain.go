package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) chainCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "chain",
		Short: "See and change chains of tasks that follow each other",
		Long: `A chain is a task with all that follows it: kinesin schedule --then. Its id is that of its first task; each command takes the id of
any of its tasks.`,
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
		Long:  "Draws a chain: its tasks, their states and times, and what they wait for; with -o dot for Graphviz.",
	}
	a.outputFlag(c.Flags(), formatDot, formatMermaid)
	return a.chains().getCommand(a, c)
}

func (a *app) printChain(c *sdk.ChainInfo) error {
	if c.More {
		a.note("the chain has more tasks than are shown")
	}
	switch a.output {
	case formatDot:
		return drawGraph(a.Stdout, c, dotForm)
	case formatMermaid:
		return drawGraph(a.Stdout, c, mermaidForm)
	}
	if _, err := fmt.Fprintf(a.Stdout, "chain %s: %s, %d tasks\n", c.ID, c.State, c.Count); err != nil {
		return err
	}
	return drawTree(a.Stdout, &c.Root, "", "")
}

// drawTree draws a task and, below it, those that follow it.
func drawTree(w io.Writer, t *sdk.ChainTask, first, rest string) error {
	if _, err := fmt.Fprintf(w, "%s%s\n", first, chainTaskText(t)); err != nil {
		return err
	}
	for i := range t.Followups {
		branch, below := "├─ ", "│  "
		if i == len(t.Followups)-1 {
			branch, below = "└─ ", "   "
		}
		if err := drawTree(w, &t.Followups[i], rest+branch, rest+below); err != nil {
			return err
		}
	}
	return nil
}

// chainTaskText says in a line what there is to say about a task of a chain.
func chainTaskText(t *sdk.ChainTask) string {
	parts := []string{}
	if t.Edge != "" {
		parts = append(parts, t.Edge)
	}
	parts = append(parts, cmp.Or(t.Lambda, "(hidden)"), string(t.State))
	if t.BeforeRedrive {
		parts = append(parts, "(from before a redrive)")
	}
	switch {
	case !t.Ended.IsZero():
		parts = append(parts, "ended "+timeText(t.Ended))
	case !t.Started.IsZero():
		parts = append(parts, "started "+timeText(t.Started))
	case !t.Due.IsZero():
		parts = append(parts, "due "+timeText(t.Due))
	case t.Delay > 0:
		parts = append(parts, formatDuration(t.Delay)+" after that")
	}
	if t.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", t.Attempt))
	}
	if t.WaitsFor != "" {
		parts = append(parts, "waits: "+t.WaitsFor)
	}
	if t.Error != "" {
		parts = append(parts, "error: "+strings.ReplaceAll(t.Error, "\n", "; "))
	}
	if t.ID != "" {
		parts = append(parts, string(t.ID))
	}
	return api.Visible(strings.Join(parts, "  "))
}

// graphForm is a language for graphs.
type graphForm struct {
	begin, end string
	node       func(n int, t *sdk.ChainTask) string
	edge       func(from, to int, t *sdk.ChainTask) string
}

var (
	dotForm = graphForm{ //nolint:gochecknoglobals // a table
		begin: "digraph chain {\n  node [shape=box]\n", end: "}\n",
		node: func(n int, t *sdk.ChainTask) string {
			return fmt.Sprintf("  t%d [label=%q]\n", n, t.Lambda+"\n"+graphState(t))
		},
		edge: func(from, to int, t *sdk.ChainTask) string {
			return fmt.Sprintf("  t%d -> t%d [label=%q%s]\n", from, to, t.Edge, dotStyle(t))
		},
	}
	mermaidForm = graphForm{ //nolint:gochecknoglobals // a table
		begin: "flowchart TD\n",
		node: func(n int, t *sdk.ChainTask) string {
			return fmt.Sprintf("  t%d[\"%s<br/>%s\"]\n", n, mermaidText(t.Lambda), graphState(t))
		},
		edge: func(from, to int, t *sdk.ChainTask) string {
			arrow := "-->"
			if t.ID == "" {
				arrow = "-.->"
			}
			return fmt.Sprintf("  t%d %s|%s| t%d\n", from, arrow, t.Edge, to)
		},
	}
)

// graphState says in a graph what has become of a task.
func graphState(t *sdk.ChainTask) string {
	if t.BeforeRedrive {
		return string(t.State) + " (from before a redrive)"
	}
	return string(t.State)
}

func dotStyle(t *sdk.ChainTask) string {
	if t.ID == "" {
		return ", style=dashed"
	}
	return ""
}

// mermaidText returns a text that ends no label.
func mermaidText(s string) string { return strings.ReplaceAll(s, `"`, "#quot;") }

func drawGraph(w io.Writer, c *sdk.ChainInfo, f graphForm) error {
	var b strings.Builder
	b.WriteString(f.begin)
	n := 0
	var add func(t *sdk.ChainTask) int
	add = func(t *sdk.ChainTask) int {
		at := n
		n++
		b.WriteString(f.node(at, t))
		for i := range t.Followups {
			next := &t.Followups[i]
			b.WriteString(f.edge(at, add(next), next))
		}
		return at
	}
	add(&c.Root)
	b.WriteString(f.end)
	_, err := io.WriteString(w, b.String())
	return err
}

type chainObject struct {
	ID    string          `json:"id"`
	State string          `json:"state"`
	Count int             `json:"count"`
	More  bool            `json:"more"`
	Root  chainTaskObject `json:"root"`
}

type chainTaskObject struct {
	ID         string    `json:"id,omitempty"`
	Lambda     string    `json:"lambda,omitempty"`
	State      sdk.State `json:"state"`
	Edge       string    `json:"edge,omitempty"`
	Collection string    `json:"collection,omitempty"`
	Due        string    `json:"due,omitempty"`
	Delay      string    `json:"delay,omitempty"`
	Started    string    `json:"started,omitempty"`
	Ended      string    `json:"ended,omitempty"`
	Attempt    int       `json:"attempt,omitempty"`
	Error      string    `json:"error,omitempty"`
	WaitsFor   string    `json:"waits_for,omitempty"`
	Paused     bool      `json:"paused,omitempty"`
	// BeforeRedrive says that it follows an earlier end of the task before it.
	BeforeRedrive bool              `json:"before_redrive,omitempty"`
	Followups     []chainTaskObject `json:"followups,omitempty"`
}

func chainObjectOf(c *sdk.ChainInfo) chainObject {
	return chainObject{ID: string(c.ID), State: c.State, Count: c.Count, More: c.More, Root: chainTaskObjectOf(&c.Root)}
}

func chainTaskObjectOf(t *sdk.ChainTask) chainTaskObject {
	o := chainTaskObject{
		ID: string(t.ID), Lambda: t.Lambda, State: t.State, Edge: t.Edge, Collection: t.Collection, Due: timeText(t.Due),
		Started: timeText(t.Started), Ended: timeText(t.Ended), Attempt: t.Attempt, Error: t.Error, WaitsFor: t.WaitsFor, Paused: t.Paused,
		BeforeRedrive: t.BeforeRedrive,
	}
	if t.Delay > 0 {
		o.Delay = formatDuration(t.Delay)
	}
	for i := range t.Followups {
		o.Followups = append(o.Followups, chainTaskObjectOf(&t.Followups[i]))
	}
	return o
}

type chainChangeObject struct {
	ID      string `json:"id"`
	Changed int    `json:"changed"`
	Told    int    `json:"told"`
	Left    int    `json:"left,omitempty"`
}

// changingChain makes a command that changes a chain.
func (a *app) changingChain(use, short, long, done string, change func(k *sdk.Client) func(ctx context.Context, id sdk.ID) (admin.ChainChange, error)) *cobra.Command {
	return a.calling(&cobra.Command{Use: use, Short: short, Long: long, Args: one("ID")}, func(ctx context.Context, k *sdk.Client, args []string) error {
		r, err := change(k)(ctx, sdk.ID(args[0]))
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s: %d", done, r.Changed)
		if r.Told > 0 {
			text += fmt.Sprintf("; running, and told to stop: %d", r.Told)
		}
		if r.Left > 0 {
			a.note("not cancelled, since else or finally leads to them: %d; cancel one by its own id (kinesin chain get %s)", r.Left, r.ID)
		}
		return a.print(chainChangeObject{string(r.ID), r.Changed, r.Told, r.Left}, "%s", text)
	})
}

func (a *app) chainCancelCommand() *cobra.Command {
	return a.changingChain("cancel ID", "Cancel a chain; what undoes it still runs",
		`Cancels the tasks of the chain that wait, and tells those that run to stop. No then follows them. Follow-ups by else and
finally still run, those of earlier ends too: they undo what the chain has done. In a chain that is paused they wait until it is resumed.`,
		"cancelled", func(k *sdk.Client) func(context.Context, sdk.ID) (admin.ChainChange, error) {
			return func(ctx context.Context, id sdk.ID) (admin.ChainChange, error) {
				r, err := admin.New(k).Chains.Cancel(ctx, id)
				if err != nil {
					return r, err
				}
				if c, err := k.GetChain(ctx, id); err == nil && c.State == "paused" { // who may cancel need not be allowed to read
					a.note("the chain is paused: what else and finally lead to starts when it is resumed (kinesin chain resume %s)", r.ID)
				}
				return r, nil
			}
		})
}

func (a *app) chainPauseCommand() *cobra.Command {
	return a.changingChain("pause ID", "Have no task of a chain start until it is resumed", "Tasks that run go on, and tasks with a start before still expire.",
		"paused", func(k *sdk.Client) func(context.Context, sdk.ID) (admin.ChainChange, error) {
			return admin.New(k).Chains.Pause
		})
}

func (a *app) chainResumeCommand() *cobra.Command {
	return a.changingChain("resume ID", "Undo a pause", "Tasks that were due meanwhile are due now.",
		"resumed", func(k *sdk.Client) func(context.Context, sdk.ID) (admin.ChainChange, error) {
			return admin.New(k).Chains.Resume
		})
}

func (a *app) chainRedriveCommand() *cobra.Command {
	return a.changingChain("redrive ID", "Have a chain go on from the tasks that failed",
		`The tasks of the chain that did not succeed start anew, and their follow-ups follow the new end. Tasks that succeeded do not run
again. Follow-ups of the failure by else or finally have run, and are not undone.`,
		"redriven", func(k *sdk.Client) func(context.Context, sdk.ID) (admin.ChainChange, error) {
			return admin.New(k).Chains.Redrive
		})
}

func (a *app) chainExtendCommand() *cobra.Command {
	var before string
	c := a.changingChain("extend ID --start-before TIME", "Give the tasks of a chain that have not started more time", "Of tasks that are there; not of those that may follow.",
		"extended", func(k *sdk.Client) func(context.Context, sdk.ID) (admin.ChainChange, error) {
			return func(ctx context.Context, id sdk.ID) (admin.ChainChange, error) {
				if before == "" {
					return admin.ChainChange{}, usagef("--start-before is missing: want the time by which the tasks have to start")
				}
				at, err := parseTime(before)
				if err != nil {
					return admin.ChainChange{}, usagef("--start-before: %v", err)
				}
				return admin.New(k).Chains.Extend(ctx, id, at)
			}
		})
	c.Flags().StringVar(&before, "start-before", "", "the tasks end as expired if they have not started by this `TIME`, RFC 3339; required")
	return c
}
