// Package cli is the command line of Kinesin: one subcommand in a file, results
// on stdout, everything else on stderr. It owns flags, the environment, the
// configuration file and exit codes. It calls servers and runs workers with
// package sdk, and starts servers with package server.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// Exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line, the environment or the configuration file is wrong
	// exitSetup is for a failure that lasts until somebody changes the environment: on AWS, in Kubernetes or
	// the clock of this machine.
	exitSetup = 3
)

// Process is the process of a run. Its writers have to be safe for concurrent use.
type Process struct {
	Args    []string // without the program's name
	Env     []string // NAME=value
	Version string   // empty: that of the build information
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// Run runs one command line and returns the exit code. Long-running commands drain when ctx ends.
func Run(ctx context.Context, p Process) int {
	a := &app{Process: p, stdout: p.Stdout, stderr: p.Stderr, line: &waitLine{w: p.Stderr, clock: clock.Real()}}
	out, notes := &visible{w: p.Stdout}, &visible{w: p.Stderr, before: a.line.hide}
	if isTerminal(p.Stdout) {
		out.before = a.line.end
	}
	a.Stdout, a.Stderr = out, notes
	root := a.root()
	root.SetArgs(lambdaAsArgument(root, p.Args))
	root.SetIn(p.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(cmd, err)
}

// app is one run of the program.
type app struct {
	Process
	stdout, stderr io.Writer // as they are, for the commands that this process runs
	line           *waitLine

	output string
	conn   settings.Connection // of the commands that call a server
}

func (a *app) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "kinesin",
		Version:       a.version(),
		Short:         "A durable scheduler of delayed tasks",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Tasks:", []*cobra.Command{
			a.scheduleCommand(), a.getCommand(), a.listCommand(), a.countCommand(), a.waitCommand(), a.cancelCommand(), a.rescheduleCommand(), a.runNowCommand(),
			a.updateCommand(), a.redriveCommand(), a.expireCommand(), a.deleteCommand(), a.jobCommand(), a.deadLetterCommand(),
		}},
		{"Lambdas and limits:", []*cobra.Command{a.lambdaCommand(), a.quotaCommand(), a.gateCommand(), a.objectiveCommand(), a.statsCommand(), a.applyCommand()}},
		{"Crons, chains and groups:", []*cobra.Command{a.cronCommand(), a.chainCommand(), a.groupCommand()}},
		{"Servers and workers:", []*cobra.Command{a.serveCommand(), a.workerCommand(), a.demoCommand(), a.topCommand(), a.doctorCommand(), a.configCommand(), a.debugCommand(), a.inboundCommand()}},
		{"Who may do what:", []*cobra.Command{a.tokenCommand(), a.policyCommand(), a.keyringCommand(), a.auditCommand()}},
		{"Data and cost:", []*cobra.Command{a.backupCommand(), a.restoreCommand(), a.standbyCommand(), a.dataCommand(), a.awsCommand(), a.costCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(a.guardCommand(), a.testServerCommand(), a.versionCommand())
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().String("config", "", "YAML `FILE` with settings (KINESIN_CONFIG)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.applySettings(cmd) }
	a.completions(root)
	return root
}

func (a *app) applySettings(cmd *cobra.Command) error {
	return settings.Apply(cmd, a.Env, settings.Names(cmd.Root()))
}

func (a *app) getenv(name string) string { return settings.Getenv(a.Env, name) }

const rootLong = `Kinesin runs your code later: durably, within milliseconds of its due time, never early.

  kinesin serve                              run a server with all roles, data in ./kinesin-data
  kinesin lambda create greet                create a lambda, a named kind of work
  kinesin worker --lambda greet -- CMD ARG…  run CMD for each task, in any language
  kinesin schedule greet --in 90s            schedule a task and print its id
  source <(kinesin completion bash)          complete commands, flags and names of lambdas with Tab; also zsh, fish, powershell

Settings are read from flags, then from the environment (KINESIN_LOG_LEVEL for --log-level), then from
the YAML file that --config or KINESIN_CONFIG names (log-level: debug).

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 bad usage,
3 environment misconfigured (AWS, Kubernetes or this machine's clock).`

// usage prints the usage of a command, with the flags of the connection apart from its own. The root describes these once
// for all commands.
func usage(c *cobra.Command) error {
	var names []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if settings.IsConnection(f) {
			names = append(names, "--"+f.Name)
			f.Hidden = true
		}
	})
	err := (&cobra.Command{}).UsageFunc()(c)
	for _, name := range names {
		c.Flags().Lookup(name[2:]).Hidden = false
	}
	switch {
	case err != nil:
	case !c.HasParent():
		connection := pflag.NewFlagSet("", pflag.ContinueOnError)
		(&settings.Connection{}).AddTo(connection)
		_, err = fmt.Fprintf(c.OutOrStderr(), "\nConnection, of commands that call a server:\n%s", connection.FlagUsages())
	case len(names) > 0:
		_, err = fmt.Fprintf(c.OutOrStderr(), "\nConnection (see kinesin --help):\n  %s\n", strings.Join(names, ", "))
	}
	return err
}

