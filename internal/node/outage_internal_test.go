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

// One of several servers over a store stays ready in an outage, and its answer says what is away.
func TestReadinessSaysWhatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{storeOutage: outage{clock: clock.Real()}, queueOutage: outage{clock: clock.Real()}}
		n.queueOutage.note(queue.ErrUnreachable)
		time.Sleep(unreadMax)
		if got := n.ready(); got != "ready" {
			t.Errorf("a short outage: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := n.ready(); got != "ready, but the queue has not answered for 7s" {
			t.Errorf("%q", got)
		}
		n.storeOutage.note(store.ErrUnreachable)
		time.Sleep(unreadMax + time.Second)
		if got := n.ready(); got != "ready, but the store has not answered for 6s" {
			t.Errorf("%q", got)
		}
	})
}
