package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/bench"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) benchBrakesCommand() *cobra.Command {
	b := bench.BrakeConfig{Tasks: 1_000_000, Slots: 100, PayloadBytes: 100, Duration: 30 * time.Second, Pace: 2000}
	var cases []string
	var data string
	c := &cobra.Command{
		Use:   "brakes",
		Short: "Measure gates, priorities and full queues on one lambda",
		Long: `Measures what brakes do to the tasks of a lambda, with a worker in this process: high priority behind a backlog of low, low under a
stream of high without and with weights, others beside a collection that is paused and what a resume lets go, a collection that is dropped
among others, and how many messages tasks without a worker lead to. Each case has a server of its own in a process of its own, or those that
--server names.`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.VarP(whole(&b.Tasks, b.Tasks), "tasks", "n", "tasks that are held back at most; some cases have fewer")
	f.Var(whole(&b.Slots, b.Slots), "workers", "how many tasks run at a time")
	f.Var(whole(&b.PayloadBytes, b.PayloadBytes), "payload-bytes", "size of a payload, at least 8")
	f.Var(durationValue{d: &b.Duration, min: 4 * time.Second}, "duration", "time over which rates are counted where tasks do not run out")
	f.Var(intValue{&b.Pace, 1, 1_000_000}, "pace", "tasks per second that the resumed gate lets go")
	f.Var(durationValue{d: &b.Ahead, min: time.Millisecond}, "ahead", "time from the first call to the due time; 4s and 50µs for each task when not set")
	f.StringSliceVar(&cases, "cases", nil, "`CASES`, of "+strings.Join(bench.BrakeCases(), ",")+"; all when not set")
	f.StringVar(&data, "data", "", "`DIR` that gets a directory of data for each case; they are kept")
	a.serverFlag(f)
	return a.acting(c, func(ctx context.Context, _ []string) error {
		for _, name := range cases {
			if !slices.Contains(bench.BrakeCases(), name) {
				return usagef("--cases %s: want any of %s", name, strings.Join(bench.BrakeCases(), ", "))
			}
		}
		if strings.Contains(a.server, ",") && (len(cases) == 0 || slices.Contains(cases, "no-workers")) {
			return usagef("--server names several servers, and the case no-workers counts the messages of one: name one, or --cases without it")
		}
		load := bench.Config{Kind: bench.Wall, Tasks: b.Tasks, Slots: b.Slots, PayloadBytes: b.PayloadBytes, Batch: 1}
		if err := load.Validate(); err != nil {
			return usagef("%v", err)
		}
		return a.benchBrakes(ctx, &b, cases, data, f.Changed("server"))
	})
}

func (a *app) benchBrakes(ctx context.Context, b *bench.BrakeConfig, cases []string, data string, serverGiven bool) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	var all []bench.Figure
	for _, name := range bench.BrakeCases() {
		if len(cases) > 0 && !slices.Contains(cases, name) {
			continue
		}
		a.note("%s…", name)
		figures, err := a.benchBrake(ctx, b, name, data, serverGiven)
		if err != nil {
			return fmt.Errorf("case %s: %w", name, err)
		}
		all = append(all, figures...)
	}
	if a.json() {
		return printJSON(a.Stdout, all)
	}
	return bench.PrintFigures(a.Stdout, all)
}

// benchBrake measures one case on a new server, or on those that --server names.
func (a *app) benchBrake(ctx context.Context, b *bench.BrakeConfig, name, data string, serverGiven bool) (figures []bench.Figure, err error) {
	if data != "" {
		data = filepath.Join(data, name)
	}
	lambda := benchLambda("brake")
	err = a.benchOn(ctx, data, serverGiven, func(k *sdk.Client, metrics dial.Clients) error {
		of := *b
		of.Client, of.Lambda = k, lambda
		of.Series, of.ServerCPU = bench.ServerSeries(metrics.Calls, metrics.Base), bench.ServerCPU(metrics.Calls, metrics.Base)
		var err error
		figures, err = bench.Brake(ctx, name, &of)
		return errors.Join(err, a.deleteBraked(ctx, k, lambda, serverGiven))
	})
	return figures, err
}

// deleteBraked deletes the lambdas of a case from servers that go on.
func (a *app) deleteBraked(ctx context.Context, k *sdk.Client, lambda string, serverGiven bool) error {
	if !serverGiven {
		return nil
	}
	all, err := k.ListLambdas(ctx)
	for i := range all {
		if strings.HasPrefix(all[i].Name, lambda) {
			_, deleteErr := k.DeleteLambda(ctx, all[i].Name, true)
			err = errors.Join(err, deleteErr)
		}
	}
	return err
}
