package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		n.listCommand(a, &cobra.Command{Short: "List all lambdas"}, func(ctx context.Context, k *sdk.Client, _ []string) ([]admin.Lambda, error) {
			all, err := n.list(ctx, k)
			a.noteRefused(all)
			return all, err
		}))
}

// noteRefused says which registrations are refused.
func (a *app) noteRefused(all []admin.Lambda) {
	for i := range all {
		if l := &all[i]; l.RegistrationRefused != "" && !a.json() {
			a.note("the registration of %s is refused: `kinesin lambda get %s` says why", l.Name, l.Name)
		}
	}
}

// lambdaObject is a lambda in JSON results.
type lambdaObject struct {
	Name         string   `json:"name"`
	Mode         string   `json:"mode"`
	Priorities   []string `json:"priorities"`
	Shards       int      `json:"shards"`
	ShardsFrom   string   `json:"shards_from,omitempty"`  // if its shards grew
	MaxAttempts  int      `json:"max_attempts,omitempty"` // this and the next three: not for mode deliver
	TimeoutMS    float64  `json:"timeout_ms,omitempty"`
	BackoffMinMS float64  `json:"backoff_min_ms,omitempty"`
	BackoffMaxMS float64  `json:"backoff_max_ms,omitempty"`
	RetentionMS  float64  `json:"retention_ms"`

	KeyRetentionMS float64 `json:"key_retention_ms"`
	PoisonBound    int     `json:"poison_bound,omitempty"`    // not for mode deliver
	StartWithinMS  float64 `json:"start_within_ms,omitempty"` // if it is set

	PriorityWeights map[string]int `json:"priority_weights,omitempty"` // unless strict

	LimitKeyConcurrency int     `json:"limit_key_concurrency,omitempty"` // if it is set
	LimitKeyRate        float64 `json:"limit_key_rate,omitempty"`        // if it is set
	RetryShare          float64 `json:"retry_share,omitempty"`           // this and the next two: if they are set
	BreakerFailures     float64 `json:"breaker_failures,omitempty"`
	BreakerWindowMS     float64 `json:"breaker_window_ms,omitempty"`

	Created    string `json:"created,omitempty"`
	Deleting   bool   `json:"deleting"`
	Registered bool   `json:"registered"`
	Withdrawn  bool   `json:"withdrawn"`
	Refused    string `json:"registration_refused,omitempty"`

	Quotas []quotaObject `json:"quotas,omitempty"` // this and the next one: get only
	Live   *statsObject  `json:"live,omitempty"`
}

func lambdaObjectOf(l *admin.Lambda) lambdaObject {
	return lambdaObject{
		RetryShare: l.RetryShare, BreakerFailures: l.Breaker.Failures, BreakerWindowMS: millis(l.Breaker.Window),
		Name: l.Name, Mode: string(l.Mode), Priorities: l.Priorities, Shards: l.Shards, MaxAttempts: l.MaxAttempts,
		TimeoutMS: millis(l.Timeout), BackoffMinMS: millis(l.BackoffMin), BackoffMaxMS: millis(l.BackoffMax), RetentionMS: millis(l.Retention),
		KeyRetentionMS: millis(cmp.Or(l.KeyRetention, l.Retention)), PoisonBound: poisonBound(l), StartWithinMS: millis(l.StartWithin),
		Created: timeText(l.Created), ShardsFrom: timeText(l.ShardsFrom), Deleting: l.Deleting, Registered: l.Registered, Withdrawn: l.Withdrawn,
		Refused: l.RegistrationRefused, PriorityWeights: l.PriorityWeights, LimitKeyConcurrency: l.LimitKeyConcurrency, LimitKeyRate: l.LimitKeyRate,
	}
}

