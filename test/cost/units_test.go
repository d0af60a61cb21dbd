package cost

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const n = 20 // tasks of a load

// A machine that is slow for a moment adds the note that an attempt runs for more than 200 ms, so the least of a few loads counts.
func TestWriteUnitsOfManagedTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	s.lambda(t, sdk.LambdaInfo{Name: "managed"})
	s.work(t, "managed", atOnce, sdk.Slots(n))

	for _, c := range []struct {
		name  string
		item  sdk.Item
		units float64
	}{
		{"scheduled", sdk.Item{In: 2 * time.Second, Payload: make([]byte, 600)}, 7},
		{"immediate", sdk.Item{Payload: make([]byte, 600)}, 5},
		// The payload pays for its own write (10 KiB and its key: 11 units) and adds nothing to the others.
		{"immediate, payload of 10 KiB", sdk.Item{Payload: make([]byte, 10<<10)}, 5 + 11},
	} {
		c.item.Lambda = "managed"
		least := math.Inf(1)
		for range 3 {
			before := s.quiet(t)
			s.succeed(t, s.schedule(t, items(n, c.item)...))
			if least = min(least, tasks(s.quiet(t).since(before).writes)); least <= c.units*n {
				break
			}
		}
		perTask(t, c.name+": write units", least, n, c.units)
	}
}

func TestWriteUnitsOfACancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	s.lambda(t, sdk.LambdaInfo{Name: "managed"})
	ids := s.schedule(t, items(n, sdk.Item{Lambda: "managed", In: time.Hour})...)
	before := s.quiet(t)
	for _, id := range ids {
		if outcome, err := s.client.Cancel(t.Context(), id); err != nil || outcome != "cancelled" {
			t.Fatal(outcome, err)
		}
	}
	perTask(t, "cancel: write units", tasks(s.quiet(t).since(before).writes), n, 2)
}

func TestWriteUnitsOfADeliveredTask(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	s.lambda(t, sdk.LambdaInfo{Name: "deliver", Mode: task.Deliver.String()})
	before := s.quiet(t)
	ids := s.schedule(t, items(n, sdk.Item{Lambda: "deliver", In: 2 * time.Second, Payload: []byte(`{"user":42}`)})...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.client.Wait(ctx, ids...); err != nil {
		t.Fatal(err)
	}
	perTask(t, "deliver: write units", tasks(s.quiet(t).since(before).writes), n, 3)
}

// Ten tasks that run over several leases cost the same heartbeats as one, and each no more writes than a short one: 5, and 1 for
// the note that it started. Under a lease shorter than the enqueue timeout its claim moves the wake-up, which is
// 2 more.
func TestHeartbeatsCostByWorker(t *testing.T) {
	t.Parallel()
	const runs = 10 * time.Second
	s := newSite(t, true)
	s.lambda(t, sdk.LambdaInfo{Name: "long"})
	s.work(t, "long", func(ctx context.Context) error {
		select {
		case <-time.After(runs):
		case <-ctx.Done():
		}
		return ctx.Err()
	}, sdk.Slots(10), sdk.Lease(3*time.Second))

	var heartbeats [2]float64
	for i, k := range []int{1, 10} {
		before := s.quiet(t)
		s.succeed(t, s.schedule(t, items(k, sdk.Item{Lambda: "long"})...))
		d := s.now().since(before)
		heartbeats[i] = control(d.writes)
		perTask(t, "running for three leases: write units", tasks(d.writes), k, 5+1+2)
	}
	t.Logf("control rows: %.0f units under one task, %.0f under ten", heartbeats[0], heartbeats[1])
	if heartbeats[1] > heartbeats[0]+3 {
		t.Errorf("ten tasks cost %.0f units of heartbeats, one costs %.0f", heartbeats[1], heartbeats[0])
	}
}

func TestReadUnitsOfAnIdlePartition(t *testing.T) {
	t.Parallel()
	const span = 32 * time.Second // two windows
	s := newSite(t, true)
	s.lambda(t, sdk.LambdaInfo{Name: "idle"})
	s.quiet(t)
	before := s.now()
	select {
	case <-time.After(span):
	case <-t.Context().Done():
	}
	d := s.now().since(before)
	each := tasks(d.reads) / span.Seconds()
	t.Logf("idle partition: %.3f read units a second", each)
	if each > 0.2 {
		t.Errorf("an idle partition takes %.3f read units a second, want at most 0.2", each)
	}
	if each == 0 {
		t.Error("an idle partition was not read at all")
	}
	if w := tasks(d.writes); w != 0 {
		t.Errorf("an idle partition takes %.1f write units", w)
	}
}
