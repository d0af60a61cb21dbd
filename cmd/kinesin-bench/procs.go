package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/cmd/kinesin-bench/load"
	"github.com/kinesin-io/kinesin/sdk"
)

// startBytes is what a process writes for each start: the number of the task, and when it started, in microseconds.
const startBytes = 16

// startProcess starts a process of workers with one slot each.
func (a *app) startProcess(ctx context.Context, lambda string, workers int, started func([]byte, time.Time)) (stop func() (time.Duration, error), err error) {
	args := append([]string{"process", "--lambda", lambda, "--workers", fmt.Sprint(workers)}, a.serverArgs()...)
	c, out, err := a.startOwn(context.WithoutCancel(ctx), a.stderr, args)
	if err != nil {
		return nil, fmt.Errorf("start a process of workers: %w", err)
	}
	var reading errgroup.Group
	reading.Go(func() error {
		in, one := bufio.NewReader(out), make([]byte, startBytes)
		for {
			if _, err := io.ReadFull(in, one); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			started(one[:8], time.UnixMicro(int64(binary.LittleEndian.Uint64(one[8:]))))
		}
	})
	return func() (time.Duration, error) {
		_, err := terminate(c.Process)
		err = errors.Join(err, reading.Wait())
		_ = c.Wait() // it says that the process was told to end
		return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), err
	}, nil
}

// process is a process of workers with one slot each.
func (a *app) process() *cobra.Command {
	var lambda string
	var workers int
	c := &cobra.Command{Use: "process", Short: "Work in a process of its own", Hidden: true}
	c.Flags().StringVar(&lambda, "lambda", "", "lambda of the tasks")
	c.Flags().IntVar(&workers, "workers", 1, "how many workers")
	return a.calling(c, func() error { return nil }, func(ctx context.Context) error {
		return a.call(func(s *load.Server) error {
			var mu sync.Mutex
			var running errgroup.Group
			for range workers {
				w := sdk.NewWorker(s.Client, sdk.Slots(1), sdk.Grace(time.Second))
				sdk.NewLambda[[]byte](lambda).Handle(w, func(_ context.Context, t *sdk.Task[[]byte]) error {
					one := binary.LittleEndian.AppendUint64(t.Args[:8:8], uint64(time.Now().UnixMicro()))
					mu.Lock()
					defer mu.Unlock()
					_, err := a.stdout.Write(one)
					return err
				})
				running.Go(func() error { return w.Run(ctx) })
			}
			return running.Wait()
		})
	})
}
