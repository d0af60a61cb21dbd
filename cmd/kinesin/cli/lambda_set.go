package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) lambdaSetCommand() *cobra.Command {
	var l admin.Lambda
	var target targetFlags
	var o admin.LambdaUpdateOptions
	c := &cobra.Command{
		Use:     "set NAME",
		Aliases: []string{"update"},
		Short:   "Change a lambda's settings",
		Long: `Changes the given settings and prints all of them; --reset takes settings back to their defaults. They apply to waiting
tasks too. Mode, kind of queues and priorities are fixed at creation. Shards can only grow; tasks without a key use new ones six minutes
later.`,
		Example: `  kinesin lambda set greet --max-attempts 3 --backoff 5s..1m
  kinesin lambda set greet --shards 8
  kinesin lambda set greet --priority-weights high=8,normal=3,low=1
  kinesin lambda set greet --limit-key-concurrency 3
  kinesin lambda set mail --target https://mail.example.com/tasks --target-secret-file secrets
  kinesin lambda set greet --reset limit_key_concurrency,breaker`,
		Args: one("NAME"), ValidArgsFunction: a.lambdas().complete(a),
	}
	f := c.Flags()
	lambdaFlags(f, &l)
	target.add(f)
	f.Var(intValue{&l.Shards, 1, task.ShardsMax}, "shards", fmt.Sprintf("partitions per priority: more than now, at most %d", task.ShardsMax))
	resetFlag(f, &o.Reset, api.Changeable(&kinesinv1.UpdateLambdaRequest{})...)
	for _, name := range lambdaFixed {
		f.String(name, "", "")
		f.Lookup(name).Hidden = true
	}
	f.Lookup("fifo").NoOptDefVal = "true"
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		for _, name := range lambdaFixed {
			if f.Changed(name) {
				return usagef("--%s is fixed at creation: create another lambda, or delete this one first", name)
			}
		}
		if err := wantChange(c); err != nil {
			return err
		}
		l.Name = args[0]
		if err := checkLambda(&l); err != nil {
			return err
		}
		err := target.set(ctx, f, &l, func(ctx context.Context) (admin.Lambda, error) { return admin.New(k).Lambdas.Get(ctx, l.Name) })
		if err != nil {
			return err
		}
		if failures, window := f.Changed("breaker-failures"), f.Changed("breaker-window"); failures != window { // they change together
			now, err := admin.New(k).Lambdas.Get(ctx, l.Name)
			if err != nil {
				return err
			}
			l.Breaker.Failures, l.Breaker.Window = cmp.Or(l.Breaker.Failures, now.Breaker.Failures), cmp.Or(l.Breaker.Window, now.Breaker.Window)
		}
		changed, err := admin.New(k).Lambdas.Update(ctx, l, o)
		if err != nil {
			return err
		}
		if changed.Registered && !changed.Withdrawn {
			a.note("lambda %s is registered: this holds until its registration changes (its module call in Terraform)", changed.Name)
		}
		return a.lambdas().show(a, wirecopy.To[kinesinv1.Lambda](&changed))
	})
}

// lambdaFixed are the settings of a lambda that cannot change.
var lambdaFixed = []string{"mode", "fifo", "priorities"}

func (a *app) lambdaCreateCommand() *cobra.Command {
	var l admin.Lambda
	var target targetFlags
	var priorities string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a lambda",
		Long: `Creates a lambda and prints its settings. NAME is 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-'. One that exists is
refused (exit 1): set changes it, and kinesin apply creates what is missing.`,
		Example: `  kinesin lambda create greet
  kinesin lambda create report --priorities urgent,bulk --max-attempts 3 --timeout 1h --backoff 10s..30m
  kinesin lambda create invoices --mode deliver --fifo
  kinesin lambda create mail --target https://mail.example.com/tasks
  kinesin lambda create mail --target arn:aws:lambda:eu-central-1:123456789012:function:mail`,
		Args: one("NAME"),
	}
	f := c.Flags()
	l.Mode = admin.ModeManaged
	f.Var(choiceValue{(*string)(&l.Mode), wordsOf("Lambda.mode")}, "mode", helpOf("Lambda.mode"))
	f.BoolVar(&l.FIFO, "fifo", false, helpOf("Lambda.fifo"))
	f.StringVar(&priorities, "priorities", "", helpOf("Lambda.priorities"))
	f.Var(intValue{&l.Shards, 1, task.ShardsMax}, "shards", helpOf("Lambda.shards"))
	lambdaFlags(f, &l)
	target.add(f)
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		l.Name = args[0]
		if f.Changed("priorities") {
			l.Priorities = splitList(priorities)
			if len(l.Priorities) == 0 {
				return usagef("--priorities: want names separated by commas, highest first, such as high,normal,low")
			}
		}
		if err := checkLambda(&l); err != nil {
			return err
		}
		if err := target.set(ctx, f, &l, nil); err != nil {
			return err
		}
		created, duplicate, err := admin.New(k).Lambdas.Create(ctx, l)
		if err != nil {
			return err
		}
		if duplicate {
			return fmt.Errorf("lambda %s exists already, with these settings; kinesin lambda set %s changes them", created.Name, created.Name)
		}
		return a.lambdas().show(a, wirecopy.To[kinesinv1.Lambda](&created))
	})
}

