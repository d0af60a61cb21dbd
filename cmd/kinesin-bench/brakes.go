package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/kinesin-bench/load"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) brakes() *cobra.Command {
	b := load.BrakeConfig{Tasks: 1_000_000, Slots: 100, PayloadBytes: 100, Duration: 30 * time.Second, Pace: 2000}
	var cases []string
	c := &cobra.Command{
		Use:   "brakes",
		Short: "Measure gates, priorities and full queues on one lambda",
		Long: `Measures what brakes do to the tasks of a lambda, with a worker in this process: high priority behind a backlog of low, low under a
stream of high without and with weights, others beside a collection that is paused and what a resume lets go, a collection that is dropped
among others, and how many messages tasks without a worker lead to. Each case has a server of its own in a process of its own, or those that
--server names.`,
	}
	f := c.Flags()
	f.IntVarP(&b.Tasks, "tasks", "n", b.Tasks, "tasks that are held back at most; some cases have fewer")
	f.IntVar(&b.Slots, "workers", b.Slots, "how many tasks run at a time")
	f.IntVar(&b.PayloadBytes, "payload-bytes", b.PayloadBytes, "size of a payload, at least 8")
	f.DurationVar(&b.Duration, "duration", b.Duration, "time over which rates are counted where tasks do not run out")
	f.IntVar(&b.Pace, "pace", b.Pace, "tasks per second that the resumed gate lets go")
	f.DurationVar(&b.Ahead, "ahead", 0, "time from the first call to the due time; 4s and 50µs for each task when not set")
	f.StringSliceVar(&cases, "cases", nil, "`CASES`, of "+strings.Join(load.BrakeCases(), ",")+"; all when not set")
	check := func() error {
		if strings.Contains(a.conn.Server, ",") && (len(cases) == 0 || slices.Contains(cases, "no-workers")) {
			return errors.New("--server names several servers, and the case no-workers counts the messages of one: name one, or --cases without it")
		}
		return errors.Join(checkCases(cases, load.BrakeCases()), b.Validate())
	}
	return a.measuring(c, check, func(ctx context.Context) error {
		var all load.Figures
		for _, name := range load.BrakeCases() {
			if len(cases) > 0 && !slices.Contains(cases, name) {
				continue
			}
			a.note(name + "…")
			figures, err := a.brake(ctx, b, name)
			if err != nil {
				return fmt.Errorf("case %s: %w", name, err)
			}
			all = append(all, figures...)
		}
		return a.print(all, nil)
	})
}

// brake measures one case on a new server, or on those that --server names.
func (a *app) brake(ctx context.Context, b load.BrakeConfig, name string) (figures []load.Figure, err error) {
	b.Lambda = newLambda("brake")
	err = a.on(ctx, name, func(s *load.Server) error {
		b.Server = s
		var err error
		figures, err = load.Brake(ctx, name, &b)
		return errors.Join(err, a.deleteBraked(ctx, s.Client, b.Lambda))
	})
	return figures, err
}

// deleteBraked deletes the lambdas of a case from servers that go on.
func (a *app) deleteBraked(ctx context.Context, k *sdk.Client, lambda string) error {
	if !a.given {
		return nil
	}
	all, err := admin.New(k).Lambdas.List(ctx)
	for i := range all {
		if strings.HasPrefix(all[i].Name, lambda) {
			_, deleteErr := admin.New(k).Lambdas.Delete(ctx, all[i].Name, admin.LambdaDeleteOptions{DropTasks: true})
			err = errors.Join(err, deleteErr)
		}
	}
	return err
}
