package cost

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

const n = 20 // tasks of a load

// Each life of a managed task costs a write less when a waiting worker is found for it. A machine that is
// slow for a moment adds the note that an attempt runs for more than 200 ms, so the least of a few loads
// counts.
func TestWriteUnitsOfManagedTasks(t *testing.T) {
	t.Parallel()
	failsOnce := func(_ context.Context, t *sdk.Task[[]byte]) error {
		if t.Failures == 0 {
			return errors.New("not this time")
		}
		return nil
	}
	for way, queued := range map[string]bool{"matched": false, "through the queue": true} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, options{single: true, queued: queued})
			s.Lambda(admin.Lambda{Name: "managed"})
			s.Lambda(admin.Lambda{Name: "soon", BackoffMin: time.Second, BackoffMax: time.Second})
			s.Lambda(admin.Lambda{Name: "later", BackoffMin: 18 * time.Second, BackoffMax: 18 * time.Second})
			harness.Work(s.Node, "managed", atOnce, sdk.Slots(n))
			for _, lambda := range []string{"soon", "later"} {
				harness.Work(s.Node, lambda, failsOnce, sdk.Slots(n))
			}
			matched := map[bool]float64{false: 1}[queued]
			for _, c := range []struct {
				name, lambda string
				item         sdk.Item
				units        float64
			}{
				{"scheduled", "managed", sdk.Item{In: 2 * time.Second, Payload: make([]byte, 600)}, 5 - matched},
				{"immediate", "managed", sdk.Item{Payload: make([]byte, 600)}, 5 - matched},
				{"scheduled with a key", "managed", sdk.Item{In: 2 * time.Second, Key: "key"}, 6 - matched},
				{"immediate with a key", "managed", sdk.Item{Key: "key"}, 5 - matched},
				// The payload pays for its own write (10 KiB and its key: 11 units) and adds nothing to the
				// others.
				{"immediate, payload of 10 KiB", "managed", sdk.Item{Payload: make([]byte, 10<<10)}, 5 - matched + 11},
				{"tried again within seconds", "soon", sdk.Item{}, 5 + 3 - 2*matched},
				{"tried again later", "later", sdk.Item{}, 5 + 5 - 2*matched},
			} {
				c.item.Lambda = c.lambda
				least := math.Inf(1)
				for try := range 3 {
					load := items(n, c.item)
					for i := range load {
						if c.item.Key != "" {
							load[i].Key = fmt.Sprint(c.name, try, i)
						}
					}
					before := s.quiet(t)
					s.Succeed(s.Schedule(load...))
					if least = min(least, tasks(s.quiet(t).since(before).writes)); least <= c.units*n {
						break
					}
				}
				perTask(t, c.name+": write units", least, n, c.units)
			}
		})
	}
}

// A backlog is read ahead as far as memory has room for it, which is some 12,000 rows on one partition; up
// to there its units grow with its rows. Tasks that run on and on are not read by every read-ahead.
func TestReadUnitsOfWhatWaits(t *testing.T) {
	t.Parallel()
	const rows, span = 800, 16 * time.Second
	backlog := func(n int) func(t *testing.T, s *site) {
		return func(t *testing.T, s *site) {
			t.Helper()
			for range n / rows {
				s.Schedule(items(rows, sdk.Item{Lambda: "managed", In: time.Second})...)
			}
			<-time.After(4 * time.Second)
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, s *site)
		most    float64 // read units a second
	}{
		"800 tasks that are due, and no worker":   {backlog(rows), 15},
		"4,000 tasks that are due, and no worker": {backlog(5 * rows), 45},
		"tasks that run": {func(t *testing.T, s *site) {
			t.Helper()
			harness.Work(s.Node, "managed", func(ctx context.Context, _ *sdk.Task[[]byte]) error { <-ctx.Done(); return ctx.Err() }, sdk.Slots(rows))
			s.Schedule(items(rows, sdk.Item{Lambda: "managed", In: time.Second})...)
			<-time.After(65 * time.Second) // until they lie behind the margin of a read-ahead
		}, 60}, // each of their task rows once in that time is 50, and all rows by every read-ahead, each 8 s, more than 100
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, options{single: true, depth: 64})
			s.Lambda(admin.Lambda{Name: "managed", Timeout: time.Hour})
			c.prepare(t, s)
			before := s.now()
			<-time.After(span)
			reads := s.now().since(before).reads
			t.Logf("%s: %.1f read units a second, %.1f of the schedule", name, tasks(reads)/span.Seconds(), ofTable(reads, "schedule")/span.Seconds())
			if each := tasks(reads) / span.Seconds(); each > c.most {
				t.Errorf("%s: %.1f read units a second, want at most %.0f", name, each, c.most)
			}
		})
	}
}

func TestWriteUnitsOfACancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, options{single: true})
	s.Lambda(admin.Lambda{Name: "managed"})
	ids := s.Schedule(items(n, sdk.Item{Lambda: "managed", In: time.Hour})...)
	before := s.quiet(t)
	for _, id := range ids {
		if outcome, err := s.Client.Cancel(t.Context(), id); err != nil || outcome != "cancelled" {
			t.Fatal(outcome, err)
		}
	}
	perTask(t, "cancel: write units", tasks(s.quiet(t).since(before).writes), n, 2)
}

func TestWriteUnitsOfADeliveredTask(t *testing.T) {
	t.Parallel()
	s := newSite(t, options{single: true})
	s.Lambda(admin.Lambda{Name: "deliver", Mode: admin.ModeDeliver})
	before := s.quiet(t)
	ids := s.Schedule(items(n, sdk.Item{Lambda: "deliver", In: 2 * time.Second, Payload: []byte(`{"user":42}`)})...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Client.Wait(ctx, ids...); err != nil {
		t.Fatal(err)
	}
	perTask(t, "deliver: write units", tasks(s.quiet(t).since(before).writes), n, 3)
}

// Ten tasks that run over several leases cost the same heartbeats as one, and each no more writes than a
// short one: 5, and 1 for the note that it started; one less when it was matched.
func TestHeartbeatsCostByWorker(t *testing.T) {
	t.Parallel()
	const runs = 10 * time.Second
	s := newSite(t, options{single: true})
	s.Lambda(admin.Lambda{Name: "long"})
	harness.Work(s.Node, "long", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
		select {
		case <-time.After(runs):
		case <-ctx.Done():
		}
		return ctx.Err()
	}, sdk.Slots(10), sdk.Lease(3*time.Second))

	var heartbeats [2]float64
	for i, k := range []int{1, 10} {
		before := s.quiet(t)
		s.Succeed(s.Schedule(items(k, sdk.Item{Lambda: "long"})...))
		d := s.now().since(before)
		heartbeats[i] = control(d.writes)
		perTask(t, "running for three leases: write units", tasks(d.writes), k, 5+1)
	}
	t.Logf("control rows: %.0f units under one task, %.0f under ten", heartbeats[0], heartbeats[1])
	if heartbeats[1] > heartbeats[0]+3 {
		t.Errorf("ten tasks cost %.0f units of heartbeats, one costs %.0f", heartbeats[1], heartbeats[0])
	}
}

func TestReadUnitsOfAnIdlePartition(t *testing.T) {
	t.Parallel()
	const span = 32 * time.Second // two windows
	s := newSite(t, options{single: true})
	s.Lambda(admin.Lambda{Name: "idle"})
	s.quiet(t)
	before := s.now()
	select {
	case <-time.After(span):
	case <-t.Context().Done():
	}
	d := s.now().since(before)
	each := tasks(d.reads) / span.Seconds()
	t.Logf("idle partition: %.3f read units a second", each)
	if each > 0.16 {
		t.Errorf("an idle partition takes %.3f read units a second, want at most 0.16", each)
	}
	if each == 0 {
		t.Error("an idle partition was not read at all")
	}
	if w := tasks(d.writes); w != 0 {
		t.Errorf("an idle partition takes %.1f write units", w)
	}
}
