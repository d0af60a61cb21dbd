package cli

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// keyFlags name a task by its lambda and key, instead of by its id.
type keyFlags struct{ lambda, key string }

func (k *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&k.lambda, "lambda", "", "with --key: the `LAMBDA` of the task")
	c.Flags().StringVar(&k.key, "key", "", "the newest task of --lambda with this idempotency `KEY`, instead of an ID")
	c.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("key") && !cmd.Flags().Changed("lambda"):
			return some("ID")(cmd, args)
		case k.lambda == "" || k.key == "":
			return usagef("a task is named by --lambda and --key together")
		case len(args) > 0:
			return usagef("--lambda and --key name one task: leave the IDs out")
		}
		return nil
	}
}

// names returns the ids of the command line, or that of the key.
func (k *keyFlags) names(args []string) []string {
	if k.key == "" {
		return args
	}
	return []string{string(sdk.ByKey(k.lambda, k.key))}
}

func (a *app) cancelCommand() *cobra.Command {
	var by keyFlags
	var ifSeq uint64
	c := &cobra.Command{
		Use:   "cancel ID… | --lambda L --key K | {--where FILTER | --all} [--lambda L]",
		Short: "Cancel tasks, or stop running ones",
		Long: `Cancels tasks and prints the outcome of each, in order: cancelled (it does not start, or not again) or cancelling (it runs, and
its worker was asked to stop it). With --where a job on the server cancels the tasks that a filter selects
(docs/reference/filters.md); the job is printed when it has ended.

Exit 1 when a task has ended, is on the queue of a deliver lambda or about to be, when there is none with an ID, or when the
job refused some.`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	return a.withSets(a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.CancelResult, error) { return k.CancelMany(ctx, some, sdk.IfSeq(ifSeq)) })
		out := a.results(len(ids) > 1)
		for i, r := range all { // also with an error: these are done
			o := &kinesinv1.CancelResult{Id: string(r.ID), Outcome: string(r.Outcome), State: string(r.State), Problem: problemOf(r.Err)}
			if out.several {
				o.Id = ids[i]
			}
			if err := out.add(ids[i], r.Err, o, func() error { return a.printLine(r.Outcome) }); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		return out.end()
	}), admin.JobCancel)
}

func (a *app) rescheduleCommand() *cobra.Command {
	var by keyFlags
	var when whenFlags
	var ifSeq uint64
	c := &cobra.Command{
		Use: "reschedule {ID… | --lambda L --key K} {--in D | --at TIME}\n" +
			"  kinesin reschedule {--where FILTER | --all} [--lambda L] {--by D | --spread D | --at TIME}",
		Short: "Move waiting tasks to another time",
		Long: `Moves tasks that no worker has to another time and prints "STATE, due TIME" for each, in order. A time in the past means now.
Attempts that failed still count. With --where a job on the server moves the live tasks that a filter selects
(docs/reference/filters.md).

Exit 1 when a worker has a task, when it has ended, or when there is none with an ID.`,
		Example: `  kinesin reschedule k3… --in 2h
  kinesin reschedule --lambda greet --key reminder-42 --at 'monday 9:00' --zone Europe/Paris
  kinesin reschedule --lambda greet --where 'due<+1h' --spread 2h`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	c.Flags().Var(durationValue{d: &when.in, min: math.MinInt64}, "in", "due after `D` from now: 90s, 3d, 1h30m")
	when.due.add(c.Flags())
	return a.withSets(a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		option, note, err := when.option(c)
		if err != nil {
			return err
		}
		ids := by.names(args)
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.ChangeResult, error) {
			return k.Reschedule(ctx, some, option, sdk.IfSeq(ifSeq))
		})
		if err == nil && note != "" && !a.json() {
			a.note("%s", note)
		}
		return a.printChanges(ids, all, note, err)
	}), admin.JobReschedule)
}

