package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// outage has calls about leases and queues take their time and fail.
type outage struct {
	w *world

	mu    sync.Mutex
	takes time.Duration
	hits  func(call string) bool // nil: none
	calls []asked
}

type asked struct {
	call string
	at   task.Instant
}

// begin has the calls fail that hits says, each after a while.
func (o *outage) begin(takes time.Duration, hits func(call string) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.takes, o.hits, o.calls = takes, hits, nil
}

func everyCall(string) bool { return true }

func (o *outage) end() { o.begin(0, nil) }

func (o *outage) call(ctx context.Context, format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	o.mu.Lock()
	o.calls = append(o.calls, asked{call, o.w.clock.Now()})
	takes, hits := o.takes, o.hits != nil && o.hits(call)
	o.mu.Unlock()
	if !hits {
		return nil
	}
	if takes > 0 {
		if err := clock.Sleep(ctx, o.w.clock, takes); err != nil {
			return err
		}
	}
	return store.ErrUnknown
}

// since are the calls since the outage began.
func (o *outage) since() []asked {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls)
}

type ailingLeases struct {
	*lease.Book
	*outage
}

func (a ailingLeases) Look(ctx context.Context, worker string) (lease.Lease, error) {
	if err := a.call(ctx, "look at %s", worker); err != nil {
		return lease.Lease{}, err
	}
	return a.Book.Look(ctx, worker)
}

func (a ailingLeases) MarkLost(ctx context.Context, seen lease.Lease) error {
	if err := a.call(ctx, "mark %s", seen.Worker); err != nil {
		return err
	}
	return a.Book.MarkLost(ctx, seen)
}

type ailingQueue struct {
	*queue.Queue
	*outage
}

func (a ailingQueue) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	if err := a.call(ctx, "depth of %v", name); err != nil {
		return queue.Depth{}, err
	}
	return a.Queue.Depth(ctx, name)
}

func inOutage(t *testing.T, test func(w *world, o *outage)) {
	t.Helper()
	inWorld(t, depth, func(w *world) {
		o := &outage{w: w}
		w.marks, w.depths = ailingLeases{w.leases, o}, ailingQueue{w.queue, o}
		test(w, o)
	})
}

// stalledMost is how long a loop was without progress at most, while time goes on and somebody empties the
// queues.
func (w *world) stalledMost(s *scheduler.Scheduler, d time.Duration) (most time.Duration) {
	w.t.Helper()
	for range d / time.Second {
		w.advance(time.Second)
		w.drain(depth)
		most = max(most, s.Stalled())
	}
	return most
}

// crew are tasks that as many workers run, each with a lease of its own.
func (w *world) crew(p task.Partition, workers int) (leases []lease.Lease, tasks []task.Task) {
	w.t.Helper()
	for range workers {
		l := w.openLease(3 * time.Second)
		leases, tasks = append(leases, l), append(tasks, w.running(p, l.Worker))
	}
	return leases, tasks
}

// enqueued stores a task of each class of queue whose message was sent long ago.
func (w *world) enqueued(p task.Partition) (tasks []task.Task) {
	w.t.Helper()
	for _, change := range []func(t *task.Task){
		func(*task.Task) {}, func(t *task.Task) { t.Suspect = true }, func(t *task.Task) { t.Suspect, t.Blamed = true, 1 },
	} {
		tasks = append(tasks, w.awake(p, 0, func(t *task.Task) {
			t.State, t.Enqueues, t.Wake = task.Enqueued, 1, t.Due.Add(40*time.Second)
			change(t)
		}))
	}
	return tasks
}

