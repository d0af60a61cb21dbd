package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
)

// Workers meet an outage of the store many times a second: all of it is counted, and little of it logged.
func TestFailuresOfTheHSCAndTheStoreAreCounted(t *testing.T) {
	var away *storetest.Away
	over := func(d store.Driver) store.Driver { away = storetest.NewAway(d); return away }
	inRig(t, drivers{over: over}, 1, remote, func(r *rig) {
		r.lambda(sdk.LambdaInfo{Name: "mail", BackoffMin: time.Second, BackoffMax: 2 * time.Second})
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

func TestFailuresOfTheHSCAreLoggedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := &Node{log: slog.New(slog.NewTextHandler(&log, nil)), clock: clock.Real(), metrics: NewMetrics()}
		failed := n.hscHooks().Failed
		p := &process{node: n}
		for range 100 {
			failed("claim", errors.New("away"))
			failed("send messages", errors.New("full"))
			failed("receive messages", fmt.Errorf("receive: %w", context.Canceled))
			time.Sleep(failureEvery / 50)
		}
		if n := p.series(t, "kinesin_hsc_failures_total"); n != 200 {
			t.Errorf("counted %v, want 200", n)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := []string{"what=claim error=away more=0", `what="send messages" error=full more=0`, "what=claim error=away more=49", `what="send messages" error=full more=49`}
		if len(lines) != len(want) {
			t.Fatalf("%d lines:\n%s", len(lines), log.String())
		}
		for i, line := range lines {
			if !strings.Contains(line, want[i]) {
				t.Errorf("line %d is %q, want %q", i, line, want[i])
			}
		}
	})
}

// What no caller waits for, and what is not there, is no error of the store.
func TestStoreErrorsAreCountedByOperation(t *testing.T) {
	m := NewMetrics()
	p := &process{node: &Node{metrics: m}}
	m.storeOp("apply", 1, time.Millisecond, errors.New("away"))
	m.storeOp("tasks", 1, time.Millisecond, fmt.Errorf("read: %w", store.ErrThrottled))
	for _, err := range []error{nil, fmt.Errorf("task: %w", store.ErrNotFound), fmt.Errorf("read: %w", context.Canceled)} {
		m.storeOp("payload", 1, time.Millisecond, err)
	}
	if n := p.series(t, "kinesin_store_errors_total"); n != 2 {
		t.Errorf("counted %v, want 2", n)
	}
}
