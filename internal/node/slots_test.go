package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// atOnce counts how many handlers run at once.
type atOnce struct {
	mu         sync.Mutex
	now, most  int
	runs, ends int
}

func (a *atOnce) begin() (run int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now, a.runs = a.now+1, a.runs+1
	a.most = max(a.most, a.now)
	return a.runs
}

func (a *atOnce) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now, a.ends = a.now-1, a.ends+1
}

// counts returns how many have begun, how many of these have ended, and how many ran at once at most.
func (a *atOnce) counts() (runs, ends, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs, a.ends, a.most
}

// lasting runs for a time. Every tenth fails at first.
func (a *atOnce) lasting(d time.Duration) sdk.Handler {
	return func(ctx context.Context, t *sdk.Task[[]byte]) error {
		run := a.begin()
		defer a.end()
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
		if run%10 == 0 && t.Attempt == 1 {
			return errors.New("once")
		}
		return nil
	}
}

func (r *rig) scheduleMany(lambda string, count int) {
	r.Helper()
	items := make([]sdk.Item, count)
	for i := range items {
		items[i] = sdk.Item{Lambda: lambda}
		if i%5 == 0 {
			items[i].In = 3 * time.Second
		}
		if i%7 == 0 {
			items[i].Key = fmt.Sprint(i)
		}
	}
	results, err := r.client.ScheduleMany(r.ctx, items)
	if err != nil {
		r.Fatal(err)
	}
	for i := range results {
		r.book.accepted(results[i].ID)
	}
}

// TestNoMoreThanTheQuotaRunAtOnce has many tasks due at once on one node and on several, and wants the slots
// to be used and never exceeded.
func TestNoMoreThanTheQuotaRunAtOnce(t *testing.T) {
	const concurrency, count, lasts = 5, 200, 200 * time.Millisecond
	for name, c := range map[string]struct {
		nodes  int
		config func(*Config)
		within time.Duration // all have run
	}{
		"alone":         {1, nil, 15 * time.Second},
		"three, shared": {3, func(c *Config) { remote(c); c.Shared = true }, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, drivers{}, c.nodes, c.config, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Shards: 4, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
				if _, err := r.admin().Quotas.Set(r.ctx, admin.Quota{Lambda: "mail", Concurrency: concurrency}, admin.QuotaSetOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				var a atOnce
				for _, p := range r.nodes {
					r.work(p, "mail", a.lasting(lasts), sdk.Slots(200))
				}
				r.scheduleMany("mail", count)
				began := time.Now()
				r.settled(5 * time.Minute)
				took := time.Since(began)
				if _, _, most := a.counts(); most != concurrency || took > c.within {
					t.Errorf("%d ran at once, want %d; all had run after %v, want at most %v", most, concurrency, took, c.within)
				}
				t.Logf("%d runs in %v", a.runs, took)
			})
		})
	}
}

// wantPaced wants so many starts in each window of 10 s, within 5 %.
func wantPaced(t *testing.T, starts []time.Duration, perSecond int, from, to time.Duration) {
	t.Helper()
	for at := from; at+10*time.Second <= to; at += 2 * time.Second {
		n := 0
		for _, s := range starts {
			if s >= at && s < at+10*time.Second {
				n++
			}
		}
		if want := perSecond * 10; n < want*95/100 || n > want*105/100 {
			t.Errorf("%d starts in the 10 s from %v on, want %d within 5 %%", n, at, want)
		}
	}
}

// pacedStarts notes when tasks start, and lets every tenth fail at first.
type pacedStarts struct {
	mu  sync.Mutex
	all []time.Duration
}

func (s *pacedStarts) note(at time.Duration) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, at)
	return len(s.all)
}

func (s *pacedStarts) noting(began time.Time) sdk.Handler {
	return func(_ context.Context, t *sdk.Task[[]byte]) error {
		if s.note(time.Since(began))%10 == 0 && t.Attempt == 1 {
			return errors.New("once")
		}
		return nil
	}
}

func (s *pacedStarts) take() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// TestNodesKeepAQuotaTogether has tasks due at once on several nodes, and wants all
// to start at the rate of the lambda. A tenth fails at first.
func TestNodesKeepAQuotaTogether(t *testing.T) {
	const perSecond, count = 50, 2600
	for name, c := range map[string]struct {
		nodes  int
		config func(*Config)
	}{
		"alone":         {1, nil},
		"three, shared": {3, func(c *Config) { remote(c); c.Shared = true }},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, drivers{}, c.nodes, c.config, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Shards: 4, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
				if _, err := r.admin().Quotas.Set(r.ctx, admin.Quota{Lambda: "mail", Rate: perSecond}, admin.QuotaSetOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				began := time.Now()
				var s pacedStarts
				for _, p := range r.nodes {
					r.work(p, "mail", s.noting(began), sdk.Slots(200))
				}
				r.scheduleMany("mail", count)
				time.Sleep(time.Minute)
				wantPaced(t, s.take(), perSecond, 2*time.Second, 50*time.Second)
				r.settled(time.Minute)
			})
		})
	}
}
