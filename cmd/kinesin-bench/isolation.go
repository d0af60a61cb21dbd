package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/kinesin-bench/load"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

const (
	// The neighbour's tasks are due that long after it begins to schedule them, and so much more for each and
	// for each byte of its payload.
	neighbourAhead        = 4 * time.Second
	neighbourAheadPerTask = 30 * time.Microsecond
	neighbourAheadPerByte = 20 * time.Nanosecond
	// measureBefore is how long before the neighbour's tasks are due the measurement begins: half of what it
	// needs to schedule, and two seconds that show the lambda alone.
	measureBefore  = 6 * time.Second
	measuredBefore = 2 * time.Second
	// neighbourStartsMax bounds how often a neighbour's worker process is started again in a case.
	neighbourStartsMax = 1000
	// neighbourRestartPause comes before that. A supervisor waits as long unless it is told otherwise
	// (RestartSec of systemd.service).
	neighbourRestartPause = 100 * time.Millisecond
	neighbourReady        = "ready"
)

// isolationFlags are the flags of the benchmark of isolation.
type isolationFlags struct {
	load.Config

	cases          []string
	neighbourTasks int
	neighbourSlots int
}

func (a *app) isolation() *cobra.Command {
	b := isolationFlags{Config: load.Config{Kind: load.Steady, Rate: 200, Duration: 20 * time.Second, Slots: 100, PayloadBytes: 100, Batch: 1000}}
	var names []string
	for _, c := range load.Cases() {
		names = append(names, c.Name)
	}
	c := &cobra.Command{
		Use:   "isolation",
		Short: "Run R tasks a second beside neighbours that misbehave",
		Long: `Measures the lateness of a lambda alone, and then beside another lambda on the same server that misbehaves: a million tasks due at
once, tasks that all fail, no workers, tasks behind a gate, 100,000 limit keys, payloads of 250 KB, workers that hang, tasks that kill their worker.
In the case hot-key the neighbour is one limit key of the same lambda, and the measured tasks have 999 others. Each case has a server
of its own in a process of its own, or those that --server names, and the neighbour's workers are in another process. The bound is
1.2 times the p99 of the lambda alone and 5 ms. The exit code does not depend on it.`,
	}
	f := c.Flags()
	f.IntVarP(&b.neighbourTasks, "tasks", "n", 1_000_000, "tasks of the neighbour at most; some cases have fewer")
	f.IntVar(&b.neighbourSlots, "neighbour-workers", 100, "how many of the neighbour's tasks run at a time")
	f.Float64Var(&b.Rate, "rate", b.Rate, "tasks per second of the lambda that is measured")
	f.DurationVar(&b.Duration, "duration", b.Duration, "time from its first due time to the last")
	f.IntVar(&b.Slots, "workers", b.Slots, "how many of its tasks run at a time")
	f.StringSliceVar(&b.cases, "cases", nil, "`CASES` beside "+load.Solo+", of "+strings.Join(names[1:], ",")+"; all when not set")
	check := func() error {
		if b.neighbourTasks < 1 || b.neighbourTasks > load.TasksMax {
			return fmt.Errorf("--tasks %d: want 1 to %d", b.neighbourTasks, load.TasksMax)
		}
		return errors.Join(checkCases(b.cases, names), b.Validate())
	}
	return a.measuring(c, check, func(ctx context.Context) error { return a.isolate(ctx, &b) })
}

// isolate measures the cases.
func (a *app) isolate(ctx context.Context, b *isolationFlags) error {
	var rows load.Isolations
	var solo load.Report
	for _, c := range load.Cases() {
		if c.Name != load.Solo && len(b.cases) > 0 && !slices.Contains(b.cases, c.Name) {
			continue
		}
		tasks := 0
		if c.Tasks != nil {
			tasks = c.Tasks(b.neighbourTasks)
		}
		var r load.Report
		err := a.on(ctx, c.Name, func(s *load.Server) (err error) {
			r, err = a.beside(ctx, s, b, c, tasks)
			return err
		})
		if err != nil {
			return fmt.Errorf("case %s: %w", c.Name, err)
		}
		if c.Name == load.Solo {
			solo = r
		}
		rows = append(rows, load.IsolationOf(c, tasks, &r, &solo))
		a.note(fmt.Sprintf("%s: p50 %.1f ms, p99 %.1f ms", c.Name, r.LatenessP50, r.LatenessP99))
	}
	return a.print(rows, nil)
}

