package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

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
