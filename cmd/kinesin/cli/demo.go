package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/server"
)

const (
	demoLambda = "demo"
	// demoFlaky is the prefix of the payloads of tasks that fail twice.
	demoFlaky = "flaky"
	demoMax   = 30 * time.Second // until the tasks have ended
)

func (a *app) demoCommand() *cobra.Command {
	var config server.Config
	var once bool
	log := logFlags{level: "warn"}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a server, a worker and a few tasks, to watch",
		Long: `Starts a server with a lambda, a worker and a few tasks, shows them run, says what to try next, and serves until Ctrl-C. The
data directory is kept.`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&config.DataDir, "data", server.DataDirDefault, "`DIR` of the store; created if it does not exist")
	f.StringVar(&config.Listen, "listen", server.ListenDefault, "`HOST:PORT` to listen on, on loopback; port 0 means a free one")
	f.BoolVar(&once, "once", false, "exit when the tasks have ended")
	settings.Mark(f, "data", "listen")
	log.add(f)
	a.acting(c, func(ctx context.Context, _ []string) error {
		config.Log, config.Version = log.logger(a.Stderr), a.version()
		return a.demo(ctx, config, once)
	})
	f.Lookup("output").Hidden = true // the output is for people
	return c
}

// demo runs a server, a worker in the same process that calls it over its port, and the show.
func (a *app) demo(ctx context.Context, config server.Config, once bool) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	s, err := newServer(ctx, config)
	if err != nil {
		return err
	}
	if err := a.printServer(s); err != nil {
		return err
	}
	a.conn.Server = s.URL()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	g, groupCtx := errgroup.WithContext(serving)
	g.Go(func() error { return s.Run(serving) })
	g.Go(func() error {
		defer stopServing() // last, after the worker has drained
		return a.withClient(func(k *sdk.Client) error {
			d := &demo{app: a, client: k, once: once}
			return d.run(ctx, groupCtx)
		}, sdk.WithLogger(config.Log))
	})
	return g.Wait()
}

// demo is the worker and the show.
type demo struct {
	*app

	client *sdk.Client
	once   bool

	mu sync.Mutex // one line at a time
}

// run runs the worker and the show until ctx or the server ends.
func (d *demo) run(ctx, serving context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(serving, stop)()
	if err := admin.New(d.client).Lambdas.Ensure(ctx, sdk.NewLambda[[]byte](demoLambda), admin.Lambda{
		MaxAttempts: 5, Timeout: 10 * time.Second, BackoffMin: 200 * time.Millisecond, BackoffMax: time.Second,
	}); err != nil {
		return err
	}
	w := sdk.NewWorker(d.client, sdk.Slots(8), sdk.Grace(time.Second))
	w.Register(demoLambda, d.handle)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error {
		if err := d.show(ctx); err != nil || d.once {
			stop()
			return err
		}
		return nil
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// handle prints that a task runs. A flaky task fails twice.
func (d *demo) handle(_ context.Context, t *sdk.Task[[]byte]) error {
	late := float64(time.Since(t.Due).Microseconds()) / 1000
	flaky := strings.HasPrefix(string(t.Payload), demoFlaky)
	what := fmt.Sprintf("%q, attempt %d", t.Payload, t.Attempt)
	if t.Attempt == 1 {
		what += fmt.Sprintf(", %.1f ms late", late)
	}
	if flaky && t.Failures < 2 {
		d.say("%s: fails, and will be tried again", what)
		return errors.New("flaky tasks fail twice")
	}
	d.say("%s: success", what)
	return nil
}

func (d *demo) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.Stdout, time.Now().Format("15:04:05.000")+"  "+format+"\n", args...)
}

// show schedules tasks, waits until they have ended, and prints what to try next.
func (d *demo) show(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoMax)
	defer cancel()
	fmt.Fprintf(d.Stdout, "\nFour tasks of the lambda %q, whose worker runs in this process:\n", demoLambda)
	var ids []sdk.ID
	for _, item := range []sdk.Item{
		{Payload: []byte("due now")},
		{Payload: []byte("due in 2 s"), In: 2 * time.Second},
		{Payload: []byte(demoFlaky + " task, due in 1 s"), In: time.Second},
		{Payload: []byte("cancelled before its time"), In: 3 * time.Second},
	} {
		item.Lambda = demoLambda
		r, err := d.client.Schedule(ctx, item)
		if err != nil {
			return err
		}
		ids = append(ids, r.ID)
		d.say("scheduled %q", item.Payload)
	}
	last := ids[len(ids)-1]
	outcome, err := d.client.Cancel(ctx, last)
	if err != nil {
		return err
	}
	d.say("asked to cancel the last one: %s", outcome)
	results, err := d.client.Wait(ctx, ids...)
	if err != nil {
		return err
	}
	return d.sum(results)
}

func (d *demo) sum(results []sdk.GetResult) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	row := listTable(d.Stdout, false, false)
	fmt.Fprintf(d.Stdout, "\nHow they ended:\n")
	for i := range results {
		if results[i].Err != nil {
			return results[i].Err
		}
		if err := row(over(d.client).Task(&results[i])); err != nil {
			return err
		}
	}
	if d.once {
		return nil
	}
	where := ""
	if d.conn.Server != settings.ServerDefault {
		where = "export KINESIN_SERVER=" + d.conn.Server + "\n  "
	}
	console := d.conn.Server + "/ui/"
	_, err := fmt.Fprint(d.Stdout, strings.NewReplacer("CONSOLE", console, "PROGRAM", programName(), "WHERE", where, "ID", string(results[0].Task.ID)).Replace(demoNext))
	return err
}

// programName returns the name by which a shell finds this program.
func programName() string {
	if _, err := exec.LookPath("kinesin"); err != nil {
		return os.Args[0]
	}
	return "kinesin"
}

const demoNext = `
See it in a browser: CONSOLE

Try next, in another terminal (this server and its worker run until Ctrl-C):

  WHEREPROGRAM schedule demo --in 5s --payload "hello from me"      # watch it run here
  PROGRAM get ID
  PROGRAM list demo

  PROGRAM lambda create greet
  PROGRAM worker --lambda greet -- sh -c 'echo "hello $(cat), attempt $KINESIN_ATTEMPT"'

and in a third:

  PROGRAM wait "$(PROGRAM schedule greet --payload Ada)"

`