// lambdaAsArgument takes --lambda NAME for the argument of a command whose argument is a lambda.
func lambdaAsArgument(root *cobra.Command, args []string) []string {
	c, _, err := root.Find(args)
	if err != nil || !takesLambda(c) || c.Flags().Lookup("lambda") != nil {
		return args
	}
	var taken []string
	for _, arg := range args {
		if arg != "--lambda" {
			taken = append(taken, strings.TrimPrefix(arg, "--lambda="))
		}
	}
	return taken
}

// flagError adds to the error of an unknown flag what is allowed.
func flagError(c *cobra.Command, err error) error {
	if _, unknown := errors.AsType[*pflag.NotExistError](err); !unknown {
		return err
	}
	if own := ownFlags(c); len(own) > 0 {
		return usagef("%v: want any of --%s", err, strings.Join(own, ", --"))
	}
	return err
}

// ownFlags returns the flags of a command that are neither settings nor flags of all commands.
func ownFlags(c *cobra.Command) (names []string) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !settings.Is(f) && !f.Hidden && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// group makes a command of subcommands, which is bad usage without one of them.
func group(c *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	c.AddCommand(subcommands...)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), suggestions(cmd, args[0]))
		}
		cmd.SetOut(cmd.ErrOrStderr())
		return errors.Join(cmd.Help(), usagef("a command is missing"))
	}
	return c
}

func suggestions(cmd *cobra.Command, name string) string {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// does makes a cobra action of act, whose errors are failures of the command unless they are bad usage.
func does(act func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := act(cmd.Context(), args)
		if err == nil || isUsage(err) {
			return err
		}
		return &failure{err}
	}
}

// acting completes a command that calls no server with the output flag and its action.
func (a *app) acting(c *cobra.Command, act func(ctx context.Context, args []string) error) *cobra.Command {
	a.outputFlag(c.Flags())
	c.RunE = does(act)
	return c
}

// failure is an error of a command whose usage was right.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// errReported ends a command with exitFailed after it has reported why.
var errReported = errors.New("reported")

// usageError means bad usage.
type usageError struct{ text string }

func (u *usageError) Error() string { return u.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

func isUsage(err error) bool {
	_, found := errors.AsType[*usageError](err)
	return found
}

// report prints an error and returns the exit code. An error that is no failure comes from parsing the
// command line, and is bad usage.
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
	fmt.Fprintf(a.Stderr, "kinesin: %s\n", usageText(err))
	if example, _, _ := strings.Cut(cmd.Example, "\n"); example != "" {
		fmt.Fprintf(a.Stderr, "For example: %s\n", strings.TrimSpace(example))
	}
	fmt.Fprintf(a.Stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return exitUsage
}

// usageText says what is wrong with the usage. A flag that is true or false is read by the library of flags,
// whose error names its own function.
func usageText(err error) string {
	if n, found := errors.AsType[*strconv.NumError](err); found && n.Func == "ParseBool" {
		return strings.Replace(err.Error(), n.Error(), fmt.Sprintf("%q: want true or false", n.Num), 1)
	}
	return err.Error()
}

// note prints something on stderr that is not a result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "kinesin: "+format+"\n", args...)
}

// one accepts exactly one argument.
func one(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return usagef("%s is missing", what)
		case len(args) > 1:
			return usagef("%q is one argument too many: want one %s", args[1], what)
		}
		return nil
	}
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
