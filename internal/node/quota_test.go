package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

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
