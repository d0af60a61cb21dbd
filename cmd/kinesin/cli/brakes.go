package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// brakeFlags adds the flags for the retry budget and the circuit breaker of a lambda.
func brakeFlags(f *pflag.FlagSet, l *sdk.LambdaInfo) {
	f.Var(shareLimit(&l.RetryShare, task.RetryShareMin, task.RetryShareMax), "retry-share", fmt.Sprintf(
		"how many retries may start for each first start, such as 0.2, so that a failing downstream sees no storm: %v to %v, or none; none when not set",
		task.RetryShareMin, task.RetryShareMax))
	f.Var(shareLimit(&l.BreakerFailures, task.BreakerFailuresMin, task.BreakerFailuresMax), "breaker-failures", fmt.Sprintf(
		"pause the lambda when this share of its attempts fails, such as 0.5, until probes succeed: %v to %v, or none; none when not set", task.BreakerFailuresMin, task.BreakerFailuresMax))
	f.Var(durationValue{&l.BreakerWindow, task.BreakerWindowMin, task.BreakerWindowMax}, "breaker-window", "over which time --breaker-failures counts attempts; "+formatDuration(task.BreakerWindowDefault)+" when not set")
}

func brakeRows(t table, l *sdk.LambdaInfo) {
	if l.RetryShare > 0 {
		t.row("retry share", shareText(l.RetryShare))
	}
	if l.BreakerFailures > 0 {
		t.row("breaker", fmt.Sprintf("at %s failures in %s", shareText(l.BreakerFailures), formatDuration(l.BreakerWindow)))
	}
}

func shareText(share float64) string { return strconv.FormatFloat(share, 'f', -1, 64) }

// checkBreaker refuses a window for a breaker that is taken away.
func checkBreaker(l *sdk.LambdaInfo) error {
	if l.BreakerFailures < 0 && l.BreakerWindow != 0 {
		return usagef("--breaker-window does not go with --breaker-failures none, which takes the breaker away")
	}
	return nil
}
