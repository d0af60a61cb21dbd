package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) lambdaCommand() *cobra.Command {
	n := a.lambdas()
	return group(&cobra.Command{
		Use:   "lambda",
		Short: "Create, show, change and delete lambdas",
		Long:  `A lambda is a named kind of work, with the settings of its tasks.`,
	}, a.lambdaCreateCommand(), a.lambdaGetCommand(), a.lambdaSetCommand(), a.lambdaDeleteCommand(),
		n.listCommand(a, &cobra.Command{Short: "List all lambdas"}, func(ctx context.Context, c *calls, _ []string) (proto.Message, error) {
			answer, err := n.list(ctx, c)
			if err == nil {
				a.noteRefused(itemsOf[*kinesinv1.Lambda](answer))
			}
			return answer, err
		}))
}

// noteRefused says which registrations are refused.
func (a *app) noteRefused(all []*kinesinv1.Lambda) {
	for _, l := range all {
		if l.GetRegistrationRefused() != "" && !a.json() {
			a.note("the registration of %s is refused: `kinesin lambda get %s` says why", l.GetName(), l.GetName())
		}
	}
}

// isDeliver reports whether tasks of a lambda are put on an SQS queue, so that they have no attempts.
func isDeliver(l *kinesinv1.Lambda) bool { return l.GetMode() == string(admin.ModeDeliver) }

// poisonBound returns how many losses in a row make a task dead; 0 for mode deliver.
func poisonBound(l *kinesinv1.Lambda) uint32 {
	if isDeliver(l) {
		return 0
	}
	return cmp.Or(l.GetPoisonBound(), task.PoisonBoundDefault)
}

func backoffText(l *kinesinv1.Lambda) string {
	return formatRange(task.Micros(l.GetBackoffMin()), task.Micros(l.GetBackoffMax()))
}

func (a *app) printLambda(l *kinesinv1.Lambda) error { return a.printLambdaWith(l, nil) }

// printLambdaWith prints a lambda as text, with its quotas and, if it has them, its live figures.
func (a *app) printLambdaWith(l *kinesinv1.Lambda, quotas []*kinesinv1.Quota) error {
	t := newTable(a.Stdout)
	lambdaRows(t, l)
	for _, q := range quotas {
		t.row("quota", strings.TrimPrefix(strings.TrimPrefix(quotaText(q), l.GetName()+": "), l.GetName()+", "))
	}
	if l.GetLive() != nil {
		liveRows(t, l)
	}
	return t.Flush()
}

func lambdaRows(t table, l *kinesinv1.Lambda) {
	t.row("name", l.GetName())
	t.row("mode", l.GetMode())
	if l.GetFifo() {
		t.row("queues", "FIFO")
	}
	t.row("priorities", strings.Join(l.GetPriorities(), ","))
	t.fact("priority weights", weightsText(l))
	t.row("shards", shardsText(l))
	if !isDeliver(l) {
		t.row("max attempts", strconv.Itoa(int(l.GetMaxAttempts())))
		t.row("timeout", spanText(l.GetTimeout()))
		t.row("backoff", backoffText(l))
		t.row("poison bound", countText(poisonBound(l)))
	}
	targetRows(t, l)
	brakeRows(t, l)
	if l.GetStartWithin() > 0 {
		t.row("start within", spanText(l.GetStartWithin()))
	}
	t.fact("limit by key", keyLimitText(l))
	t.row("retention", spanText(l.GetRetention()))
	t.row("key retention", spanText(cmp.Or(l.GetKeyRetention(), l.GetRetention())))
	t.row("created", instantText(l.GetCreated()))
	t.fact("registered", registeredText(l))
	if l.GetDeleting() {
		t.row("deleting", "yes: it accepts no new tasks")
	}
}