// poisonBound returns how many losses in a row make a task dead; 0 for mode deliver.
func poisonBound(l *admin.Lambda) int {
	if l.Mode == admin.ModeDeliver {
		return 0
	}
	return cmp.Or(l.PoisonBound, task.PoisonBoundDefault)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (a *app) printLambda(l *admin.Lambda) error {
	t := newTable(a.Stdout)
	lambdaRows(t, l)
	return t.Flush()
}

// printLambdaWith prints a lambda with its quotas and, if it has them, its live figures.
func (a *app) printLambdaWith(l *admin.Lambda, quotas []admin.Quota) error {
	if a.json() {
		o := lambdaObjectOf(l)
		for i := range quotas {
			o.Quotas = append(o.Quotas, quotaObjectOf(&quotas[i]))
		}
		if l.Live != nil {
			live := statsObjectOf(l.Live)
			o.Live = &live
		}
		return printJSON(a.Stdout, o)
	}
	if a.output == formatName {
		return a.printLine(l.Name)
	}
	t := newTable(a.Stdout)
	lambdaRows(t, l)
	for i := range quotas {
		t.row("quota", strings.TrimPrefix(strings.TrimPrefix(quotaText(&quotas[i]), l.Name+": "), l.Name+", "))
	}
	if l.Live != nil {
		liveRows(t, l)
	}
	return t.Flush()
}

func lambdaRows(t table, l *admin.Lambda) {
	t.row("name", l.Name)
	t.row("mode", string(l.Mode))
	t.row("priorities", strings.Join(l.Priorities, ","))
	t.fact("priority weights", weightsText(l))
	t.row("shards", shardsText(l))
	if l.Mode != admin.ModeDeliver {
		t.row("max attempts", strconv.Itoa(l.MaxAttempts))
		t.row("timeout", formatDuration(l.Timeout))
		t.row("backoff", formatRange(l.BackoffMin, l.BackoffMax))
		t.row("poison bound", strconv.Itoa(poisonBound(l)))
	}
	brakeRows(t, l)
	if l.StartWithin > 0 {
		t.row("start within", formatDuration(l.StartWithin))
	}
	t.fact("limit by key", keyLimitText(l))
	t.row("retention", formatDuration(l.Retention))
	t.row("key retention", formatDuration(cmp.Or(l.KeyRetention, l.Retention)))
	t.row("created", timeText(l.Created))
	t.fact("registered", registeredText(l))
	if l.Deleting {
		t.row("deleting", "yes: it accepts no new tasks")
	}
}

func registeredText(l *admin.Lambda) string {
	switch {
	case l.Withdrawn:
		return fmt.Sprintf("withdrawn: deleted when its tasks have ended; restore the module call, or kinesin lambda delete %s --drop", l.Name)
	case l.Registered && l.RegistrationRefused != "":
		return "by Terraform, refused: " + l.RegistrationRefused
	case l.Registered:
		return "by Terraform"
	case l.RegistrationRefused != "":
		return "not yet, refused: " + l.RegistrationRefused
	}
	return ""
}

// weightsText returns the weights of the priorities, in their order; empty where that is strict.
func weightsText(l *admin.Lambda) string {
	if len(l.PriorityWeights) == 0 {
		return ""
	}
	parts := make([]string, len(l.Priorities))
	for i, name := range l.Priorities {
		parts[i] = fmt.Sprintf("%s=%d", name, l.PriorityWeights[name])
	}
	return strings.Join(parts, ",")
}

// keyLimitText says for people how the tasks of each limit key are limited; empty where they are not.
func keyLimitText(l *admin.Lambda) string {
	var parts []string
	if l.LimitKeyConcurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", l.LimitKeyConcurrency))
	}
	if l.LimitKeyRate > 0 {
		parts = append(parts, rateText(l.LimitKeyRate)+" starts")
	}
	return strings.Join(parts, ", ")
}

// shardsText returns the number of shards and, if they grew, from when on new tasks use them.
func shardsText(l *admin.Lambda) string {
	if l.ShardsFrom.IsZero() {
		return strconv.Itoa(l.Shards)
	}
	return fmt.Sprintf("%d, for new tasks from %s on", l.Shards, timeText(l.ShardsFrom))
}

// lambdaFlags adds the flags for the settings that can be changed.
func lambdaFlags(f *pflag.FlagSet, l *admin.Lambda) {
	f.Var(intValue{&l.MaxAttempts, 1, task.AttemptsMax}, "max-attempts", fmt.Sprintf("how many attempts may fail before a task is dead, 1 to %d; %d when not set", task.AttemptsMax, task.MaxAttemptsDefault))
	f.Var(durationValue{&l.Timeout, task.TimeoutMin, task.TimeoutMax}, "timeout", "how long one attempt may take; "+formatDuration(task.TimeoutDefault)+" when not set")
	f.Var(rangeValue{&l.BackoffMin, &l.BackoffMax}, "backoff", "shortest and longest pause before a retry; "+
		formatRange(task.BackoffMinDefault, task.BackoffMaxDefault)+" when not set")
	f.Var(intValue{&l.PoisonBound, task.PoisonBoundMin, task.PoisonBoundMax}, "poison-bound", fmt.Sprintf(
		"how many attempts in a row may be lost with their workers before a task is dead; %d when not set", task.PoisonBoundDefault))
	f.Var(neverValue{durationValue{&l.StartWithin, task.StartWithinMin, task.StartWithinMax}, "never"}, "start-within",
		"how long after its due time a task expires that has not started, or never; never when not set")
	f.Var(neverValue{durationValue{&l.KeyRetention, task.RetentionMin, task.RetentionMax}, "retention"}, "key-retention",
		"how long a key is held after its task ended in success or delivered, or the word retention; the retention when not set")
	f.Var(weightsValue{&l.PriorityWeights}, "priority-weights", fmt.Sprintf(
		"how starts are shared out while tasks of several priorities wait, such as high=8,normal=3,low=1, each 1 to %d (%d when not named); or strict, the highest first, as when not set",
		task.PriorityWeightMax, task.PriorityWeightFloor))
	f.Var(countLimit(&l.LimitKeyConcurrency, quotaConcurrencyMax, "limit-key-concurrency"), "limit-key-concurrency", fmt.Sprintf(
		"how many tasks of one limit key run at once, 1 to %d, or none; none when not set", task.LimitKeyConcurrencyMax))
	f.Var(rateLimit(&l.LimitKeyRate, "kinesin gate pause stops starts, and --limit-key-rate none takes the limit away"), "limit-key-rate", "how many tasks of one limit key start per second, such as 10 or 0.5, or none; none when not set")
	brakeFlags(f, l)
	f.Var(durationValue{&l.Retention, task.RetentionMin, task.RetentionMax}, "retention", "how long ended tasks are kept; "+formatDuration(task.RetentionDefault)+" when not set")
}

// checkLambda refuses priorities and backoffs that no server would accept; the other flags have bounds.
func checkLambda(l *admin.Lambda) error {
	v := task.Lambda{Name: "any", Priorities: l.Priorities, BackoffMin: l.BackoffMin, BackoffMax: l.BackoffMax}
	if err := v.WithDefaults().Validate(); err != nil {
		return usagef("%v", err)
	}
	return checkBreaker(l)
}
