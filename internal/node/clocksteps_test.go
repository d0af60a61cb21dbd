package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

func newSettable() *clocktest.Settable { return &clocktest.Settable{Clock: clock.Real()} }

// workBy runs a worker process with its own clock.
func (r *rig) workBy(k clock.Clock, transport http.RoundTripper, opts ...sdk.WorkerOption) {
	r.Helper()
	r.workWith(r.dialBy(k, transport), "mail", lasts, opts...)
}

// steps returns sizes of steps, in both directions.
func steps() (all []time.Duration) {
	for _, by := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		all = append(all, by, -by)
	}
	return all
}

const longTasks, leaseOfSteps = 20, 15 * time.Second

// begin starts long tasks on two workers, the second of which can be cut off, and returns when all of them
// run.
func (r *rig) begin(first, second *process, worker clock.Clock) (cut func()) {
	r.Helper()
	return r.beginOver(first.transport, second.transport, worker)
}

func (r *rig) beginOver(first, second http.RoundTripper, worker clock.Clock) (cut func()) {
	r.Helper()
	r.lambda(admin.Lambda{Name: "mail", Timeout: 2 * time.Hour, Shards: 4, BackoffMin: time.Second, BackoffMax: time.Second})
	c := &cable{RoundTripper: second}
	r.workBy(wall{clock.Real()}, c, sdk.Slots(longTasks/2), sdk.Lease(leaseOfSteps))
	for range longTasks {
		r.lasting(20*time.Minute, 0)
	}
	time.Sleep(5 * time.Second)
	r.workBy(worker, first, sdk.Slots(3*longTasks), sdk.Lease(leaseOfSteps))
	time.Sleep(5 * time.Second)
	r.wantRunning(longTasks)
	return func() { c.set(true) }
}

func (r *rig) wantRunning(n int) {
	r.Helper()
	if got := r.book.running(); got != n {
		r.Errorf("%d tasks run, want %d", got, n)
	}
}

// spared fails if a worker was judged lost, or judged itself lost, or any task ran a second time.
func (r *rig) spared() {
	r.Helper()
	if n := r.lost(); n+r.book.deaths > 0 {
		r.Errorf("%d attempts were taken over, %d worker processes ended", n, r.book.deaths)
	}
	r.book.check(r.T, 1)
}

// takenOver cuts a worker off, and fails unless its tasks start again elsewhere when its lease is over, and
// not before.
func (r *rig) takenOver(cut func(), within time.Duration) {
	r.Helper()
	before := r.book.running()
	cut()
	at := time.Now()
	time.Sleep(within)
	r.wantRunning(before)
	if r.book.deaths == 0 {
		r.Error("the worker that was cut off ran nothing")
	}
	if first := r.book.takeover(at); first < leaseOfSteps-leaseOfSteps/4 {
		r.Errorf("a task was taken over %v after its worker was cut off", first)
	}
	r.book.check(r.T, 2)
}

// TestAStepOfTheServersClock sets the wall clock of a server while tasks run and wait. Running tasks are not
// affected, waiting ones follow the wall clock, and a worker lost afterwards is noticed as soon as ever.
func TestAStepOfTheServersClock(t *testing.T) {
	for _, by := range steps() {
		t.Run(by.String(), func(t *testing.T) {
			k := newSettable()
			d := drivers{queue: func() queue.Driver { return queuemem.New(k, queuemem.Config{DepthMax: 1 << 10}) }}
			inRig(t, d, 1, func(c *Config) { c.Clock = k }, func(r *rig) {
				cut := r.begin(r.nodes[0], r.nodes[0], wall{clock.Real()})
				r.client = r.dialBy(k, r.nodes[0].transport) // a request that comes from another time is refused
				r.lasting(time.Millisecond, 40*time.Second)
				waiting := r.book.all()[longTasks]
				k.Step(by)
				r.wantMetric(by)
				time.Sleep(2 * time.Second)
				r.wantBegun(waiting, by >= time.Minute)
				time.Sleep(28 * time.Second)
				r.wantBegun(waiting, by >= time.Minute)
				r.lasting(time.Millisecond, time.Second)
				fresh := r.book.all()[longTasks+1]
				time.Sleep(10 * time.Second)
				r.wantBegun(fresh, true)
				r.wantBegun(waiting, by >= -time.Second)
				if by >= -time.Hour {
					time.Sleep(max(0, -by))
				} else {
					r.cancel(waiting)
				}
				if by > -time.Hour {
					r.wantRunning(longTasks)
					r.takenOver(cut, leaseOfSteps+2*time.Second)
				}
			})
		})
	}
}

