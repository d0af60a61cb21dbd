package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// exitFatal is the exit code of a command for a failure that no retry can mend: EX_DATAERR of sysexits.h.
const exitFatal = 65

const (
	graceDefault       = 25 * time.Second
	leaseDefault       = 15 * time.Second
	leaseMin, leaseMax = 3 * time.Second, time.Hour
	concurrencyMax     = 10_000
	// reportWithin is how long reaping and reporting killed commands may take.
	reportWithin = 5 * time.Second
)

// workerFlags are the flags of worker.
type workerFlags struct {
	lambdas      []string
	concurrency  int
	lease, grace time.Duration
	name         string
	version      string
	env          []string // nil: all
	url          string   // to call instead of running a command
	secretFile   string   // of what signs the calls
	log          logFlags
}

func (a *app) workerCommand() *cobra.Command {
	w := workerFlags{concurrency: 1, lease: leaseDefault, grace: graceDefault}
	w.log.level = "warn"
	c := &cobra.Command{
		Use:   "worker --lambda L… [flags] {-- CMD ARG… | --http URL}",
		Short: "Run a command, or call a URL, for each task",
		Long:  workerLong,
		Example: `  kinesin worker --lambda greet -- sh -c 'echo "hello $(cat), attempt $KINESIN_ATTEMPT"'
  kinesin worker --lambda resize,crop --concurrency 4 -- python3 images.py
  kinesin worker --lambda mail --http http://127.0.0.1:8080/tasks`,
	}
	w.add(c.Flags())
	c.RunE = does(func(ctx context.Context, command []string) error {
		if err := w.check(command, c.ArgsLenAtDash()); err != nil {
			return err
		}
		if w.url != "" {
			return a.workByHTTP(ctx, &w)
		}
		return a.work(ctx, &w, command)
	})
	a.conn.AddTo(c.Flags())
	return c
}

const workerLong = `Runs CMD for each task of the lambdas, with the payload on stdin. It has these variables:

  KINESIN_TASK_ID, KINESIN_LAMBDA, KINESIN_PRIORITY, KINESIN_COLLECTION, KINESIN_KEY, KINESIN_TAGS (JSON)
  KINESIN_ATTEMPT        the fencing number, which rises with each attempt; KINESIN_FAILURES: attempts that failed before
  KINESIN_DUE            RFC 3339; KINESIN_DEADLINE: when this attempt times out
  KINESIN_CRON           the cron that scheduled the task; KINESIN_NOMINAL, KINESIN_PREVIOUS_SUCCESS: nominal times
  KINESIN_PARENT         the task that this one follows; KINESIN_PARENT_LAMBDA, _STATE, _ERROR, _RESULT or _RESULT_BASE64
                         of that task; KINESIN_EDGE: then, else or finally; KINESIN_CHAIN: the id of the chain
  KINESIN_GROUP          how the group ended that the task follows (JSON)
  KINESIN_TRACEPARENT    the trace context, also TRACEPARENT
  KINESIN_WORKER         the id of this worker's lease
  KINESIN_SERVER         the server, for a kinesin schedule in CMD; also KINESIN_TLS_CA_FILE
  KINESIN_OUTCOME_FILE   a file that CMD may write, see below

CMD inherits the worker's other variables, but none that begins with KINESIN_: it has neither the worker's token nor the name
of its file. With --env A,B it inherits only those.

Exit code 0 is success, 65 (EX_DATAERR) a failure that no retry can mend. After any other exit code or a signal the task is tried
again with backoff. The last 1,024 bytes of stderr are kept as the error; stdout and stderr are passed on.

CMD says more with one of these objects in the file, which counts when CMD exits, and success only with exit code 0. A file that
cannot be read, or above 36 KiB, is a failure that is retried:

  {"outcome":"snooze","delay":"90s"}          run the task again later; no failure
  {"outcome":"release"}                       give the task back to its queue; no failure
  {"outcome":"fatal","error":"no such user"}  no retry can mend it
  {"outcome":"success","result":{"n":42}}     any JSON of at most 32 KiB
  {"outcome":"success","then":[{"lambda":"ship","payload":"42"}]}  these tasks follow, as with schedule --then

When CMD exits, the rest of its process group is killed. On a timeout or a cancel the group gets SIGTERM, and SIGKILL 2 s later;
when the lease is lost, SIGKILL at once. A guard process sees to it that no command outlives this worker or its lease.

SIGTERM and Ctrl-C drain the worker: it takes no more tasks and waits for commands, for --grace at most; those that still run get
SIGTERM shortly before, then SIGKILL, and their tasks go back, which is no failure. A second signal kills them at once.

With --http it runs no command: it sends the payload to a URL, as the target of a lambda is called (kinesin lambda create
--target). Answers of 2xx are success, with up to 32 KiB of the body as the result; 408, 425, 429, 5xx and no answer are tried
again; others are failures that no retry can mend. Any address may be called.

Exit 1 when the lease was lost while commands ran, or the server refuses the worker: run it under a supervisor. Exit 2 when CMD
cannot be found.`

