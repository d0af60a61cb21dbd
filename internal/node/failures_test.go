package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
)

// Workers meet an outage of the store many times a second, and every failure is counted.
func TestFailuresOfTheHSCAndTheStoreAreCounted(t *testing.T) {
	var away *storetest.Away
	over := func(d store.Driver) store.Driver { away = storetest.NewAway(d); return away }
	inRig(t, drivers{over: over}, 1, remote, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", BackoffMin: time.Second, BackoffMax: 2 * time.Second})
		r.work(r.nodes[0], "mail", lasts, sdk.Slots(10))
		for range 10 {
			r.lasting(2*time.Second, 0)
		}
		time.Sleep(time.Second)
		away.Set(true, true)
		time.Sleep(5 * time.Second)
		away.Set(false, false)
		if n := r.nodes[0].series(t, "kinesin_hsc_failures_total"); n < 3 {
			t.Errorf("%v failures of the hsc", n)
		}
		if n := r.nodes[0].series(t, "kinesin_store_errors_total"); n < 3 {
			t.Errorf("%v failed calls to the store", n)
		}
		r.settled(30 * time.Minute)
	})
}

func TestCancelledCallsAreNoFailuresOfTheHSC(t *testing.T) {
	var log bytes.Buffer
	n := &Node{log: slog.New(slog.NewTextHandler(&log, nil)), metrics: NewMetrics(MetricsConfig{})}
	failed := n.hscHooks().Failed
	failed("send messages", errors.New("full"))
	failed("receive messages", fmt.Errorf("receive: %w", context.Canceled))
	p := &process{node: n}
	if n := p.series(t, "kinesin_hsc_failures_total"); n != 1 {
		t.Errorf("counted %v, want 1", n)
	}
	if !strings.Contains(log.String(), `what="send messages" error=full`) || strings.Contains(log.String(), "receive") {
		t.Errorf("logged %q", log.String())
	}
}

// A cancelled call and a missing row are no errors of the store.
func TestStoreErrorsAreCountedByOperation(t *testing.T) {
	m := NewMetrics(MetricsConfig{})
	p := &process{node: &Node{metrics: m}}
	m.storeOp("apply", time.Millisecond, errors.New("away"))
	m.storeOp("tasks", time.Millisecond, fmt.Errorf("read: %w", store.ErrThrottled))
	for _, err := range []error{nil, fmt.Errorf("task: %w", store.ErrNotFound), fmt.Errorf("read: %w", context.Canceled)} {
		m.storeOp("payload", time.Millisecond, err)
	}
	if n := p.series(t, "kinesin_store_errors_total"); n != 2 {
		t.Errorf("counted %v, want 2", n)
	}
}
