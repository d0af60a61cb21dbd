package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target"
	"github.com/kinesin-io/kinesin/target/httptarget"
	"github.com/kinesin-io/kinesin/task"
)

// workByHTTP calls a URL for each task until a signal or the end of ctx, then drains the worker.
func (a *app) workByHTTP(ctx context.Context, flags *workerFlags) error {
	secrets, err := secretsIn(flags.secretFile)
	if err != nil {
		return usagef("--http-secret-file: %v", err)
	}
	calls := httptarget.NewClient(httptarget.Config{Clock: clock.Real(), Version: a.version()})
	defer calls.Close()
	runner, err := calls.Runner(task.Target{URL: flags.url, Secrets: secrets})
	if err != nil {
		return usagef("--http: %v", err)
	}
	k, err := a.client(sdk.WithLogger(flags.log.logger(a.Stderr)), target.TimesCalls())
	if err != nil {
		return err
	}
	defer k.Close()
	killed, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	ctx, stop := drainOnSignal(ctx, kill)
	defer stop()
	o := newObserver(flags.log.sayer(a))
	handle := func(ctx context.Context, t *sdk.Task[[]byte]) error {
		ctx, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(killed, end)()
		err := runner.Run(ctx, t)
		if err != nil && killed.Err() != nil {
			return sdk.Snooze(0) // the call did not fail
		}
		return err
	}
	held := func(worker string, _ time.Duration) { o.held(worker, flags.lambdas, a.conn.Server) }
	return a.conn.Explain(o.run(ctx, k, flags, handle, held))
}

// secretFileBytesMax bounds a file of secrets.
const secretFileBytesMax = 4 << 10

// secretsIn reads the secrets in a file, one on each line; none if it has no name. Errors do not quote it.
func secretsIn(file string) (secrets [][]byte, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(string(text[:min(len(text), secretFileBytesMax)]))
	if len(lines) == 0 || len(lines) > task.TargetSecretsMax {
		return nil, fmt.Errorf("%s has %d secrets: want 1 to %d, each on a line", file, len(lines), task.TargetSecretsMax)
	}
	for i, line := range lines {
		secret, err := task.ParseTargetSecret(line)
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", i+1, file, err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}
