package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
	"github.com/kinesin-io/kinesin/internal/bench"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/sdk"
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
	bench.Config

	data           string
	cases          []string
	neighbourTasks int
	neighbourSlots int
	serverGiven    bool
}

func (a *app) benchIsolationCommand() *cobra.Command {
	b := isolationFlags{Config: bench.Config{Kind: bench.Steady, Rate: 200, Duration: 20 * time.Second, Slots: 100, PayloadBytes: 100, Batch: 1000, Keep: true}}
	var names []string
	for _, c := range bench.Cases() {
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
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.VarP(whole(&b.neighbourTasks, 1_000_000), "tasks", "n", "tasks of the neighbour at most; some cases have fewer")
	f.Var(whole(&b.neighbourSlots, 100), "neighbour-workers", "how many of the neighbour's tasks run at a time")
	f.Var(number(&b.Rate, b.Rate), "rate", "tasks per second of the lambda that is measured")
	f.Var(durationValue{d: &b.Duration, min: time.Second}, "duration", "time from its first due time to the last")
	f.Var(whole(&b.Slots, b.Slots), "workers", "how many of its tasks run at a time")
	f.StringSliceVar(&b.cases, "cases", nil, "`CASES` beside "+bench.Solo+", of "+strings.Join(names[1:], ",")+"; all when not set")
	f.StringVar(&b.data, "data", "", "`DIR` that gets a directory of data for each case; they are kept")
	a.serverFlag(f)
	return a.acting(c, func(ctx context.Context, _ []string) error {
		b.serverGiven = f.Changed("server")
		for _, name := range b.cases {
			if !slices.Contains(names, name) {
				return usagef("--cases %s: want any of %s", name, strings.Join(names, ", "))
			}
		}
		if b.neighbourTasks < 1 || b.neighbourTasks > bench.TasksMax {
			return usagef("--tasks %d: want 1 to %d", b.neighbourTasks, bench.TasksMax)
		}
		if err := b.Validate(); err != nil {
			return usagef("%v", err)
		}
		return a.benchIsolation(ctx, &b)
	})
}

func (a *app) benchIsolation(ctx context.Context, b *isolationFlags) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	var rows []bench.Isolation
	var solo bench.Report
	for _, c := range bench.Cases() {
		if c.Name != bench.Solo && len(b.cases) > 0 && !slices.Contains(b.cases, c.Name) {
			continue
		}
		tasks := 0
		if c.Tasks != nil {
			tasks = c.Tasks(b.neighbourTasks)
		}
		r, err := a.benchCase(ctx, b, c, tasks)
		if err != nil {
			return fmt.Errorf("case %s: %w", c.Name, err)
		}
		if c.Name == bench.Solo {
			solo = r
		}
		rows = append(rows, bench.IsolationOf(c, tasks, &r, &solo))
		a.note("%s: p50 %.1f ms, p99 %.1f ms", c.Name, r.LatenessP50, r.LatenessP99)
	}
	if a.json() {
		return printJSON(a.Stdout, rows)
	}
	return bench.PrintIsolation(a.Stdout, rows)
}

// benchCase measures one case on a new server, or on those that --server names.
func (a *app) benchCase(ctx context.Context, b *isolationFlags, c bench.Case, tasks int) (r bench.Report, err error) {
	data := b.data
	if data != "" {
		data = filepath.Join(data, c.Name)
	}
	err = a.onServer(ctx, data, b.serverGiven, func() error {
		r, err = a.benchBeside(ctx, b, c, tasks)
		return err
	})
	return r, err
}