// beside measures one case, beside a neighbour if the case has one.
func (a *app) beside(ctx context.Context, s *load.Server, b *isolationFlags, c load.Case, tasks int) (r load.Report, err error) {
	config := b.Config
	config.Server, config.Lambda, config.Ahead = s, newLambda("measured"), measureBefore-measuredBefore
	config.Keep = !a.given // the data of a server of its own is deleted with it
	if c.Behaviour == load.HotKey {
		config.LimitKeys, config.Concurrency = load.HotKeyOthers, load.HotKeyConcurrency
	}
	if c.Tasks != nil {
		each := neighbourAheadPerTask + time.Duration(c.PayloadBytes)*neighbourAheadPerByte
		due := time.Now().Add(neighbourAhead + measureBefore + time.Duration(tasks)*each).Truncate(time.Millisecond)
		lambda := config.Lambda
		if c.Behaviour != load.HotKey {
			lambda = strings.Replace(lambda, "measured", "neighbour", 1)
		}
		var end func()
		if end, err = a.startNeighbour(ctx, lambda, b, c, tasks, due); err != nil {
			return r, err
		}
		defer func() {
			end()
			if a.given && lambda != config.Lambda {
				_, deleteErr := admin.New(s.Client).Lambdas.Delete(ctx, lambda, admin.LambdaDeleteOptions{DropTasks: true})
				err = errors.Join(err, deleteErr)
			}
		}()
		if err := clock.Sleep(ctx, clock.Real(), time.Until(due.Add(-measureBefore))); err != nil {
			return r, err
		}
	}
	return load.Run(ctx, config)
}

// startNeighbour schedules the neighbour's tasks and starts its workers, in a process of their own that is
// started again when a task has ended it. The function that it returns ends them.
func (a *app) startNeighbour(ctx context.Context, lambda string, b *isolationFlags, c load.Case, tasks int, due time.Time) (end func(), err error) {
	args := []string{
		"neighbour", "--lambda", lambda, "--tasks", strconv.Itoa(tasks), "--payload-bytes", strconv.Itoa(c.PayloadBytes),
		"--workers", strconv.Itoa(b.neighbourSlots), "--behaviour", string(c.Behaviour),
	}
	args = append(args, a.serverArgs()...)
	ctx, cancel := context.WithCancel(ctx)
	first, err := a.neighbourProcess(ctx, append(args, "--due", due.Format(time.RFC3339Nano)))
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = first.Wait() // a task has ended it, or end has
		for range neighbourStartsMax {
			if clock.Sleep(ctx, clock.Real(), neighbourRestartPause) != nil {
				return
			}
			again, err := a.neighbourProcess(ctx, args)
			if err != nil {
				return
			}
			_ = again.Wait()
		}
	}()
	return func() {
		cancel()
		<-ended
	}, nil
}

// serverArgs returns the flags with which another process of this program calls the same servers.
func (a *app) serverArgs() (args []string) {
	for _, f := range [][2]string{
		{"--server", a.conn.Server},
		{"--token-file", a.conn.TokenFile},
		{"--tls-ca-file", a.conn.CAFile},
		{"--tls-client-cert-file", a.conn.CertFile},
		{"--tls-client-key-file", a.conn.KeyFile},
		{"--payload-key-file", a.conn.PayloadKeyFile},
	} {
		if f[1] != "" {
			args = append(args, f[:]...)
		}
	}
	return args
}

// neighbourProcess starts a process, and waits until it has scheduled what it is told to.
func (a *app) neighbourProcess(ctx context.Context, args []string) (*exec.Cmd, error) {
	c, out, err := a.startOwn(ctx, io.Discard, args)
	if err != nil {
		return nil, fmt.Errorf("start a neighbour: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != neighbourReady {
		return nil, errors.Join(fmt.Errorf("the neighbour ended before it had scheduled its tasks: %q", line), c.Process.Kill(), c.Wait())
	}
	return c, nil
}

// neighbour is the process of a neighbour: it schedules tasks if it is told when they are due, says that it
// is ready, and works until it is ended.
func (a *app) neighbour() *cobra.Command {
	n := load.Neighbour{Die: func() { os.Exit(exitFailed) }}
	var due, behaviour string
	c := &cobra.Command{Use: "neighbour", Short: "Misbehave", Hidden: true}
	f := c.Flags()
	f.StringVar(&n.Lambda, "lambda", "neighbour", "lambda of the tasks")
	f.IntVar(&n.Tasks, "tasks", 0, "tasks")
	f.IntVar(&n.PayloadBytes, "payload-bytes", 0, "size of a payload")
	f.IntVar(&n.Slots, "workers", 1, "how many tasks run at a time")
	f.StringVar(&behaviour, "behaviour", string(load.Idle), "what workers do")
	f.StringVar(&due, "due", "", "when the tasks are due; no tasks when not set")
	check := func() (err error) {
		n.Behaviour = load.Behaviour(behaviour)
		if due != "" {
			n.Due, err = time.Parse(time.RFC3339Nano, due)
		}
		return err
	}
	return a.calling(c, check, func(ctx context.Context) error {
		return a.call(func(s *load.Server) error {
			n.Client = s.Client
			if due != "" {
				if err := n.Schedule(ctx); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(a.stdout, neighbourReady); err != nil {
				return err
			}
			return n.Work(ctx)
		})
	})
}