func (w *workerFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&w.lambdas, "lambda", nil, "`NAMES` of the lambdas whose tasks to run; required, may be repeated")
	f.Var(intValue{&w.concurrency, 1, concurrencyMax}, "concurrency", "how many tasks run at a time")
	f.Var(durationValue{&w.lease, leaseMin, leaseMax}, "lease", "time without a heartbeat after which the tasks start elsewhere; 3s to 1h")
	f.Var(durationValue{d: &w.grace}, "grace", "how long a drain may take")
	f.StringVar(&w.name, "name", "", "name of the worker in attempts; host name and process id when not set")
	f.StringVar(&w.version, "worker-version", "", "version of the command in attempts, such as 2.4.1; none when not set")
	f.StringSliceVar(&w.env, "env", nil, "`NAMES` of variables that the command inherits; all but KINESIN_… when not set")
	f.StringVar(&w.url, "http", "", "`URL` to call for each task, in place of a command; words: {key}, {tag.NAME}")
	f.StringVar(&w.secretFile, "http-secret-file", "", "`FILE` of one or two lines whsec_BASE64, which sign the calls as Standard Webhooks does")
	settings.Mark(f, "lambda", "concurrency", "lease", "grace", "name", "worker-version", "env", "http", "http-secret-file")
	w.log.add(f)
}

func (w *workerFlags) check(command []string, dash int) error {
	switch {
	case len(w.lambdas) == 0:
		return usagef("--lambda is missing: it names the lambdas whose tasks to run")
	case dash > 0:
		return usagef("%q stands before --: want flags before it, and the command after it", command[0])
	case w.url != "" && len(command) > 0:
		return usagef("--http %s and a command: want one of them", w.url)
	case w.url != "" && w.env != nil:
		return usagef("--env is for commands: it does not go with --http")
	case w.url == "" && w.secretFile != "":
		return usagef("--http-secret-file without --http: it signs calls of a URL")
	case w.url != "":
	case len(command) == 0 || command[0] == "":
		return usagef("the command is missing: put it after --, such as: kinesin worker --lambda greet -- cat; or name a URL with --http")
	}
	for _, name := range w.env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return usagef("--env: %q is no name of a variable: want names such as PATH,HOME, whose values come from the environment of the worker", name)
		}
	}
	seen := map[string]bool{}
	for _, name := range w.lambdas {
		if err := task.CheckName("lambda", name); err != nil {
			return usagef("--lambda: %v", err)
		}
		if seen[name] {
			return usagef("--lambda: %s is named twice", name)
		}
		seen[name] = true
	}
	return nil
}

// termToKill returns the part of the grace between SIGTERM and SIGKILL.
func (w *workerFlags) termToKill() time.Duration { return min(executor.TermToKillMax, w.grace/4) }

// work runs commands until a signal or the end of ctx, then drains the worker.
func (a *app) work(ctx context.Context, flags *workerFlags, command []string) (err error) {
	k, err := a.client(sdk.WithLogger(flags.log.logger(a.Stderr)))
	if err != nil {
		return err
	}
	defer k.Close()
	outcomes, err := newOutcomeFiles()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, outcomes.Close()) }()
	guard, err := a.startGuard(outcomes.dir)
	if err != nil {
		return err
	}
	e, err := executor.New(executor.Config{
		Command: command, Env: a.Env, Only: flags.env, Ours: a.reachable(), Stdout: a.stdout, Stderr: a.stderr,
		TermToKill: flags.termToKill(), AtOnce: leftToOthers, Guard: guard,
	})
	if err != nil {
		return errors.Join(usagef("%v", err), guard.Close())
	}
	err = runCommands(ctx, k, a.conn.Server, flags, &commands{Executor: e, outcomes: outcomes, observer: newObserver(flags.log.sayer(a))}, guard)
	return errors.Join(a.conn.Explain(err), guard.Close())
}

// reachable returns the variables by which a command finds the server. The token is not among them: what a
// worker may do is more than what a command needs.
func (a *app) reachable() []string {
	ours := []string{settings.EnvName("server") + "=" + a.conn.Server}
	if a.conn.CAFile != "" {
		ours = append(ours, settings.EnvName("tls-ca-file")+"="+a.conn.CAFile)
	}
	return ours
}

// startGuard starts the guard, which removes the outcome files if this process cannot.
func (a *app) startGuard(outcomesDir string) (*executor.Guard, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start the guard: %w", err)
	}
	return executor.StartGuard(a.stderr, program, guardName, outcomesDir)
}

// commands runs the tasks of one worker.
type commands struct {
	*executor.Executor
	*observer

	outcomes *outcomeFiles
	fail     context.CancelCauseFunc // ends the worker
}

// observer says what becomes of a worker.
type observer struct {
	say func(format string, args ...any)

	worker atomic.Pointer[string] // the id of the newest lease
	broken atomic.Bool            // the stream of tasks broke, and the server has not answered since

	mu    sync.Mutex
	ended map[string]int64 // attempts, by outcome
}

func newObserver(say func(format string, args ...any)) *observer {
	return &observer{say: say, ended: map[string]int64{}}
}

// leftToOthers reports whether an attempt was stopped because its task may run elsewhere.
func leftToOthers(cause error) bool {
	return errors.Is(cause, sdk.ErrLeaseLost) || errors.Is(cause, sdk.ErrFenced)
}