func registeredText(l *kinesinv1.Lambda) string {
	switch refused := l.GetRegistrationRefused(); {
	case l.GetWithdrawn():
		return fmt.Sprintf("withdrawn: deleted when its tasks have ended; restore the module call, or kinesin lambda delete %s --drop", l.GetName())
	case l.GetRegistered() && refused != "":
		return registeredSource + ", refused: " + refused
	case l.GetRegistered():
		return registeredSource
	case refused != "":
		return "not yet, refused: " + refused
	}
	return ""
}

// weightsText returns the weights of the priorities, in their order; empty where that is strict.
func weightsText(l *kinesinv1.Lambda) string {
	if len(l.GetPriorityWeights()) == 0 {
		return ""
	}
	parts := make([]string, len(l.GetPriorities()))
	for i, name := range l.GetPriorities() {
		parts[i] = fmt.Sprintf("%s=%d", name, l.GetPriorityWeights()[name])
	}
	return strings.Join(parts, ",")
}

// keyLimitText says for people how the tasks of each limit key are limited; empty where they are not.
func keyLimitText(l *kinesinv1.Lambda) string {
	var parts []string
	if l.GetLimitKeyConcurrency() > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", l.GetLimitKeyConcurrency()))
	}
	if l.GetLimitKeyRate() > 0 {
		parts = append(parts, rateText(l.GetLimitKeyRate())+" starts")
	}
	return strings.Join(parts, ", ")
}

// shardsText returns the number of shards and, if they grew, from when on new tasks use them.
func shardsText(l *kinesinv1.Lambda) string {
	if l.GetShardsFrom() == 0 {
		return strconv.Itoa(int(l.GetShards()))
	}
	return fmt.Sprintf("%d, for new tasks from %s on", l.GetShards(), instantText(l.GetShardsFrom()))
}

// lambdaFlags adds the flags for the settings that can be changed.
func lambdaFlags(f *pflag.FlagSet, l *admin.Lambda) {
	f.Var(intValue{&l.MaxAttempts, 1, task.AttemptsMax}, "max-attempts", helpOf("Lambda.max_attempts"))
	f.Var(durationValue{&l.Timeout, task.TimeoutMin, task.TimeoutMax}, "timeout", helpOf("Lambda.timeout"))
	f.Var(rangeValue{&l.BackoffMin, &l.BackoffMax}, "backoff", "shortest and longest pause before a retry; "+
		formatRange(task.BackoffMinDefault, task.BackoffMaxDefault)+" when not set")
	f.Var(intValue{&l.PoisonBound, task.PoisonBoundMin, task.PoisonBoundMax}, "poison-bound", helpOf("Lambda.poison_bound"))
	f.Var(durationValue{&l.StartWithin, task.StartWithinMin, task.StartWithinMax}, "start-within",
		"how long after its due time a task expires that has not started; never when not set")
	f.Var(durationValue{&l.KeyRetention, task.RetentionMin, task.RetentionMax}, "key-retention",
		"how long a key is held after its task ended in success or delivered; the retention when not set")
	f.Var(weightsValue{&l.PriorityWeights}, "priority-weights", fmt.Sprintf(
		"how starts are shared out while tasks of several priorities wait, such as high=8,normal=3,low=1, each 1 to %d (%d when not named); strict, the highest first, when not set",
		task.PriorityWeightMax, task.PriorityWeightFloor))
	f.Var(countLimit(&l.LimitKeyConcurrency, quotaConcurrencyMax, "limit_key_concurrency"), "limit-key-concurrency", fmt.Sprintf(
		"how many tasks of one limit key run at once, 1 to %d; any number when not set", task.LimitKeyConcurrencyMax))
	f.Var(rateLimit(&l.LimitKeyRate, "kinesin gate pause stops starts, and --reset limit_key_rate takes the limit away"), "limit-key-rate", "how many tasks of one limit key start per second, such as 10 or 0.5; any number when not set")
	brakeFlags(f, l)
	f.Var(durationValue{&l.Retention, task.RetentionMin, task.RetentionMax}, "retention", helpOf("Lambda.retention"))
}

