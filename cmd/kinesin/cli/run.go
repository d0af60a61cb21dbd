// Package cli is the command line of Kinesin: one subcommand in a file, results
// on stdout, everything else on stderr. It owns flags, the environment, the
// configuration file and exit codes; it talks to a server only over the wire
// contract, starts one through package server, and runs workers through package sdk.
// It holds no rules of its own about tasks.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1 // the command was understood and did not succeed
	exitUsage  = 2 // the command line, the environment or the configuration file is wrong
	// exitSetup is a failure that lasts until somebody changes something on AWS, in Kubernetes or on this
	// machine: tables, queues, credentials, permissions, region, the pod's identity, clock.
	exitSetup = 3
)

// Process is what a run has of the process around it.
type Process struct {
	Args    []string // without the program's name
	Env     []string // NAME=value
	Version string   // empty: what the build information says
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// Run carries out one command line and returns the exit code. Long-running
// commands also end, in order, when ctx does.
func Run(ctx context.Context, p Process) int {
	p.Stdout, p.Stderr = shareable(p.Stdout), shareable(p.Stderr)
	a := &app{Process: p}
	root := a.root()
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(cmd, err)
}

// shareable makes a writer fit for many writers at a time, child processes
// among them. A file is already, and they inherit it.
func shareable(w io.Writer) io.Writer {
	if _, isFile := w.(*os.File); isFile {
		return w
	}
	return &oneAtATime{w: w}
}

type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

// Write passes p on in one piece.
func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// app is one run of the program.
type app struct {
	Process
	output string
	server string // base URL

	tokenFile, caFile string // of the client; empty: none
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "kinesin",
		Version:       a.version(),
		Short:         "A durable scheduler of delayed tasks",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().String("config", "", "YAML `FILE` with settings (KINESIN_CONFIG)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.applySettings(cmd) }
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		a.serveCommand(), a.dataCommand(), a.awsCommand(), a.lambdaCommand(), a.inboundCommand(),
		a.scheduleCommand(), a.getCommand(), a.listCommand(), a.cancelCommand(), a.waitCommand(),
		a.backupCommand(), a.restoreCommand(), a.benchCommand(), a.costCommand(), a.demoCommand(), a.workerCommand(), a.guardCommand(), a.versionCommand(),
	)
	group(root)
	return root
}

const rootLong = `Kinesin runs your code later: durably, within milliseconds of its due time, never early.

  kinesin serve                              a server with all roles, data in ./kinesin-data
  kinesin lambda create greet                a named callback
  kinesin worker --lambda greet -- CMD ARG…  runs CMD for each task, in any language
  kinesin schedule greet --in 90s            prints the task's id

Settings come from flags, from the environment (--log-level is KINESIN_LOG_LEVEL) and from a YAML file
named by --config or KINESIN_CONFIG (log-level: debug); the first that has one wins.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 bad usage,
3 not as it has to be on AWS or in Kubernetes, or this machine's clock.`

// group makes a command without an action of its own complain when no
// subcommand, or an unknown one, is named.
func group(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), suggestions(cmd, args[0]))
		}
		cmd.SetOut(cmd.ErrOrStderr())
		return errors.Join(cmd.Help(), usagef("a command is missing"))
	}
}

func suggestions(cmd *cobra.Command, name string) string {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// action is what a command does once its command line has been read.
type action func(ctx context.Context, args []string) error

// does makes an error of the action a failure of the command, unless it says that the usage was bad.
func does(act action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := act(cmd.Context(), args)
		if err == nil || isUsage(err) {
			return err
		}
		return &failure{err}
	}
}

// failure is an error of a command that was understood.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// errReported ends a command with exitFailed when it has already said why.
var errReported = errors.New("reported")

// usageError is a command line that cannot be carried out as it stands.
type usageError struct{ text string }

func (u *usageError) Error() string { return u.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

func isUsage(err error) bool {
	_, found := errors.AsType[*usageError](err)
	return found
}

// report says what went wrong and turns it into an exit code. What did not come
// from an action came from reading the command line.
func (a *app) report(cmd *cobra.Command, err error) int {
	failed, isFailure := errors.AsType[*failure](err)
	switch {
	case err == nil:
		return exitDone
	case isFailure && errors.Is(err, errReported):
		return exitFailed
	case isFailure:
		fmt.Fprintf(a.Stderr, "kinesin: %v\n", failed.error)
		if _, lasts := errors.AsType[*lasting](err); lasts {
			return exitSetup
		}
		return exitFailed
	}
	fmt.Fprintf(a.Stderr, "kinesin: %v\nRun '%s --help' for what is allowed.\n", err, cmd.CommandPath())
	return exitUsage
}

// note says something on stderr that is not a result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "kinesin: "+format+"\n", args...)
}

// oneName accepts exactly one argument.
func oneName(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("NAME is missing")
	case len(args) > 1:
		return usagef("%q is one argument too many: want one NAME", args[1])
	}
	return nil
}

// some accepts one argument or more.
func some(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s is missing: want one or more", what)
		}
		return nil
	}
}