// splitList splits names at commas and drops the spaces around them.
func splitList(text string) []string {
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		if name := strings.TrimSpace(part); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (a *app) lambdaDeleteCommand() *cobra.Command {
	var drop bool
	c := &cobra.Command{
		Use:   "delete NAME [--drop]",
		Short: "Delete a lambda",
		Long: `Deletes a lambda. While it has live tasks, or may have some in the inbound queue, this is refused (exit 1), unless --drop is
set, which drops them, about a thousand a second. A lambda that Terraform registered is deleted with its module call only
(exit 1).`,
		Args: one("NAME"), ValidArgsFunction: a.lambdas().complete(a),
	}
	c.Flags().BoolVar(&drop, "drop", false, "drop its live tasks")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		dropped, err := admin.New(k).Lambdas.Delete(ctx, args[0], admin.LambdaDeleteOptions{DropTasks: drop})
		if dropped > 0 && err != nil {
			a.note("dropped %d tasks so far; run the command again to continue", dropped)
		}
		if !drop && errors.Is(err, sdk.ErrInUse) {
			return fmt.Errorf("%w; --drop drops them", err)
		}
		if err != nil {
			return err
		}
		return a.print(&kinesinv1.DeleteLambdaResponse{Dropped: dropped}, "%s lambda %s, dropped %d tasks", outcomeDeleted, args[0], dropped)
	})
}

// targetFlags are the flags for the target of a lambda.
type targetFlags struct {
	of         admin.Target
	headers    []string
	secretFile string
}

func (t *targetFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.of.URL, "target", "", "`URL` that servers call for each task, in place of workers, or ARN of an AWS Lambda function; {key} and {tag.NAME} in a URL stand for those of the task")
	f.Var(choiceValue{&t.of.Method, task.TargetMethods()}, "target-method", "method of the calls; "+task.TargetMethodDefault+" when not set")
	f.StringArrayVar(&t.headers, "target-header", nil, "`HEADER` of the calls, such as 'Authorization: Bearer …'; may be repeated, and replaces all; no answer shows values")
	f.StringVar(&t.secretFile, "target-secret-file", "", "`FILE` of one or two lines whsec_BASE64, which sign the calls as Standard Webhooks does")
	f.Var(intValue{&t.of.Slots, 1, task.TargetSlotsMax}, "target-slots", fmt.Sprintf("how many calls each server makes at a time; %d when not set", task.TargetSlotsDefault))
	f.BoolVar(&t.of.Async, "target-async", false, "do not wait for the function: success is that AWS Lambda has the event")
}

// set gives a lambda the target of the flags. now returns the lambda as it is, of which it keeps what no flag names;
// nil: there is none yet.
func (t *targetFlags) set(ctx context.Context, f *pflag.FlagSet, l *admin.Lambda, now func(context.Context) (admin.Lambda, error)) error {
	secrets, err := secretsIn(t.secretFile)
	if err != nil {
		return usagef("--target-secret-file: %v", err)
	}
	for _, s := range secrets {
		l.TargetSecrets = append(l.TargetSecrets, task.TargetSecretText(s))
	}
	for _, header := range t.headers {
		name, value, is := strings.Cut(header, ":")
		if !is {
			return usagef("--target-header: want 'NAME: VALUE'") // it may be a secret
		}
		l.TargetHeaders = append(l.TargetHeaders, strings.ToLower(name)+":"+value)
	}
	named, changed := f.Changed("target"), f.Changed("target-method") || f.Changed("target-slots") || f.Changed("target-async")
	if named && t.of.URL == "" {
		return usagef("--target: want a URL or an ARN; kinesin lambda set --reset target takes the target away")
	}
	if !named && !changed {
		return nil
	}
	if now != nil {
		was, err := now(ctx)
		if err != nil {
			return err
		}
		if was.Target != nil {
			mergeTarget(f, &t.of, was.Target)
		}
	}
	if t.of.URL == "" {
		return usagef("--target-method, --target-slots and --target-async without --target: want its URL too")
	}
	l.Target = &t.of
	return nil
}

// mergeTarget gives a target what the flags do not name of the one before.
func mergeTarget(f *pflag.FlagSet, of, was *admin.Target) {
	if !f.Changed("target") {
		of.URL = was.URL
	}
	if !f.Changed("target-method") {
		of.Method = was.Method
	}
	if !f.Changed("target-slots") {
		of.Slots = was.Slots
	}
	if !f.Changed("target-async") {
		of.Async = was.Async
	}
}

func targetRows(t table, l *kinesinv1.Lambda) {
	target := l.GetTarget()
	if target == nil {
		return
	}
	t.row("target", strings.TrimPrefix(target.GetMethod()+" "+target.GetUrl(), " "))
	t.fact("target headers", strings.Join(l.GetTargetHeaderNames(), ","))
	if n := l.GetTargetSecretCount(); n > 0 {
		t.row("target secrets", strconv.Itoa(int(n)))
	}
	slots := target.GetSlots()
	if slots == 0 {
		slots = task.TargetSlotsDefault
	}
	if target.GetAsync() {
		t.row("target async", "yes: success is that AWS Lambda has the event")
	}
	t.row("target slots", fmt.Sprintf("%d on each server", slots))
}
