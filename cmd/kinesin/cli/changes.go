package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

func ifSeqFlag(c *cobra.Command, seq *uint64) {
	c.Flags().Var(seqValue{seq}, "if-seq", "only if the task is at seq `N`, as get -o json shows it; of a single task")
}

// printChanges prints the results of changing tasks, which note says more about.
func (a *app) printChanges(ids []string, all []sdk.ChangeResult, note string, err error) error {
	out := a.results(len(ids) > 1)
	for i, r := range all { // also with an error: these are done
		o := &kinesinv1.ChangeResult{
			Id: string(r.ID), State: string(r.State), Due: int64(task.InstantOf(r.Due)), Seq: r.Seq, Problem: problemOf(r.Err),
		}
		switch {
		case r.Err == nil:
			o.Note = note
		case out.several:
			o.Id = ids[i]
		}
		text := func() error { return a.printLine(r.State.String() + ", due " + timeText(r.Due)) }
		if err := out.add(ids[i], r.Err, o, text); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return out.end()
}

func (a *app) runNowCommand() *cobra.Command {
	var by keyFlags
	var ifSeq uint64
	c := &cobra.Command{
		Use:   "run-now ID… | --lambda L --key K",
		Short: "Have waiting tasks start now",
		Long: `Has tasks start now that wait for their due time or for a retry, and prints "STATE, due TIME" for each, in order.

Exit 1 when a worker has a task, when it has ended, or when there is none with an ID.`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.ChangeResult, error) { return k.RunNow(ctx, some, sdk.IfSeq(ifSeq)) })
		return a.printChanges(ids, all, "", err)
	})
}

func (a *app) updateCommand() *cobra.Command {
	var by keyFlags
	var ifSeq uint64
	var payload newPayloadFlags
	var startBefore string
	u := sdk.Update{}
	c := &cobra.Command{
		Aliases: []string{"set"},
		Use:     "update ID | --lambda L --key K [--payload TEXT | --payload-file FILE] [flags]",
		Short:   "Change the payload or the settings of a waiting task",
		Long: `Changes the payload or the settings of a task that no worker has. What no flag names stays; --reset takes settings back to
those of the lambda.

Exit 1 when a worker has the task, when it has ended, or when there is none with the ID.`,
		Example: `  kinesin update k3… --payload '{"user":43}'
  kinesin update --lambda greet --key reminder-42 --max-attempts 3 --if-seq 1795000000000000
  kinesin update k3… --reset timeout,start_before`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	f := c.Flags()
	payload.add(c)
	f.StringVar(&u.Priority, "priority", "", "another of the lambda's priorities")
	f.Var(intValue{&u.MaxAttempts, 1, task.AttemptsMax}, "max-attempts", helpOf("TaskUpdate.max_attempts"))
	f.Var(durationValue{&u.Timeout, task.TimeoutMin, task.TimeoutMax}, "timeout", "bound of one attempt, `D`")
	f.Var(rangeValue{&u.BackoffMin, &u.BackoffMax}, "backoff", "shortest and longest pause before a retry")
	resetFlag(f, &u.Reset, "max_attempts", "timeout", "backoff_min", "backoff_max", "start_before", "priority")
	f.StringVar(&startBefore, "start-before", "", "the task expires if it did not start before this `TIME`, RFC 3339")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		if len(ids) != 1 {
			return usagef("update changes one task, and not %d", len(ids))
		}
		if err := wantChange(c, "lambda", "key", "if-seq"); err != nil {
			return err
		}
		if f.Changed("priority") && u.Priority == "" {
			return usagef("--priority: want one of the lambda's priorities")
		}
		var err error
		if u.Payload, err = payload.read(a, c); err != nil {
			return err
		}
		if f.Changed("start-before") {
			at, err := parseTime(startBefore)
			if err != nil {
				return usagef("--start-before: %v", err)
			}
			u.StartBefore = at
		}
		r, err := k.Update(ctx, sdk.ID(ids[0]), u, sdk.IfSeq(ifSeq))
		if err != nil && r.Err == nil {
			return err
		}
		return a.printChanges(ids, []sdk.ChangeResult{r}, "", nil)
	})
}

// newPayloadFlags give a task another payload.
type newPayloadFlags struct{ text, file string }

func (p *newPayloadFlags) add(c *cobra.Command) {
	c.Flags().Var(payloadText{&p.text}, "payload", "another payload `TEXT`; of a single task")
	c.Flags().StringVar(&p.file, "payload-file", "", "read another payload from `FILE`, - for stdin; of a single task")
}

// read returns the payload; nil if there is no flag for one.
func (p *newPayloadFlags) read(a *app, c *cobra.Command) ([]byte, error) {
	switch text, file := c.Flags().Changed("payload"), c.Flags().Changed("payload-file"); {
	case text && file:
		return nil, usagef("--payload and --payload-file exclude each other: a task has one payload")
	case text:
		return append([]byte{}, p.text...), nil
	case file:
		data, err := a.readPayload(p.file)
		return append([]byte{}, data...), err
	}
	return nil, nil
}

// whenFlags say when a task is to start.
type whenFlags struct {
	in  time.Duration
	due atFlags
}

// option returns the option for the time that the flags say, and what to tell people of it.
func (w *whenFlags) option(c *cobra.Command) (o sdk.Option, note string, err error) {
	switch in, at := c.Flags().Changed("in"), anyOf(c, "at", "zone"); {
	case in && at:
		return nil, "", usagef("--in and --at exclude each other: a task is due once")
	case at:
		due, note, err := w.due.read()
		return sdk.At(due), note, err
	case in && w.in < 0:
		return sdk.In(w.in), pastText, nil
	case in:
		return sdk.In(w.in), "", nil
	}
	return nil, "", usagef("when is missing: want --in D or --at TIME")
}
