// Package queuetest is the test suite for implementers of queue.Driver. A driver's test calls Run. Each
// case runs in a synctest bubble, so that the suite knows when a receiver waits; there the driver must not
// do real I/O. RunReal is for a driver over a service, in real time.
//
// Faulty makes the writes of any driver fail in both ways, for tests of its callers.
package queuetest

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Harness is a driver under test.
type Harness struct {
	// Driver is new and empty. The suite closes it.
	Driver queue.Driver
	// Now is the driver's clock.
	Now func() task.Instant
	// Advance moves the driver's clock, stopping at every timer on the way.
	Advance func(time.Duration)
	// DepthMax is how many messages each queue holds; 0 when there is no bound.
	DepthMax int
	// Exact says that the driver hands out the earliest due first, nothing before it is due (to the
	// microsecond), as many messages at once as there are, and each of them once; that it looks ahead; and
	// that depths are exact. Without it, cases about that are skipped, and others want the right messages in
	// the end.
	Exact bool
	// Forget, if set, is called before a lambda is dropped, as the catalog forgets it then.
	Forget func(lambda uint32)
}

// Run checks a driver. open is called for every case, in its bubble.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Helper()
			synctest.Test(t, func(t *testing.T) {
				t.Helper()
				c.run(&suite{T: t, Harness: open(t)})
			})
		})
	}
}

// RunReal checks a driver over a service, in real time and in parallel: its harness advances the clock by
// sleeping. It leaves out cases that only an exact or bounded driver can pass.
func RunReal(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range cases {
		if c.exact || c.bounded {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Helper()
			t.Parallel()
			c.run(&suite{T: t, Harness: open(t), real: true})
		})
	}
}

func (c *testCase) run(s *suite) {
	s.Helper()
	s.Cleanup(func() { _ = s.Driver.Close() })
	if c.exact && !s.Exact {
		s.Skip("the driver is not exact")
	}
	if c.bounded && s.DepthMax == 0 {
		s.Skip("the driver has no bound")
	}
	c.check(s)
}

type testCase struct {
	name    string
	exact   bool // needs Harness.Exact
	bounded bool // needs Harness.DepthMax
	check   func(s *suite)
}

var cases = []testCase{
	{name: "a message comes back as it was sent", check: sameMessage},
	{name: "a sent message is received once", check: receivedOnce},
	{name: "limit", check: limited},
	{name: "earlier names first", exact: true, check: namesInOrder},
	{name: "queues whose priorities have weights take turns", exact: true, check: turns},
	{name: "a queue of its own for each name", check: separateQueues},
	{name: "deleted is gone", check: deleted},
	{name: "released comes back", check: released},
	{name: "released with delay", check: releasedLater},
	{name: "depth", exact: true, check: depth},
	{name: "a message wakes one receiver", check: wakesOne},
	{name: "cancelled receive", check: cancelled},
	{name: "no names", check: noNames},
	{name: "cancelled while woken", check: cancelledWhileWoken},
	{name: "closed", check: closed},
	{name: "send with an ended context", check: sendEnded},
	{name: "drop", check: dropped},
	{name: "no wake-up is lost", check: noWakeUpLost},

	{name: "earliest due first", exact: true, check: dueOrder},
	{name: "held back until due", exact: true, check: heldBack},
	{name: "due at this very microsecond", exact: true, check: dueNow},
	{name: "wakes for a message that is due sooner", exact: true, check: dueSooner},
	{name: "looks ahead", exact: true, check: looksAhead},
	{name: "receivers that look ahead differently", exact: true, check: differentAhead},
	{name: "a released message is still held back", exact: true, check: releasedNotEarly},
	{name: "the timekeeper leaves", exact: true, check: timekeeperLeaves},
	{name: "many names, many instants", exact: true, check: manyInstants},

	{name: "full", bounded: true, check: full},
	{name: "room", bounded: true, check: room},
	{name: "room of a closed driver", bounded: true, check: roomClosed},
}

// suite is one case that runs.
type suite struct {
	*testing.T
	Harness

	real bool // not in a bubble
}

// patience is how long a suite in real time waits for what must happen, moment for what must not.
const (
	patience = 20 * time.Second
	moment   = 200 * time.Millisecond
)

// settle returns when all goroutines wait; in real time it cannot know.
func (s *suite) settle() {
	if !s.real {
		synctest.Wait()
	}
}

// high and low are two queues of one lambda.
var (
	high = queue.Name{Lambda: 7, Priority: 0}
	low  = queue.Name{Lambda: 7, Priority: 1}
)

