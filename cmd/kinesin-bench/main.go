// Command kinesin-bench measures a server of Kinesin under load. It schedules tasks and runs them with package load, on
// the server that --server names or on one that it starts: kinesin, beside it or on the PATH, in a process of its own.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/cmd/kinesin-bench/load"
	"github.com/kinesin-io/kinesin/cmd/settings"
)

// Exit codes, those of kinesin.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	a := &app{env: os.Environ(), stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// app is one run of the program.
type app struct {
	env            []string
	stdout, stderr io.Writer

	conn   settings.Connection
	given  bool     // a server is: do not start one
	data   string   // directory of the server that is started; empty: a new one, which is removed afterwards
	serve  []string // more flags of a server that is started
	output string   // format of the report
	began  bool     // what goes wrong is no longer the usage
}

// run runs one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case a.began:
		a.note(err.Error())
		return exitFailed
	}
	a.note(err.Error())
	fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return exitUsage
}

// note prints something on stderr that is not a result.
func (a *app) note(text string) { fmt.Fprintln(a.stderr, "kinesin-bench:", api.Visible(text)) }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "kinesin-bench",
		Short: "Measure a server of Kinesin under load",
		Long: `Schedules tasks, runs them with an empty handler in this process, and prints rate, lateness (start − due time), CPU time and exact
counts of lost, duplicate and early starts. Without --server, KINESIN_SERVER or a server in the configuration file it starts a
server in a process of its own, with its data in a new directory below the current one, and removes that afterwards.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return settings.Apply(cmd, a.env, nil)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			return errors.Join(cmd.Help(), errors.New("a command is missing"))
		},
	}
	root.PersistentFlags().String("config", "", "YAML `FILE` with settings (KINESIN_CONFIG)")
	root.AddCommand(
		a.kind(load.Insert, "Schedule N tasks for later", 1_000_000),
		a.kind(load.Wall, "Run N tasks that are due at the same time", 20_000),
		a.kind(load.Steady, "Run R tasks a second for D, due at random milliseconds", 0),
		a.kind(load.Sets, "Schedule N tasks for later, and move, cancel and redrive them all by jobs", 1_000_000),
		a.kind(load.Crons, "Create N crons that fire at the same time, and run what they schedule", 10_000),
		a.kind(load.Immediate, "Schedule a task, wait until it starts, repeat", 2000),
		a.kind(load.Lambdas, "Run N tasks of many lambdas that are due at the same time", 100_000),
		a.kind(load.Keys, "Run N tasks with limit keys that are due at the same time", 20_000),
		a.kind(load.Quota, "Run N tasks of a lambda with a quota of concurrency that are due at the same time", 20_000),
		a.kind(load.Procs, "Run N tasks that are due at the same time in many processes, whose workers have one slot each", 20_000),
		a.kind(load.Change, "Schedule N tasks for later, and reschedule, cancel, redrive and run them by their ids", 20_000),
		a.kind(load.Push, "Call URLs for N tasks that are due at the same time, of H hosts of which one in a hundred never answers", 1_000_000),
		a.kind(load.Count, "Schedule N tasks for later, and count them and list the newest", 1_000_000),
		a.isolation(), a.chains(), a.groups(), a.brakes(), a.neighbour(), a.process(),
	)
	return root
}

// calling completes a command that calls a server: check tells what is wrong with its flags, act does it.
func (a *app) calling(c *cobra.Command, check func() error, act func(ctx context.Context) error) *cobra.Command {
	c.Args = cobra.NoArgs
	f := c.Flags()
	a.conn.AddTo(f)
	f.StringVarP(&a.output, "output", "o", "text", "`FORMAT` of the report: text or json")
	settings.Mark(f, "output")
	c.PreRunE = func(*cobra.Command, []string) error {
		a.given = f.Changed("server")
		if a.output != "text" && a.output != "json" {
			return fmt.Errorf("--output %s: want text or json", a.output)
		}
		if err := check(); err != nil {
			return err
		}
		k, err := a.conn.Client()
		if err == nil {
			k.Close()
		}
		return err
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		a.began = true
		return act(cmd.Context())
	}
	return c
}

// measuring completes a command that may start a server.
func (a *app) measuring(c *cobra.Command, check func() error, act func(ctx context.Context) error) *cobra.Command {
	c.Flags().StringVar(&a.data, "data", "", "`DIR` for the data of the server that it starts, which is kept; where each case has a server, for a directory of each")
	return a.calling(c, check, func(ctx context.Context) error {
		for _, text := range a.conn.Loose() {
			a.note(text)
		}
		return act(ctx)
	})
}

// kind makes the command of a kind of load.
func (a *app) kind(kind load.Kind, short string, tasks int) *cobra.Command {
	b := load.Config{Kind: kind, Tasks: tasks, Rate: 1000, Duration: 20 * time.Second, Slots: 100, PayloadBytes: 100, Batch: 1000, OthersRate: 200}
	c := &cobra.Command{Use: string(kind), Short: short}
	f := c.Flags()
	if kind.HasWorkers() {
		f.IntVar(&b.Slots, "workers", b.Slots, "how many tasks run at a time")
	}
	about := "how many tasks"
	switch kind {
	case load.Steady:
		about = "how many tasks, at --rate; those of --duration when not set"
		f.Float64Var(&b.Rate, "rate", b.Rate, "tasks per second")
		f.DurationVar(&b.Duration, "duration", b.Duration, "time from the first due time to the last")
		f.IntVar(&b.Pages, "pages", 0, "how many first pages of the console are open meanwhile")
	case load.Sets:
		f.Float64Var(&b.OthersRate, "others-rate", b.OthersRate, "tasks per second of another lambda, whose lateness is measured without a job and beside each; 0: none")
	case load.Immediate:
		f.DurationVar(&b.IdleMax, "idle-max", 0, "wait a random time up to this before each task; none when not set")
	case load.Crons:
		f.BoolVar(&b.Spread, "spread", false, "have them fire within a minute instead, each in a second that H draws")
		f.DurationVar(&b.Ahead, "ahead", 0, "time to create them in before they fire; 8s and 6ms for each when not set")
	case load.Lambdas:
		f.IntVar(&b.Lambdas, "lambdas", 1000, "how many lambdas, which are created for the run")
	case load.Keys:
		f.IntVar(&b.LimitKeys, "keys", 1000, "how many limit keys")
		f.IntVar(&b.Concurrency, "concurrency", 1, "how many tasks of a key run at a time")
		f.Float64Var(&b.Rate, "rate", 0, "have so many tasks due per second, at random milliseconds; all at the same time when not set")
	case load.Quota:
		f.IntVar(&b.Concurrency, "concurrency", 1000, "how many tasks of the lambda run at a time; 0: no bound")
		f.Float64Var(&b.StartRate, "rate", 0, "how many tasks of the lambda start per second; no bound when not set")
	case load.Procs:
		b.StartProcess = a.startProcess
		f.IntVar(&b.Processes, "processes", 20, "how many processes, over which the workers are spread; as many as there are workers at most")
	case load.Push:
		b.Slots, b.Hosts, b.Concurrency = 1000, 1, 4
		f.IntVar(&b.Hosts, "hosts", b.Hosts, "how many hosts are called, each at an address of its own in 127.0.0.0/8")
		f.IntVar(&b.Concurrency, "concurrency", b.Concurrency, "how many calls a host gets at a time, if there are several")
	case load.Insert, load.Wall, load.Change, load.Count:
	}
	f.IntVarP(&b.Tasks, "tasks", "n", b.Tasks, about)
	if kind.HasWorkers() && kind != load.Immediate && kind != load.Crons {
		f.DurationVar(&b.Ahead, "ahead", 0, "time from the first call to the first due time; 4s and 25µs for each task when not set")
	}
	if kind != load.Immediate && kind != load.Crons {
		f.IntVar(&b.Batch, "batch", b.Batch, "tasks in one call while scheduling")
	}
	f.IntVar(&b.PayloadBytes, "payload-bytes", b.PayloadBytes, "size of a payload, at least 8")
	f.IntVar(&b.Shards, "shards", 0, "shards of the lambda that is created for the run; the server's default when not set")
	return a.measuring(c, b.Validate, func(ctx context.Context) error {
		b.Keep = !a.given // the data of a server of its own is deleted with it
		if kind == load.Push {
			a.serve = []string{"--targets-allow", "127.0.0.0/8"}
		}
		return a.on(ctx, "", func(s *load.Server) error {
			b.Server, b.Lambda, b.Progress = s, newLambda("bench"), a.note
			report, err := load.Run(ctx, b)
			return a.print(&report, err)
		})
	})
}

// newLambda returns the name of a lambda that nobody has.
func newLambda(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:10]) }

// print prints a report, unless there is an error.
func (a *app) print(report interface{ Print(w io.Writer) error }, err error) error {
	switch {
	case err != nil:
		return err
	case a.output == "json":
		e := json.NewEncoder(a.stdout)
		e.SetEscapeHTML(false)
		return e.Encode(report)
	}
	return report.Print(a.stdout)
}

// checkCases refuses cases that there are not.
func checkCases(cases, all []string) error {
	for _, name := range cases {
		if !slices.Contains(all, name) {
			return fmt.Errorf("--cases %s: want any of %s", name, strings.Join(all, ", "))
		}
	}
	return nil
}
