// Package alloctest bounds what a function allocates, for tests of what decodes the bytes of others.
package alloctest

import (
	"runtime"
	"testing"
)

// triesMax is how often a function is measured that seems to allocate too much: other goroutines may have
// done so meanwhile.
const triesMax = 5

// AtMost runs f, which can be repeated, and fails the test if it allocates more than a number of bytes.
func AtMost(tb testing.TB, bytes uint64, f func()) {
	tb.Helper()
	least := ^uint64(0)
	for range triesMax {
		if least = min(least, measure(f)); least <= bytes {
			return
		}
	}
	tb.Errorf("%d bytes were allocated, want %d at most", least, bytes)
}

func measure(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
