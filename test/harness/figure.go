package harness

import (
	"testing"
	"time"
)

// Figure prints a measured value in the one form that docs/reliability.md quotes.
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