// While neither leases nor queues can be asked, each call being given up after some seconds, no loop is
// stuck, what is due is fired, and nothing is asked for twice in a row.
func TestASlowOutageIsNotAStuckLoop(t *testing.T) {
	for _, takes := range []time.Duration{9 * time.Second, 10 * time.Second} {
		inOutage(t, func(w *world, o *outage) {
			leases, running := w.crew(high, 20)
			more, others := w.crew(low, 20)
			leases, running = append(leases, more...), append(running, others...)
			sent := slices.Concat(w.enqueued(high), w.enqueued(low))
			var due []task.Task
			for i := range 50 {
				due = append(due, w.waiting(high, 30*time.Second+time.Duration(i)*3*time.Second))
			}
			s := w.start()
			w.beat(30*time.Second, leases...)
			w.drain(depth)
			if want := len(running) + len(sent) + 1; s.InFlight() != want { // and the first one that was due
				t.Fatalf("%d in flight, want %d", s.InFlight(), want)
			}
			o.begin(takes, everyCall)
			if most := w.stalledMost(s, 3*time.Minute); most > takes+time.Second {
				t.Errorf("no progress for %v while each call takes %v", most, takes)
			}
			for _, one := range due {
				if at, ok := w.dispatched(one); !ok || at.Sub(one.Due) > 2*takes+time.Second {
					t.Errorf("dispatched (%v) %v late", ok, at.Sub(one.Due))
				}
			}
			last, times := map[string]task.Instant{}, map[string]int{}
			for _, one := range o.since() {
				if before, again := last[one.call]; again && one.at < before.Add(takes) {
					t.Errorf("%s %v after the one before, which takes %v", one.call, one.at.Sub(before), takes)
				}
				last[one.call] = one.at
				times[one.call]++
			}
			for _, l := range leases {
				if times["look at "+l.Worker] == 0 {
					t.Error("a lease was never looked at")
				}
			}
			if want := len(leases) + 6; len(times) != want {
				t.Errorf("%d leases and queues were asked for, want %d: %v", len(times), want, times)
			}
			o.end()
			w.stalledMost(s, 30*time.Second)
			for _, one := range running {
				if got := w.read(one.ID); !got.Suspect {
					t.Errorf("%s long after its lease ran out", got.State)
				}
			}
			for _, one := range sent {
				if got := w.read(one.ID); got.Enqueues != 2 {
					t.Errorf("sent %d times, want once more after the outage", got.Enqueues)
				}
			}
		})
	}
}

// A round comes to an end after a number of failures, though they come at once; the rows of one worker cost
// one of them.
func TestFailuresOfARoundAreBounded(t *testing.T) {
	inOutage(t, func(w *world, o *outage) {
		leases, tasks := w.crew(high, 50)
		for _, l := range leases {
			tasks = append(tasks, w.running(high, l.Worker), w.running(high, l.Worker))
		}
		o.begin(0, everyCall)
		s := w.start()
		w.advance(3*time.Second + task.ClockBound)
		if n := len(o.since()); n != 8 {
			t.Errorf("%d calls in the first round, want 8", n)
		}
		w.advance(5 * time.Minute)
		times := map[string]int{}
		for _, one := range o.since() {
			times[one.call]++
		}
		if len(times) != len(leases) {
			t.Errorf("%d of %d leases were looked at", len(times), len(leases))
		}
		if n := len(o.since()); n > 5*60*24/2 {
			t.Errorf("%d calls in five minutes", n)
		}
		if n := w.failed[high]; n == 0 || n > 5*60/2 {
			t.Errorf("told of %d failures", n)
		}
		if scanned := w.rows.lookedRows(); scanned > 20*len(tasks) {
			t.Errorf("%d rows were scanned because of %d", scanned, len(tasks))
		}
		if s.InFlight() != len(tasks) {
			t.Errorf("%d of %d tasks are in flight", s.InFlight(), len(tasks))
		}
		o.end()
		w.advance(20 * time.Second)
		for _, one := range tasks {
			if got := w.read(one.ID); !got.Suspect {
				t.Fatalf("%s long after its lease ran out", got.State)
			}
		}
	})
}

// Leases that cannot be read do not keep the others from being judged.
func TestWhatAnswersIsJudgedBesideWhatDoesNot(t *testing.T) {
	for _, takes := range []time.Duration{0, 10 * time.Second} {
		inOutage(t, func(w *world, o *outage) {
			leases, _ := w.crew(high, 20)
			bad := map[string]bool{}
			for _, l := range leases {
				bad["look at "+l.Worker] = true
			}
			o.begin(takes, func(call string) bool { return bad[call] })
			_, good := w.crew(high, 20)
			good = append(good, w.enqueued(high)...)
			s := w.start()
			w.drain(depth)
			if most := w.stalledMost(s, 5*time.Minute); most > 11*time.Second {
				t.Errorf("no progress for %v", most)
			}
			for _, one := range good {
				if got := w.read(one.ID); got.Seq == one.Seq {
					t.Errorf("%s as it was, though its lease and queue can be asked for", got.State)
				}
			}
		})
	}
}

// Where memory has no room for what cannot be judged, the partition backs off. The next full scan finds it.
func TestAnOutageBeyondWhatMemoryHolds(t *testing.T) {
	inOutage(t, func(w *world, o *outage) {
		w.flight = 5
		_, tasks := w.crew(high, 20)
		o.begin(0, everyCall)
		w.start()
		w.advance(5 * time.Minute)
		if n := len(o.since()); n > 5*60*4 {
			t.Errorf("%d calls in five minutes", n)
		}
		if n := w.rows.readRows(); n > 5*60*len(tasks) {
			t.Errorf("%d rows read in five minutes", n)
		}
		o.end()
		w.advance(fullScanLatest)
		for _, one := range tasks {
			if got := w.read(one.ID); !got.Suspect {
				t.Fatalf("%s long after its lease ran out", got.State)
			}
		}
	})
}

