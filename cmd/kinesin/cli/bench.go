package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/internal/bench"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/sdk"
)

// benchFlags are the flags of a benchmark.
type benchFlags struct {
	bench.Config

	data        string
	serverGiven bool // do not start one
}

func (a *app) benchCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure a server under load",
		Long: `Schedules tasks, runs them with an empty handler in this process, and prints rate, lateness (start − due time), CPU time and exact
counts of lost, duplicate and early starts. Without --server, KINESIN_SERVER or a server in the configuration file it starts a
server in a process of its own, with its data in a new directory below the current one, and removes that afterwards.`,
	},
		a.benchKind(bench.Insert, "Schedule N tasks for later", 1_000_000),
		a.benchKind(bench.Wall, "Run N tasks that are due at the same time", 20_000),
		a.benchKind(bench.Steady, "Run R tasks a second for D, due at random milliseconds", 0),
		a.benchKind(bench.Sets, "Schedule N tasks for later, and move, cancel and redrive them all by jobs", 1_000_000),
		a.benchKind(bench.Crons, "Create N crons that fire at the same time, and run what they schedule", 10_000),
		a.benchKind(bench.Immediate, "Schedule a task, wait until it starts, repeat", 2000),
		a.benchIsolationCommand(), a.benchChainsCommand(), a.benchGroupsCommand(),
		a.benchBrakesCommand(),
		a.benchNeighbourCommand(),
	)
}

func (a *app) benchKind(kind bench.Kind, short string, tasks int) *cobra.Command {
	b := benchFlags{Config: bench.Config{Kind: kind, Tasks: tasks, Rate: 1000, Duration: 20 * time.Second, Slots: 100, PayloadBytes: 100, Batch: 1000, OthersRate: 200}}
	c := &cobra.Command{
		Use:   string(kind),
		Short: short,
		Args:  cobra.NoArgs,
	}
	b.add(c.Flags())
	c.RunE = does(func(ctx context.Context, _ []string) error {
		b.serverGiven = c.Flags().Changed("server")
		return a.bench(ctx, &b)
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func (b *benchFlags) add(f *pflag.FlagSet) {
	if b.Kind == bench.Steady {
		f.Var(number(&b.Rate, b.Rate), "rate", "tasks per second")
		f.Var(durationValue{d: &b.Duration, min: time.Millisecond}, "duration", "time from the first due time to the last")
		f.Var(whole(&b.Pages, 0), "pages", "how many first pages of the console are open meanwhile")
	} else {
		f.VarP(whole(&b.Tasks, b.Tasks), "tasks", "n", "how many tasks")
	}
	if b.Kind != bench.Insert && b.Kind != bench.Sets {
		f.Var(whole(&b.Slots, b.Slots), "workers", "how many tasks run at a time")
	}
	if b.Kind == bench.Sets {
		f.Var(number(&b.OthersRate, b.OthersRate), "others-rate", "tasks per second of another lambda, whose lateness is measured without a job and beside each; 0: none")
	}
	if b.Kind == bench.Immediate {
		f.Var(durationValue{d: &b.IdleMax, min: time.Millisecond}, "idle-max", "wait a random time up to this before each task; none when not set")
	} else if b.Kind != bench.Crons {
		f.Var(whole(&b.Batch, b.Batch), "batch", "tasks in one call while scheduling")
	}
	if b.Kind == bench.Crons {
		f.BoolVar(&b.Spread, "spread", false, "have them fire within a minute instead, each in a second that H draws")
		f.Var(durationValue{d: &b.Ahead, min: time.Millisecond}, "ahead", "time to create them in before they fire; 8s and 3ms for each when not set")
	}
	if b.Kind == bench.Wall || b.Kind == bench.Steady {
		f.Var(durationValue{d: &b.Ahead, min: time.Millisecond}, "ahead", "time from the first call to the first due time; 4s and 25µs for each task when not set")
	}
	f.Var(whole(&b.PayloadBytes, b.PayloadBytes), "payload-bytes", "size of a payload, at least 8")
	f.Var(whole(&b.Shards, 0), "shards", "shards of the lambda that is created for the run; the server's default when not set")
	f.StringVar(&b.data, "data", "", "data `DIR` of the server that it starts; it is kept")
}

func (a *app) bench(ctx context.Context, b *benchFlags) error {
	if err := b.Validate(); err != nil {
		return usagef("%v", err)
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	b.Keep = b.Keep || !b.serverGiven // the data of a server of its own is deleted with it
	return a.benchOn(ctx, b.data, b.serverGiven, func(k *sdk.Client, metrics dial.Clients) error {
		b.Client, b.ServerCPU = k, bench.ServerCPU(metrics.Calls, metrics.Base)
		b.PageServer, b.PageClient = metrics.Base, metrics.Streams
		b.ServerHeap = bench.ServerHeap(metrics.Calls, metrics.Base)
		b.Lambda = benchLambda("bench")
		b.Progress = func(text string) { a.note("%s", text) }
		report, err := bench.Run(ctx, b.Config)
		if err != nil {
			return err
		}
		return a.printBench(&report, nil)
	})
}

// benchLambda returns the name of a lambda that nobody has.
func benchLambda(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:10]) }

// benchReport is what a benchmark prints.
type benchReport interface{ Print(w io.Writer) error }

func (a *app) printBench(r benchReport, err error) error {
	switch {
	case err != nil:
		return err
	case a.json():
		return printJSON(a.Stdout, r)
	}
	return r.Print(a.Stdout)
}

// onServer calls run with the server that is given, or with one of its own, which ends then.
func (a *app) onServer(ctx context.Context, data string, given bool, run func() error) error {
	if given {
		return run()
	}
	s, err := a.startServer(ctx, data)
	if err != nil {
		return err
	}
	a.server = s.url
	return errors.Join(run(), s.stop())
}

// benchOn calls run with clients of the server that is given, or of one of its own.
func (a *app) benchOn(ctx context.Context, data string, given bool, run func(k *sdk.Client, metrics dial.Clients) error) error {
	return a.onServer(ctx, data, given, func() error { return a.withClients(run) })
}
