// Package runtest runs things beside a test, keeps what they say and waits for what they do.
package runtest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"
)

// eventuallyEvery is how often Eventually looks.
const eventuallyEvery = 20 * time.Millisecond

// Start runs something until stop, or until the test is over. The test fails if it ends with an error.
func Start(tb testing.TB, run func(ctx context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("run: %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// Eventually fails the test unless something holds in time.
func Eventually(tb testing.TB, atMost time.Duration, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(atMost); !holds(); time.Sleep(eventuallyEvery) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", atMost, what)
		}
	}
}

// Text is what several goroutines write and a test reads meanwhile.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns what was written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