// A call that never comes back is no slow outage.
func TestACallThatNeverComesBackIsSeen(t *testing.T) {
	for name, call := range map[string]string{"lease": "look at ", "queue": "depth of ", "one of many leases": "look at "} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, func(w *world, o *outage) {
				leases, _ := w.crew(high, 3)
				w.enqueued(high)
				s := w.start()
				w.beat(30*time.Second, leases...)
				only := call
				if name == "one of many leases" {
					only += leases[1].Worker
				}
				o.begin(time.Hour, func(call string) bool { return strings.HasPrefix(call, only) })
				if most := w.stalledMost(s, 3*time.Minute); most < 90*time.Second {
					t.Errorf("stalled for %v at most while a call hangs", most)
				}
			})
		})
	}
}

// Writes and what follows from them may take longer than any other call, since much is tried: they are given
// up in time.
func TestAWriteThatHangsIsGivenUp(t *testing.T) {
	inOutage(t, func(w *world, o *outage) {
		_, running := w.crew(high, 20)
		o.begin(time.Hour, func(call string) bool { return strings.HasPrefix(call, "mark ") })
		s := w.start()
		if most := w.stalledMost(s, 5*time.Minute); most > 31*time.Second {
			t.Errorf("no progress for %v while leases cannot be marked lost", most)
		}
		o.end()
		w.sent.hang = func(ctx context.Context) error { return clock.Sleep(ctx, w.clock, time.Hour) }
		late := w.waiting(high, 10*time.Second)
		if most := w.stalledMost(s, 5*time.Minute); most > 31*time.Second {
			t.Errorf("no progress for %v while nothing can be dispatched", most)
		}
		w.sent.mu.Lock()
		w.sent.hang = nil
		w.sent.mu.Unlock()
		w.advance(time.Minute)
		if _, ok := w.dispatched(late); !ok {
			t.Error("not dispatched after that")
		}
		for _, one := range running {
			if got := w.read(one.ID); !got.Suspect {
				t.Errorf("%s after that", got.State)
			}
		}
	})
}

// A clock that jumps, as that of a test does, does not cut a write off.
func TestAJumpOfTheClockIsNotTimeForAWrite(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		hung, proceed := make(chan struct{}), make(chan struct{})
		w.sent.hang = func(ctx context.Context) error {
			close(hung)
			<-proceed
			return context.Cause(ctx)
		}
		one := w.waiting(high, 0)
		go func() {
			<-hung
			w.time.Jump(w.clock.Now().Add(time.Hour))
			w.sent.mu.Lock()
			w.sent.hang = nil
			w.sent.mu.Unlock()
			close(proceed)
		}()
		w.start()
		if at, ok := w.dispatched(one); !ok || w.failed[high] != 0 {
			t.Errorf("dispatched (%v) at +%v, %d failures", ok, at.Sub(start), w.failed[high])
		}
	})
}

// Scans of many pages that take their time are progress with each of them.
func TestSlowPagesAreProgress(t *testing.T) {
	const takes, pages = 9 * time.Second, 9
	slow := func(w *world) func() {
		return func() { _ = clock.Sleep(w.ctx, w.clock, takes) }
	}
	t.Run("managed", func(t *testing.T) {
		inWorld(t, depth, func(w *world) {
			w.look = 1 // the least share of a partition: 64 rows
			l := w.openLease(time.Hour)
			for range 64 * pages {
				w.running(high, l.Worker)
				w.waiting(high, time.Minute)
			}
			s := w.start()
			w.advance(time.Minute)
			w.rows.slow = slow(w)
			if most := w.stalledMost(s, 10*time.Minute); most > takes+time.Second {
				t.Errorf("no progress for %v while each page takes %v", most, takes)
			}
		})
	})
	t.Run("deliver", func(t *testing.T) {
		inOutbound(t, func(o *outbound) {
			o.look = 1
			o.members([]string{self, "another"}, nil)
			for range 64 * pages {
				o.acquired(high, 0, "another", 0)
			}
			s, _ := o.start(self)
			o.rows.slow = slow(o.world)
			if most := o.stalledMost(s, 10*time.Minute); most > takes+time.Second {
				t.Errorf("no progress for %v while each page takes %v", most, takes)
			}
		})
	})
}
