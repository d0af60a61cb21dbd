package harness

import (
	"os"
	"slices"
	"testing"
	"time"
)

// Figure prints a measured value in the one form that docs/internals/reliability.md quotes.
func Figure(tb testing.TB, name string, value any) {
	tb.Helper()
	if d, isDuration := value.(time.Duration); isDuration {
		value = d.Round(100 * time.Microsecond)
	}
	tb.Logf("FIGURE %s=%v", name, value)
}

// Within fails the test if a duration is above its bar.
func Within(tb testing.TB, name string, d, bar time.Duration) {
	tb.Helper()
	Figure(tb, name, d)
	if d > bar {
		tb.Errorf("%s took %v, want at most %v", name, d, bar)
	}
}

// Quantiles prints the median, the 99th percentile and the greatest of some values, which it sorts, and
// returns the greatest.
func Quantiles(tb testing.TB, name string, all []time.Duration) time.Duration {
	tb.Helper()
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	greatest := all[len(all)-1]
	Figure(tb, name+"_p50", all[len(all)/2])
	Figure(tb, name+"_p99", all[len(all)*99/100])
	Figure(tb, name+"_max", greatest)
	return greatest
}

// Long reports whether the run is the one whose figures are published.
func Long() bool { return os.Getenv("KINESIN_LONG") != "" }

// Either is the first value in a long run, and the second otherwise.
func Either[T any](inLong, inShort T) T {
	if Long() {
		return inLong
	}
	return inShort
}
