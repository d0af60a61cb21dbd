package harness

import (
	"testing"
	"time"
)

// eventuallyEvery is how often Eventually looks.
const eventuallyEvery = 20 * time.Millisecond

// Eventually fails the test unless something holds in time.
func Eventually(tb testing.TB, atMost time.Duration, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(atMost); !holds(); time.Sleep(eventuallyEvery) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", atMost, what)
		}
	}
}
