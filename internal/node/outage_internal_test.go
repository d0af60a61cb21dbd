package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
)

func TestHowLongAnOutageLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := outage{clock: clock.Real()}
		away := fmt.Errorf("read: %w", store.ErrUnreachable)
		for _, step := range []struct {
			err  error
			want time.Duration // a second later
		}{
			{nil, 0},
			{away, time.Second},
			{away, 2 * time.Second},
			{context.Canceled, 3 * time.Second},
			{queue.ErrUnreachable, 4 * time.Second},
			{store.ErrNotFound, 0},
			{store.ErrUnknown, time.Second},
			{errors.Join(queue.ErrFull), 0},
			{context.DeadlineExceeded, time.Second},
			{nil, 0},
		} {
			o.note(step.err)
			time.Sleep(time.Second)
			if got := o.lasts(); got != step.want {
				t.Errorf("after %v: %v, want %v", step.err, got, step.want)
			}
		}
	})
}
