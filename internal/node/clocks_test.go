package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// ahead is a clock whose wall clock is wrong.
type ahead struct {
	clock.Clock

	by time.Duration
}

func (a ahead) Now() task.Instant { return a.Clock.Now().Add(a.by) }

// cable is a worker's connection to its server. While it is cut, calls fail and streams break.
type cable struct {
	http.RoundTripper

	mu    sync.Mutex
	out   bool
	calls map[int]context.CancelFunc
	next  int
}

var errCut = errors.New("the cable is cut")

func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	if c.out {
		c.mu.Unlock()
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errCut
	}
	ctx, cancel := context.WithCancel(r.Context())
	c.next++
	n := c.next
	if c.calls == nil {
		c.calls = map[int]context.CancelFunc{}
	}
	c.calls[n] = cancel
	c.mu.Unlock()
	context.AfterFunc(r.Context(), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, n)
	})
	return c.RoundTripper.RoundTrip(r.WithContext(ctx))
}

func (c *cable) set(out bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out = out; !out {
		return
	}
	for _, cancel := range c.calls {
		cancel()
	}
	clear(c.calls)
}

// TestTakeoversWithClocksThatDiffer cuts the connections of workers again and again, for shorter and longer
// than their leases, over servers whose clocks differ by as much as is allowed. No task runs twice at once,
// wherever its next attempt is.
func TestTakeoversWithClocksThatDiffer(t *testing.T) {
	offsets := []time.Duration{-task.ClockBound / 2, 0, task.ClockBound / 2}
	next := 0
	config := func(c *Config) {
		remote(c)
		c.Clock = ahead{c.Clock, offsets[next]}
		next++
	}
	inRig(t, drivers{}, len(offsets), config, func(r *rig) {
		random := rand.New(rand.NewPCG(3, 4))
		r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour, Shards: 6, BackoffMin: time.Second, BackoffMax: time.Second, MaxAttempts: 100})
		var cables []*cable
		for i := range 9 {
			p := r.nodes[i%len(r.nodes)]
			c := &cable{RoundTripper: p.transport}
			cables = append(cables, c)
			r.workOver(c, "mail", lasts, sdk.Slots(20), sdk.Lease(3*time.Second))
		}
		const n = 400
		for i := range n {
			r.lasting(time.Second+time.Duration(random.IntN(6000))*time.Millisecond, time.Duration(i)*200*time.Millisecond)
		}
		for range 60 {
			chosen := random.Perm(len(cables))[:2]
			for _, i := range chosen {
				cables[i].set(true)
			}
			time.Sleep(500*time.Millisecond + time.Duration(random.IntN(4500))*time.Millisecond)
			for _, i := range chosen {
				cables[i].set(false)
			}
			time.Sleep(time.Second)
		}
		r.settled(30 * time.Minute)
		runs := r.book.check(t, 100)
		if r.book.deaths == 0 || runs == n {
			t.Errorf("%d runs, %d processes ended: the cuts did nothing", runs, r.book.deaths)
		}
		states := map[string]int{}
		for _, id := range r.book.all() {
			info, err := r.client.Get(r.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			states[info.State.String()]++
		}
		if dead := states["dead"]; len(states) > 2 || dead > n/20 {
			t.Errorf("ended as %v", states)
		}
		t.Logf("%d runs of %d tasks, %d processes ended, ended as %v", runs, n, r.book.deaths, states)
	})
}