// TestALostWorkerAfterAStep sets the wall clock of a server and cuts a worker off at once.
func TestALostWorkerAfterAStep(t *testing.T) {
	for _, by := range steps() {
		t.Run(by.String(), func(t *testing.T) {
			k := newSettable()
			inRig(t, drivers{}, 1, func(c *Config) { c.Clock = k }, func(r *rig) {
				cut := r.begin(r.nodes[0], r.nodes[0], wall{clock.Real()})
				k.Step(by)
				r.takenOver(cut, leaseOfSteps+4*time.Second)
			})
		})
	}
}

// TestAStepOfAWorkersClock sets the wall clock of a worker while it runs and prefetches tasks.
func TestAStepOfAWorkersClock(t *testing.T) {
	for _, by := range steps() {
		t.Run(by.String(), func(t *testing.T) {
			k := newSettable()
			inRig(t, drivers{}, 1, nil, func(r *rig) {
				cut := r.begin(r.nodes[0], r.nodes[0], k)
				for i := range 20 {
					r.lasting(time.Millisecond, time.Duration(i)*100*time.Millisecond)
				}
				k.Step(by)
				time.Sleep(time.Minute)
				r.wantRunning(longTasks)
				r.spared()
				r.takenOver(cut, leaseOfSteps+2*time.Second)
			})
		})
	}
}

// TestAStepOfOneServersClock sets the wall clock of one of two servers, which then is wrong for five minutes.
func TestAStepOfOneServersClock(t *testing.T) {
	for stepped := range 2 {
		t.Run(fmt.Sprintf("node %d", stepped), func(t *testing.T) {
			for _, by := range steps() {
				t.Run(by.String(), func(t *testing.T) {
					clocks := []*clocktest.Settable{newSettable(), newSettable()}
					inFleet(t, 2, func(i int, c *Config) { c.Clock = clocks[i] }, func(r *rig, _ []*host) {
						cut := r.begin(r.nodes[0], r.nodes[1], wall{clock.Real()})
						clocks[stepped].Step(by)
						time.Sleep(5 * time.Minute)
						r.wantRunning(longTasks)
						r.spared()
						if each, wrong := r.owners("mail"); wrong > 0 || each[0] == 0 || each[1] == 0 {
							r.Errorf("the partitions are fired by %v, %d of them by none or both", each, wrong)
						}
						clocks[stepped].Step(-by) // what waits follows the clock of whose it is
						time.Sleep(2 * time.Second)
						r.takenOver(cut, leaseOfSteps*3/2+3*time.Second)
					})
				})
			}
		})
	}
}

// TestAClockThatIsSlewed moves the wall clock of a server a little again and again, by less than a step that
// can be detected.
func TestAClockThatIsSlewed(t *testing.T) {
	for _, by := range []time.Duration{50 * time.Millisecond, -50 * time.Millisecond} { // each second
		t.Run(by.String(), func(t *testing.T) {
			k := newSettable()
			inRig(t, drivers{}, 1, func(c *Config) { c.Clock = k }, func(r *rig) {
				cut := r.begin(r.nodes[0], r.nodes[0], wall{clock.Real()})
				for range 600 {
					time.Sleep(time.Second)
					k.Step(by)
				}
				r.wantRunning(longTasks)
				r.spared()
				r.takenOver(cut, leaseOfSteps+2*time.Second)
			})
		})
	}
}

func (r *rig) wantBegun(id sdk.ID, want bool) {
	r.Helper()
	r.book.mu.Lock()
	begun := len(r.book.runs[string(id)]) > 0
	r.book.mu.Unlock()
	if begun != want {
		r.Errorf("task %s has begun: %v, want %v", id, begun, want)
	}
}

func (r *rig) cancel(id sdk.ID) {
	r.Helper()
	if _, err := r.client.Cancel(r.ctx, id); err != nil {
		r.Error(err)
	}
}

// wantMetric fails unless the metrics soon show the step.
func (r *rig) wantMetric(by time.Duration) {
	r.Helper()
	time.Sleep(clockLookEvery + time.Millisecond)
	direction := stepForward
	if by < 0 {
		direction = stepBack
	}
	page := httptest.NewRecorder()
	Trusting(r.nodes[0].node.Handler()).ServeHTTP(page, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		fmt.Sprintf("kinesin_clock_steps_total{direction=%q} 1\n", direction),
		fmt.Sprintf("kinesin_clock_step_seconds %v\n", by.Seconds()),
	} {
		if !strings.Contains(page.Body.String(), want) {
			r.Errorf("the metrics do not say %q", want)
		}
	}
}

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