// checkLambda refuses priorities and backoffs that no server would accept; the other flags have bounds.
func checkLambda(l *admin.Lambda) error {
	v := task.Lambda{Name: "any", Priorities: l.Priorities, BackoffMin: l.BackoffMin, BackoffMax: l.BackoffMax}
	if err := v.WithDefaults().Validate(); err != nil {
		return usagef("%v", err)
	}
	return nil
}

func (a *app) lambdaGetCommand() *cobra.Command {
	live, count := true, false
	c := &cobra.Command{
		Use:   "get NAME [--count | --live=false]",
		Short: "Show a lambda's settings, and how it does now",
		Long: `Shows the settings and quotas of a lambda, then live figures: workers, tasks, rates and lateness of the last minute, queues,
and what holds waiting tasks back. Rates, lateness and what is held back are those of the server that answers.`,
		Args: one("NAME"), ValidArgsFunction: a.lambdas().complete(a), Aliases: []string{"show"},
	}
	c.Flags().BoolVar(&live, "live", true, "also show live figures")
	c.Flags().BoolVar(&count, "count", false, "also count tasks that are due, and with DynamoDB estimate those of each state; reads tasks, there up to 20,000 rows")
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if count && !live {
			return usagef("--count is about live figures: it does not go with --live=false")
		}
		c := over(k)
		timed := ask[kinesinv1.GetLambdaRequest, kinesinv1.GetLambdaResponse]
		if live {
			timed = askSet
		}
		r, err := timed(ctx, c, "get lambda", c.Lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: args[0], Live: live, Count: count})
		if err != nil {
			return err
		}
		l := r.GetLambda()
		if live && l.GetLive() == nil {
			a.note("no live figures: the server is older than this program, or you may read only some collections of %s", l.GetName())
		}
		if a.output == formatJSON || a.output == formatName {
			return a.lambdas().show(a, l)
		}
		quotas, err := ask(ctx, c, "get quotas", c.Quotas.GetQuotas, &kinesinv1.GetQuotasRequest{Lambda: args[0]})
		if err != nil && !errors.Is(err, sdk.ErrUnsupported) { // of an older server
			return err
		}
		return a.printLambdaWith(l, quotas.GetQuotas())
	})
}

// brakeFlags adds the flags for the retry budget and the circuit breaker of a lambda.
func brakeFlags(f *pflag.FlagSet, l *admin.Lambda) {
	f.Var(shareLimit(&l.RetryShare, task.RetryShareMin, task.RetryShareMax), "retry-share", fmt.Sprintf(
		"how many retries may start for each first start, such as 0.2, so that a failing downstream sees no storm: %v to %v; any number when not set",
		task.RetryShareMin, task.RetryShareMax))
	f.Var(shareLimit(&l.Breaker.Failures, task.BreakerFailuresMin, task.BreakerFailuresMax), "breaker-failures", fmt.Sprintf(
		"pause the lambda when this share of its attempts fails, such as 0.5, until probes succeed: %v to %v; never when not set", task.BreakerFailuresMin, task.BreakerFailuresMax))
	f.Var(durationValue{&l.Breaker.Window, task.BreakerWindowMin, task.BreakerWindowMax}, "breaker-window", "over which time --breaker-failures counts attempts; "+formatDuration(task.BreakerWindowDefault)+" when not set")
}

func brakeRows(t table, l *kinesinv1.Lambda) {
	if l.GetRetryShare() > 0 {
		t.row("retry share", shareText(l.GetRetryShare()))
	}
	if b := l.GetBreaker(); b.GetFailures() > 0 {
		t.row("breaker", fmt.Sprintf("at %s failures in %s", shareText(b.GetFailures()), spanText(b.GetWindow())))
	}
}

func shareText(share float64) string { return strconv.FormatFloat(share, 'f', -1, 64) }