// benchBeside measures one case on the server that a.server names, beside a neighbour if the case has one.
func (a *app) benchBeside(ctx context.Context, b *isolationFlags, c bench.Case, tasks int) (r bench.Report, err error) {
	config := b.Config
	config.Lambda, config.Ahead = benchLambda("measured"), measureBefore-measuredBefore
	config.Keep = !b.serverGiven // the data of a server of its own is deleted with it
	if c.Behaviour == bench.HotKey {
		config.LimitKeys, config.LimitKeyConcurrency = bench.HotKeyOthers, bench.HotKeyConcurrency
	}
	if c.Tasks != nil {
		each := neighbourAheadPerTask + time.Duration(c.PayloadBytes)*neighbourAheadPerByte
		due := time.Now().Add(neighbourAhead + measureBefore + time.Duration(tasks)*each).Truncate(time.Millisecond)
		lambda := config.Lambda
		if c.Behaviour != bench.HotKey {
			lambda = strings.Replace(lambda, "measured", "neighbour", 1)
		}
		end, err := a.startNeighbour(ctx, lambda, b, c, tasks, due)
		if err != nil {
			return r, err
		}
		defer func() {
			end()
			if b.serverGiven && lambda != config.Lambda {
				err = errors.Join(err, a.deleteNeighbour(ctx, lambda))
			}
		}()
		if err := clock.Sleep(ctx, clock.Real(), time.Until(due.Add(-measureBefore))); err != nil {
			return r, err
		}
	}
	err = a.withClients(func(k *sdk.Client, metrics dial.Clients) error {
		config.Client, config.ServerCPU = k, bench.ServerCPU(metrics.Calls, metrics.Base)
		r, err = bench.Run(ctx, config)
		return err
	})
	return r, err
}

// deleteNeighbour deletes a neighbour's lambda with its tasks.
func (a *app) deleteNeighbour(ctx context.Context, lambda string) error {
	return a.withClient(func(k *sdk.Client) error {
		_, err := k.DeleteLambda(ctx, lambda, true)
		return err
	})
}

// startNeighbour schedules the neighbour's tasks and starts its workers, in a process of their own that is
// started again when a task has ended it. The function that it returns ends them.
func (a *app) startNeighbour(ctx context.Context, lambda string, b *isolationFlags, c bench.Case, tasks int, due time.Time) (end func(), err error) {
	args := []string{
		"bench", "neighbour", "--lambda", lambda, "--tasks", strconv.Itoa(tasks), "--payload-bytes", strconv.Itoa(c.PayloadBytes),
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
		{"--server", a.server},
		{"--token-file", a.tokenFile},
		{"--tls-ca-file", a.caFile},
		{"--tls-client-cert-file", a.certFile},
		{"--tls-client-key-file", a.keyFile},
		{"--payload-key-file", a.payloadKeys},
	} {
		if f[1] != "" {
			args = append(args, f[:]...)
		}
	}
	return args
}

// neighbourProcess starts a process, and waits until it has scheduled what it is told to.
func (a *app) neighbourProcess(ctx context.Context, args []string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, args...) //nolint:gosec // this program itself
	c.Env, c.Stderr, c.SysProcAttr = withoutOurs(a.Env), io.Discard, executor.OwnGroup()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a neighbour: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != neighbourReady {
		return nil, errors.Join(fmt.Errorf("the neighbour ended before it had scheduled its tasks: %q", line), c.Process.Kill(), c.Wait())
	}
	return c, nil
}

// benchNeighbourCommand is the process of a neighbour: it schedules tasks if it is told when they are due,
// says that it is ready, and works until it is ended.
func (a *app) benchNeighbourCommand() *cobra.Command {
	n := bench.Neighbour{Die: func() { os.Exit(exitFailed) }}
	var due, behaviour string
	c := &cobra.Command{Use: "neighbour", Short: "Misbehave", Args: cobra.NoArgs, Hidden: true}
	f := c.Flags()
	f.StringVar(&n.Lambda, "lambda", "neighbour", "lambda of the tasks")
	f.Var(whole(&n.Tasks, 0), "tasks", "tasks")
	f.Var(whole(&n.PayloadBytes, 0), "payload-bytes", "size of a payload")
	f.Var(whole(&n.Slots, 1), "workers", "how many tasks run at a time")
	f.StringVar(&behaviour, "behaviour", string(bench.Idle), "what workers do")
	f.StringVar(&due, "due", "", "when the tasks are due; no tasks when not set")
	a.serverFlag(f)
	return a.acting(c, func(ctx context.Context, _ []string) error {
		n.Behaviour = bench.Behaviour(behaviour)
		return a.withClient(func(k *sdk.Client) error {
			n.Client = k
			if due != "" {
				at, err := time.Parse(time.RFC3339Nano, due)
				if err != nil {
					return usagef("--due: %v", err)
				}
				n.Due = at
				if err := n.Schedule(ctx); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(a.Stdout, neighbourReady); err != nil {
				return err
			}
			return n.Work(ctx)
		})
	})
}