// unguarded ends the worker when its guard is gone.
func (c *commands) unguarded(err error) {
	if errors.Is(err, executor.ErrGuard) {
		c.KillAll()
		c.fail(err)
	}
}

// held notes the lease of the worker, and says when it is a new one or the server answers again.
func (o *observer) held(worker string, lambdas []string, server string) {
	before, again := o.worker.Swap(&worker), o.broken.Swap(false)
	switch {
	case before == nil:
		o.say("registered for %s at %s", strings.Join(lambdas, ", "), server)
	case *before != worker:
		o.say("registered again at %s", server)
	case again:
		o.say("connected again to %s", server)
	}
}

// count counts an attempt that has ended.
func (o *observer) count(_ *sdk.Work, how sdk.Outcome, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended[string(how)]++
}

func runCommands(ctx context.Context, k *sdk.Client, server string, flags *workerFlags, c *commands, guard *executor.Guard) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c.fail = fail
	ctx, stop := drainOnSignal(ctx, c.KillAll)
	defer stop()
	held := func(worker string, left time.Duration) {
		c.unguarded(guard.HoldsFor(left))
		c.held(worker, flags.lambdas, server)
	}
	err := c.run(ctx, k, flags, c.handle, held)
	if cause := context.Cause(ctx); errors.Is(cause, executor.ErrGuard) {
		return errors.Join(cause, err)
	}
	return err
}

// run runs a worker with one handler for all its lambdas, until ctx ends.
func (o *observer) run(ctx context.Context, k *sdk.Client, flags *workerFlags, handle sdk.Handler, held func(worker string, left time.Duration)) error {
	options := []sdk.WorkerOption{
		sdk.Slots(flags.concurrency), sdk.Version(flags.version), sdk.Lease(flags.lease),
		sdk.Observe(sdk.Hooks{LeaseHeld: held, Broken: func(error) { o.broken.Store(true) }, Ended: o.count}),
		sdk.Grace(flags.grace - flags.termToKill()), sdk.KillAfter(flags.termToKill() + reportWithin),
	}
	if flags.name != "" {
		options = append(options, sdk.Name(flags.name))
	}
	w := sdk.NewWorker(k, options...)
	for _, name := range flags.lambdas {
		w.Register(name, handle)
	}
	err := w.Run(ctx)
	if err == nil { // the worker has left, so nothing is counted any more
		o.say("stopped: %s; what waits starts when a worker for %s runs again", cmp.Or(outcomesText(o.ended), "no task ran"), strings.Join(flags.lambdas, ", "))
	}
	return err
}

// drainOnSignal ends its context at the first SIGTERM or Ctrl-C, and kills at the second.
func drainOnSignal(ctx context.Context, kill func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		act := []func(){cancel, kill}
		for _, do := range act {
			select {
			case <-signals:
				do()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

// handle runs the command for one attempt.
func (c *commands) handle(ctx context.Context, t *sdk.Task[[]byte]) error {
	facts := &executor.Task{Task: *t, AfterGroup: groupText(t.Group)}
	facts.Deadline, _ = ctx.Deadline()
	if worker := c.worker.Load(); worker != nil {
		facts.Worker = *worker
	}
	facts.OutcomeFile = c.outcomes.next()
	err := c.Run(ctx, facts)
	c.unguarded(err)
	said, wrong := takeOutcome(facts.OutcomeFile)
	if err != nil && c.Killed() {
		return sdk.Snooze(0) // the command did not fail
	}
	if said != nil && said.Kind == task.OutcomeSuccess && len(said.Result) > 0 {
		t.SetResult(json.RawMessage(said.Result)) // counts if the handler returns nil
	}
	if said == nil {
		return concluded(err, nil, wrong)
	}
	if said.Kind == task.OutcomeSuccess {
		t.Then(said.then...)
	}
	return concluded(err, &said.Outcome, wrong)
}

// concluded returns the handler's error for how a command ended, for what it wrote into its outcome file, nil
// for nothing, and for what is wrong with that file.
func concluded(err error, said *controller.Outcome, wrong error) error {
	exit, exited := errors.AsType[*executor.ExitError](err)
	exited = err == nil || exited && exit.Signal == 0
	switch {
	case exited && wrong != nil && err != nil:
		return fmt.Errorf("%w (%w)", wrong, err)
	case exited && wrong != nil:
		return wrong
	case exited && said != nil && said.Kind != task.OutcomeSuccess:
		return &sdkconfig.OutcomeError{Outcome: *said}
	case err != nil && exited && exit.Code == exitFatal:
		return sdk.Fatal(err)
	}
	return err
}

const guardName = "worker-guard"

// guardCommand runs the guard process that worker starts.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardName + " OUTCOMES",
		Short:  "Kill the commands of a dead or stopped worker (started by worker)",
		Hidden: true,
		Args:   one("OUTCOMES"),
		RunE: does(func(_ context.Context, args []string) error {
			return errors.Join(executor.RunGuard(a.Stdin), removeOutcomes(args[0]))
		}),
	}
}