func (a *app) redriveCommand() *cobra.Command {
	var by keyFlags
	var ifSeq uint64
	var force bool
	var payload newPayloadFlags
	c := &cobra.Command{
		Use: "redrive ID… | --lambda L --key K | {--where FILTER | --all} [--lambda L] [--force]\n" +
			"  kinesin redrive {ID | --lambda L --key K} {--payload TEXT | --payload-file FILE} [--force]",
		Short: "Have ended tasks start anew",
		Long: `Has tasks start anew that ended as dead, fatal_failure, cancelled, expired or dropped, under the same ids, and prints "STATE,
due TIME" for each, in order. Attempts count anew; the history stays. With --where a job on the server redrives the tasks that
a filter selects (docs/reference/filters.md).

Exit 1 when a task has not ended, ended as success or delivered (without --force), when its key was used again, or when there
is none with an ID.`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	c.Flags().BoolVar(&force, "force", false, "also tasks that ended as success or delivered")
	payload.add(c)
	return a.withSets(a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		other, err := payload.read(a, c)
		if err != nil {
			return err
		}
		if other != nil && len(ids) != 1 {
			return usagef("--payload and --payload-file are for one task, and not for %d", len(ids))
		}
		opts := []sdk.ChangeOption{sdk.IfSeq(ifSeq)}
		if force {
			opts = append(opts, sdk.Force())
		}
		if other != nil {
			opts = append(opts, sdk.WithNewPayload(other))
		}
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.ChangeResult, error) { return k.Redrive(ctx, some, opts...) })
		return a.printChanges(ids, all, "", err)
	}), admin.JobRedrive)
}

// completeWithin bounds how long a press of the Tab key waits for a server.
const completeWithin = time.Second

// completions tells the shell how to complete the flags of a command, and of all below it: those that name
// lambdas or priorities, and those that have one of a few values.
func (a *app) completions(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		switch choice, is := f.Value.(choiceValue); {
		case is:
			complete = cobra.FixedCompletions(choice.choices, cobra.ShellCompDirectiveNoFileComp)
		case f.Name == "lambda":
			complete = a.completeLambdas
		case f.Name == "priority":
			complete = a.completePriorities
		default:
			return
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // it is registered twice
		}
	})
	for _, below := range c.Commands() {
		a.completions(below)
	}
}

// completeLambdas completes the value of a flag that names lambdas, with commas between them.
func (a *app) completeLambdas(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	named := strings.Split(before, ",")
	var all []cobra.Completion
	for _, name := range a.lambdas().names(a, cmd, "") {
		if !slices.Contains(named, name) && strings.HasPrefix(before+name, begun) {
			all = append(all, before+name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completePriorities completes the value of a flag that names a priority: of the lambda that the command names, or of all.
func (a *app) completePriorities(cmd *cobra.Command, args []string, begun string) (all []cobra.Completion, d cobra.ShellCompDirective) {
	lambda := ""
	if f := cmd.Flags().Lookup("lambda"); f != nil {
		lambda = f.Value.String()
	} else if takesLambda(cmd) {
		lambda = first(args)
	}
	a.completing(cmd, func(ctx context.Context, k *sdk.Client) error {
		lambdas, err := admin.New(k).Lambdas.List(ctx)
		for i := range lambdas {
			for _, name := range lambdas[i].Priorities {
				if (lambda == "" || lambda == lambdas[i].Name) && strings.HasPrefix(name, begun) && !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
		}
		return err
	})
	return all, cobra.ShellCompDirectiveNoFileComp
}

// takesLambda reports whether the argument of a command is a lambda.
func takesLambda(cmd *cobra.Command) bool {
	what := strings.Trim(strings.Join(strings.Fields(cmd.Use)[1:min(2, len(strings.Fields(cmd.Use)))], ""), "[]")
	return what == "LAMBDA"
}

// completing asks a server for what completes a word. Its errors are not told, and it does not wait for long:
// whoever presses Tab wants neither an error nor to wait.
func (a *app) completing(cmd *cobra.Command, ask func(ctx context.Context, k *sdk.Client) error) {
	if a.applySettings(cmd) != nil {
		return
	}
	k, err := a.client(sdk.WithTries(1))
	if err != nil {
		return
	}
	defer k.Close()
	ctx, cancel := clock.Within(cmd.Context(), clock.Real(), completeWithin)
	defer cancel()
	_ = ask(ctx, k)
}
