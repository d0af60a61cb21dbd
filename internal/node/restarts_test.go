package node

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
)

// address leads to the process that listens there now.
type address struct {
	mu  sync.Mutex
	now http.RoundTripper
}

func (a *address) set(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = p.transport
}

// RoundTrip implements http.RoundTripper.
func (a *address) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	now := a.now
	a.mu.Unlock()
	return now.RoundTrip(r)
}

// TestALostWorkerOfAServerThatRestartsOften restarts the only server again and again, before it has listened
// for a lease. Workers that live keep their tasks; those of one that is cut off start elsewhere, and not
// before its lease is over, also when the wall clock is set between two lives of the server.
func TestALostWorkerOfAServerThatRestartsOften(t *testing.T) {
	for _, c := range []struct {
		up, down time.Duration
		by       time.Duration // a step of the wall clock while the server is away, once
		within   time.Duration // of being up
	}{
		{up: 10 * time.Second, within: 20 * time.Second},
		{up: 4 * time.Second, down: time.Second, within: 40 * time.Second},
		{up: 900 * time.Millisecond, within: 50 * time.Second},
		{up: 4 * time.Second, by: time.Hour, within: 40 * time.Second},
		{up: 4 * time.Second, by: -20 * time.Second, within: 50 * time.Second}, // what was due before is found when it is due again
	} {
		t.Run(fmt.Sprintf("up %v, down %v, clock %v", c.up, c.down, c.by), func(t *testing.T) {
			set := time.Duration(0)
			config := func(f *Config) {
				k := &clocktest.Settable{Clock: clock.Real()}
				k.Step(set)
				f.Clock = k
			}
			inRig(t, drivers{}, 1, config, func(r *rig) {
				at := &address{}
				at.set(r.nodes[0])
				r.client = r.dial(at)
				restart := func() {
					time.Sleep(c.up)
					r.nodes[0].stop()
					time.Sleep(c.down)
					r.nodes[0] = r.start(drivers{}, []string{"node-0"}, 0, config)
					at.set(r.nodes[0])
				}
				cutOff := r.beginOver(at, at, wall{clock.Real()})
				for range 12 {
					restart()
				}
				r.wantRunning(longTasks)
				r.spared()

				cutOff()
				set = c.by
				began, up := time.Now(), time.Duration(0)
				for up < c.within {
					restart()
					up += c.up
				}
				r.wantRunning(longTasks)
				if r.book.deaths == 0 {
					r.Error("the worker that was cut off ran nothing")
				}
				if took := r.book.takeover(began); took < leaseOfSteps-leaseOfSteps/4 {
					r.Errorf("a task was taken over %v after its worker was cut off", took)
				}
				r.book.check(t, 2)
			})
		})
	}
}