// message returns a message for a queue; number identifies it.
func message(name queue.Name, number int, due task.Instant) queue.Message {
	t := task.Task{
		Partition: task.Partition{Lambda: name.Lambda, Priority: name.Priority},
		State:     task.Enqueued, Seq: 2, Due: due,
		Suspect: name.Class != queue.Normal,
	}
	if name.Class == queue.Blamed {
		t.Blamed = 1
	}
	t.ID[0] = 1
	binary.BigEndian.PutUint64(t.ID[8:], uint64(number))
	return queue.Message{Task: t}
}

func number(m queue.Message) int {
	return int(binary.BigEndian.Uint64(m.Task.ID[8:]))
}

func numbers(messages []queue.Message) []int {
	all := make([]int, 0, len(messages))
	for _, m := range messages {
		all = append(all, number(m))
	}
	return all
}

// send puts messages on their queues and fails on an error.
func (s *suite) send(messages ...queue.Message) {
	s.Helper()
	for i, err := range s.Driver.Send(s.Context(), messages) {
		if err != nil {
			s.Fatalf("send %d of %d: %v", i, len(messages), err)
		}
	}
}

// receipt is a Receive call in its own goroutine.
type receipt struct {
	s      *suite
	names  []queue.Name
	limit  int
	ahead  time.Duration
	cancel context.CancelCauseFunc
	done   chan struct{}
	got    []queue.Message
	err    error
}

var errCancelled = errors.New("cancelled by the test")

// receive starts a Receive and returns when it waits or has returned.
func (s *suite) receive(names []queue.Name, limit int, ahead time.Duration) *receipt {
	ctx, cancel := context.WithCancelCause(s.Context())
	r := &receipt{s: s, names: names, limit: limit, ahead: ahead, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.got, r.err = s.Driver.Receive(ctx, names, limit, ahead)
	}()
	s.settle()
	return r
}

// isOver reports whether the Receive has returned; in real time it waits for that.
func (r *receipt) isOver(within time.Duration) bool {
	r.s.settle()
	if !r.s.real {
		within = 0
	}
	timer := time.NewTimer(within) //nolint:forbidigo // real time
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	default:
	}
	if !r.s.real {
		return false
	}
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}

// wantWaiting fails unless the Receive still waits.
func (r *receipt) wantWaiting() {
	r.s.Helper()
	if r.isOver(moment) {
		r.s.Fatalf("received %v, %v; want it to wait", numbers(r.got), r.err)
	}
}

// want fails unless the Receive returned exactly these messages. If the driver is not exact they may come
// in any order, and with more than one Receive.
func (r *receipt) want(want ...int) []queue.Message {
	r.s.Helper()
	r.wantSome(want)
	if !r.s.Exact {
		for len(r.got) < len(want) {
			more := r.s.receive(r.names, r.limit, r.ahead)
			more.wantSome(want)
			r.got = append(r.got, more.got...)
		}
		slices.SortFunc(r.got, func(a, b queue.Message) int { return number(a) - number(b) })
		want = slices.Sorted(slices.Values(want))
	}
	if got := numbers(r.got); !slices.Equal(got, want) {
		r.s.Fatalf("received %v, want %v", got, want)
	}
	return r.got
}

// wantSome fails unless the Receive returned messages, and no more than it may.
func (r *receipt) wantSome(of []int) {
	r.s.Helper()
	if !r.isOver(patience) {
		r.s.Fatalf("still waiting; want %v", of)
	}
	if r.err != nil || len(r.got) == 0 || len(r.got) > max(r.limit, len(of)) {
		r.s.Fatalf("received %v, %v; want %v, up to %d at once", numbers(r.got), r.err, of, r.limit)
	}
}

// wantError fails unless the Receive returned an error and no messages.
func (r *receipt) wantError(want error) {
	r.s.Helper()
	if !r.isOver(patience) || !errors.Is(r.err, want) || len(r.got) > 0 {
		r.s.Fatalf("over %v with %v, %v; want the error %v", r.isOver(0), numbers(r.got), r.err, want)
	}
}

// end cancels a waiting Receive.
func (r *receipt) end() {
	r.s.Helper()
	r.wantWaiting()
	r.cancel(errCancelled)
	r.wantError(errCancelled)
}

// wantDepth checks a depth if the driver is exact.
func (s *suite) wantDepth(name queue.Name, visible, inFlight int) {
	s.Helper()
	d, err := s.Driver.Depth(s.Context(), name)
	if err == nil && !s.Exact {
		return
	}
	if err != nil || d.Visible != visible || d.InFlight != inFlight {
		s.Fatalf("depth of %v: %+v, %v; want %d visible and %d in flight", name, d, err, visible, inFlight)
	}
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
