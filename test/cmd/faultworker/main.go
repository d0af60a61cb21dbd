// Faultworker is a worker program that does what its tasks tell it, badly included, and writes
// down each start, effect and end. It is a worker by itself; as "faultworker command" the command
// of `kinesin worker`; as "faultworker receive" what the targets of lambdas lead to. It is for tests
// only.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/job"
)

func main() {
	args := os.Args[1:]
	run := work
	if len(args) > 0 {
		if other := map[string]func(context.Context, []string) error{"command": command, "receive": receive}[args[0]]; other != nil {
			args, run = args[1:], other
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, args)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// work is a worker until it is asked to stop.
func work(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("faultworker", flag.ContinueOnError)
	server := flags.String("server", "http://127.0.0.1:7070", "server")
	lambda := flags.String("lambda", "work", "lambda to work for")
	slots := flags.Int("slots", 10, "tasks at a time")
	lease := flags.Duration("lease", 15*time.Second, "lease")
	grace := flags.Duration("grace", time.Second, "how long tasks may go on at SIGTERM")
	path := flags.String("log", "", "file to append events to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	log, err := job.OpenLog(*path)
	if err != nil {
		return err
	}
	k, err := sdk.NewClient(*server, sdk.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	w := sdk.NewWorker(k, sdk.Slots(*slots), sdk.Lease(*lease), sdk.Grace(*grace), sdk.KillAfter(time.Second))
	w.Register(*lambda, func(ctx context.Context, t *sdk.Task[[]byte]) error {
		j, err := job.Parse(t.Payload)
		if err != nil {
			return sdk.Fatal(err)
		}
		x := job.Execution{Task: string(t.ID), Attempt: uint32(t.Attempt), Failures: uint32(t.Failures), Due: t.Due, Log: log}
		return x.Run(ctx, j)
	})
	return w.Run(ctx)
}

// command does one task: the payload is its input, and the facts are in its environment.
func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("faultworker command", flag.ContinueOnError)
	path := flags.String("log", "", "file to append events to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	log, err := job.OpenLog(*path)
	if err != nil {
		return err
	}
	payload, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	j, err := job.Parse(payload)
	if err != nil {
		return err
	}
	attempt, err := number("KINESIN_ATTEMPT")
	if err != nil {
		return err
	}
	failures, err := number("KINESIN_FAILURES")
	if err != nil {
		return err
	}
	x := job.Execution{Task: os.Getenv("KINESIN_TASK_ID"), Attempt: attempt, Failures: failures, Log: log}
	return x.Run(ctx, j)
}

func number(name string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(os.Getenv(name)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return uint32(n), nil
}
