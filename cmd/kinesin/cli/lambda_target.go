package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

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
