package refusal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
)

// TestWhatDoesNotAnswerIsUnavailable: clients try that again, and learn nothing of where it is.
func TestWhatDoesNotAnswerIsUnavailable(t *testing.T) {
	cause := errors.New("dial tcp 10.0.0.7:443: connection refused")
	for _, c := range []struct {
		err  error
		says string
	}{
		{store.ErrUnreachable, "the store does not answer"},
		{queue.ErrUnreachable, "the queue service does not answer"},
		{fmt.Errorf("%w: %w", store.ErrUnknown, store.ErrUnreachable), "the outcome of the write is unknown"},
		{&store.ConflictError{}, "other calls changed the same thing at the same time; try again"},
		{store.ErrSkipped, "other calls changed the same thing at the same time; try again"},
	} {
		p := refusal.Problem(fmt.Errorf("read lambdas: %w: %w", c.err, cause))
		if p.Reason != kinesinv1.Reason_REASON_UNAVAILABLE || !strings.Contains(p.Text, c.says) || strings.Contains(p.Text, "10.0.0.7") {
			t.Errorf("%v: %v", c.err, p)
		}
	}
}