// liveRows adds the live figures of a lambda.
func liveRows(t table, l *kinesinv1.Lambda) {
	s := l.GetLive()
	if !isDeliver(l) && s.Workers != nil {
		t.row("workers", strconv.FormatInt(s.GetWorkers(), 10))
	}
	t.row("live tasks", liveTasksText(s))
	t.fact("overdue", overdueText(s))
	started := "first starts"
	if isDeliver(l) {
		started = "deliveries"
	}
	t.row("last minute", fmt.Sprintf("%.1f/s %s, %.1f/s ends, %.1f/s failed attempts", s.GetStartedPerSecond(), started, s.GetEndedPerSecond(), s.GetFailedPerSecond()))
	if s.GetThrottledPerSecond() > 0 {
		t.row("refused", fmt.Sprintf("%.1f/s by admission quotas", s.GetThrottledPerSecond()))
	}
	if s.GetLatenessP99() > 0 {
		t.row("lateness", fmt.Sprintf("p50 %s, p99 %s", millisText(s.GetLatenessP50()), millisText(s.GetLatenessP99())))
	}
	for _, p := range s.GetPriorities() {
		t.row("queue "+p.GetPriority(), queueText(p))
	}
	for _, h := range s.GetHeldBy() {
		t.row("held back by", heldByText(h))
	}
	if len(s.GetHeldBy()) == 0 {
		t.row("held back by", "nothing that this server knows of")
	}
}

// liveTasksText says how many tasks live, if that is known.
func liveTasksText(s *kinesinv1.LambdaStats) string {
	if !s.GetExact() && len(s.GetTasks()) == 0 && s.Due == nil {
		return "not counted; --count estimates them"
	}
	count := func(states ...sdk.State) string { return numberText(tasksIn(s, states...), s.GetExact()) }
	text := fmt.Sprintf("%s scheduled, %s queued, %s run", count(scheduledStates...), count(queuedStates...), count(runningStates...))
	if s.Due != nil {
		text += "; " + numberText(s.GetDue(), s.GetDueExact()) + " are due"
	}
	return text
}

// numberText marks an estimate.
func numberText(n int64, exact bool) string {
	text := strconv.FormatInt(n, 10)
	if !exact {
		return "~" + text
	}
	return text
}

// overdueText says how long the task is overdue that has waited longest; empty if none is.
func overdueText(s *kinesinv1.LambdaStats) string {
	if s.GetOldestDue() == 0 {
		return ""
	}
	late := max(0, clock.Real().Now().Time().Sub(time.UnixMicro(s.GetOldestDue())))
	if late < time.Second {
		return late.Round(time.Millisecond).String()
	}
	return late.Round(time.Second).String()
}

func queueText(p *kinesinv1.PriorityStats) string {
	text := "not known"
	if p.Queued != nil {
		text = fmt.Sprintf("%d tasks", p.GetQueued())
		if p.GetInFlight() > 0 {
			text += fmt.Sprintf(", %d in flight", p.GetInFlight())
		}
		if p.GetOldest() > 0 {
			text += ", oldest " + task.Micros(p.GetOldest()).Round(time.Millisecond).String()
		}
	}
	return text + fmt.Sprintf("; %.1f/s started", p.GetStartedPerSecond())
}

func heldByText(h *kinesinv1.HeldBy) string {
	if h.Tasks == nil {
		return h.GetText()
	}
	return fmt.Sprintf("%s: about %d tasks here", h.GetText(), h.GetTasks())
}

// heldByReasons returns why tasks wait, each reason once.
func heldByReasons(all []*kinesinv1.HeldBy) string {
	var reasons []string
	for _, h := range all {
		reason := h.GetReason()
		if h.GetGate() != "" {
			reason += " " + h.GetGate()
		}
		if len(reasons) == 0 || reasons[len(reasons)-1] != reason {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, ", ")
}
