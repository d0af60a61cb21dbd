package scheduler_test

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// assigned is an ownership, and a hand-over, as a test says.
type assigned struct {
	mu      sync.Mutex
	owners  map[task.Partition]string
	follows map[string]bool
	inForce [][]string
	since   task.Instant // when the others began to count this process
	apart   bool         // they may not count it now
	changed chan struct{}
	heard   chan struct{}
}

func newAssigned(owners map[task.Partition]string) *assigned {
	return &assigned{owners: owners, follows: map[string]bool{}, changed: make(chan struct{}), heard: make(chan struct{})}
}

func (*assigned) Self() string { return "me" }

func (a *assigned) Owners(all []task.Partition) (owners, members []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range all {
		owners = append(owners, a.owners[p])
	}
	return owners, []string{"me", "other"}
}

func (a *assigned) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

func (a *assigned) InForce(members []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inForce = append(a.inForce, members)
}

func (a *assigned) Follows(member string, _ []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.follows[member]
}

func (a *assigned) Agree(members []string) bool { return a.Follows("other", members) }

func (a *assigned) Counted() (since task.Instant, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.since, !a.apart
}

func (a *assigned) Heard() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard
}

// give makes somebody the owner of a partition.
func (a *assigned) give(p task.Partition, owner string) {
	a.mu.Lock()
	a.owners[p] = owner
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	synctest.Wait()
}

// follow says that the other member follows.
func (a *assigned) follow() {
	a.mu.Lock()
	a.follows["other"] = true
	close(a.heard)
	a.heard = make(chan struct{})
	a.mu.Unlock()
	synctest.Wait()
}

// unfollow says that the other member follows no longer.
func (a *assigned) unfollow() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.follows["other"] = false
}

// count says since when the others count this process, or that they may not do so now.
func (a *assigned) count(since task.Instant, apart bool) {
	a.mu.Lock()
	a.since, a.apart = since, apart
	a.mu.Unlock()
	synctest.Wait()
}

func (a *assigned) told() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.inForce)
}

// startAs runs a scheduler of a fleet until the test ends.
func (w *world) startAs(a *assigned) *scheduler.Scheduler {
	var depths scheduler.Queue = w.queue
	if w.depths != nil {
		depths = w.depths
	}
	s := scheduler.New(scheduler.Config{
		Store: w.rows, Queue: depths, Leases: w.leases, Ownership: a, Handover: a, Partitions: w.parts,
		Clock: w.clock, Log: slog.New(slog.DiscardHandler), Hooks: w.hooks, Foreign: true,
		Process: w.process, Presence: w.presence, Concurrency: w.concurrency,
	})
	w.run(s)
	return s
}

func TestAPartitionIsFiredUntilItIsTakenOver(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		var tasks []task.Task
		for n := range 8 {
			tasks = append(tasks, w.waiting(high, time.Duration(n+1)*time.Second))
		}
		s := w.startAs(a)
		w.advance(6 * time.Second) // reads them
		a.give(high, "other")
		if !s.Fires(high) || s.Assignment().Owned != 1 || s.Assignment().Lost != 1 {
			t.Errorf("fires %v, share %+v", s.Fires(high), s.Assignment())
		}
		w.advance(1500 * time.Millisecond)
		a.follow()
		if s.Fires(high) {
			t.Error("still fires what was taken over")
		}
		w.advance(10 * time.Second)
		w.wantOnTime(tasks...) // the last one it still knew, and fires in a foreign loop
	})
}

func TestWhoDoesNotTakeOverIsNotWaitedForForEver(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		s := w.startAs(a)
		w.advance(time.Second)
		a.give(high, "other")
		w.advance(scheduler.ReleaseMax - time.Millisecond)
		if !s.Fires(high) {
			t.Error("given up too soon")
		}
		w.advance(2 * time.Millisecond)
		if s.Fires(high) {
			t.Error("fired for ever")
		}
		behind := w.waiting(high, 5*time.Second)
		w.advance(20 * time.Second)
		if _, fired := w.dispatched(behind); fired {
			t.Error("fired without being told of")
		}
	})
}

// TestWhatAMemberFollowedBeforeALambdaCameSaysNothing moves a partition because another one comes. The member
// that gets it follows already, but may not have heard of that one.
func TestWhatAMemberFollowedBeforeALambdaCameSaysNothing(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		w.parts.set(high)
		s := w.startAs(a)
		a.follow()
		w.advance(time.Minute)
		a.mu.Lock()
		a.owners[high] = "other"
		a.mu.Unlock()
		w.parts.set(high, low)
		late := w.waiting(high, scheduler.ReleaseMax+time.Second)
		w.advance(scheduler.ReleaseMax - time.Second)
		later := w.waiting(high, 5*time.Second) // after the second read-ahead of the next owner
		s.Added(&later)
		w.advance(time.Second - time.Millisecond)
		if !s.Fires(high) {
			t.Error("let go, though the next owner may not have read it")
		}
		w.advance(2 * time.Millisecond)
		if s.Fires(high) {
			t.Error("fired for ever")
		}
		w.advance(6 * time.Second)
		w.wantOnTime(late, later) // which it knew
		a.give(low, "other")
		if s.Fires(low) {
			t.Error("fires on, though all know by now which partitions there are")
		}
	})
}

// Another view of the members gives the one who is to take over no more time, and one who is to do it instead
// all of it.
func TestTheTimeToTakeOverIsOfWhoTakesOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		then  func(a *assigned)
		until time.Duration // after the first change
	}{
		{"the same one", func(a *assigned) { a.give(low, "other") }, scheduler.ReleaseMax},
		{"another one", func(a *assigned) { a.give(high, "third") }, 4*time.Second + scheduler.ReleaseMax},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 100, func(w *world) {
				a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
				s := w.startAs(a)
				w.advance(time.Second)
				a.give(high, "other")
				w.advance(4 * time.Second)
				c.then(a)
				w.advance(c.until - 4*time.Second - time.Millisecond)
				if !s.Fires(high) {
					t.Error("given up too soon")
				}
				w.advance(2 * time.Millisecond)
				if s.Fires(high) {
					t.Error("not given up")
				}
			})
		})
	}
}

func TestAPartitionThatComesBackIsKept(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		s := w.startAs(a)
		w.advance(time.Second)
		a.give(high, "other")
		w.advance(time.Second)
		scans := w.rows.scansOf(high)
		a.give(high, "me")
		if !s.Fires(high) || w.rows.scansOf(high) != scans {
			t.Error("it was begun anew")
		}
		a.give(high, "other")
		a.follow()
		a.give(high, "me") // this time it is, after a foreign loop
		late := w.waiting(high, 3*time.Second)
		w.advance(10 * time.Second)
		w.wantOnTime(late)
	})
}

func TestWarmIsWhatWasReadOnce(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		away := true
		w.rows.fails = func(p task.Partition) error {
			if away && p == low {
				return store.ErrUnknown
			}
			return nil
		}
		var warm []scheduler.Assignment
		w.hooks.Warm = func(s *scheduler.Assignment) { warm = append(warm, *s) }
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		s := w.startAs(a)
		w.advance(2 * time.Second)
		if a.told() > 0 || s.Assignment().Warm != 0 {
			t.Error("warm, though one of two was not read")
		}
		w.rows.mu.Lock()
		away = false
		w.rows.mu.Unlock()
		w.advance(10 * time.Second)
		if a.told() != 1 || !slices.Equal(a.inForce[0], []string{"me", "other"}) || len(warm) != 1 || warm[0].Owned != 2 || warm[0].Warm < 2*time.Second {
			t.Errorf("told %v, %+v", a.inForce, warm)
		}
		a.give(low, "other")
		if a.told() != 2 {
			t.Error("a smaller share was not told of")
		}
	})
}

// TestASecondReadFindsWhatOnlyOthersWereToldOf stores a task after the first read-ahead without telling the
// new owner.
func TestASecondReadFindsWhatOnlyOthersWereToldOf(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		a := newAssigned(map[task.Partition]string{high: "other", low: "me"})
		w.startAs(a)
		w.advance(time.Minute)
		a.give(high, "me")
		w.advance(100 * time.Millisecond)
		quiet := w.waiting(high, 2500*time.Millisecond)
		w.advance(5 * time.Second)
		w.wantOnTime(quiet)
	})
}

// In a fleet the rows that are read ahead are counted each time, those beyond them once a minute.
func TestTheForecastOfASharedStoreIsFreshForTheWindow(t *testing.T) {
	inWorld(t, 10_000, func(w *world) {
		w.shared = true
		s := w.start()
		w.advance(2 * time.Minute)
		for range 20 {
			w.waiting(low, 9*time.Second)
			w.waiting(low, 4*time.Minute)
		}
		w.advance(scheduler.WindowDefault / 2)
		if got := s.Due()[low.Lambda]; got[0] != 20 {
			t.Errorf("%v due, want the 20 that are due within the window", got)
		}
		w.advance(scheduler.WindowDefault) // they are fired, and it is read ahead again
		if got := s.Due()[low.Lambda]; got[0] != 0 {
			t.Errorf("%v due, want none within a minute", got)
		}
		w.advance(75 * time.Second)
		if got := s.Due()[low.Lambda]; got[0] != 0 || got[1] != 20 {
			t.Errorf("%v due, want the 20 that are due later", got)
		}
	})
}

func TestTheForecastCountsWhatIsDueSoon(t *testing.T) {
	inWorld(t, 10_000, func(w *world) {
		const few, many = 30, 6000
		for n := range few {
			w.waiting(low, time.Minute+time.Duration(n)*5*time.Second)
		}
		w.waiting(low, scheduler.ForecastSpan+time.Minute)
		for n := range many { // ten a second
			w.waiting(high, 20*time.Second+time.Duration(n)*100*time.Millisecond)
		}
		s := w.start()
		due := int64(few + 2800)
		if got := s.DueSoon(); got < due*9/10 || got > due*11/10 {
			t.Errorf("%d due soon, want about %d", got, due)
		}
		scans := w.rows.scansOf(low)
		w.advance(3 * time.Minute)
		if got := w.rows.scansOf(low) - scans; got > int(3*time.Minute/(scheduler.WindowDefault/2)) {
			t.Errorf("%d scans in three minutes: counting is to cost none", got)
		}
		if got := s.DueSoon(); got < 2700 || got > 3300 {
			t.Errorf("%d due soon, after three minutes", got)
		}
		for range 200 {
			w.waiting(low, 40*time.Second)
		}
		w.advance(5 * time.Second) // the owner of a store counts with each read-ahead
		if got := s.Due()[low.Lambda][0]; got < 200 || got > 1100 {
			t.Errorf("%d due within a minute, want the 200 and those of the other priority", got)
		}
		w.advance(10 * time.Minute)
		if got := s.DueSoon(); got != 0 || s.Lag() != 0 {
			t.Errorf("%d due soon in the end, lag %v", got, s.Lag())
		}
	})
}

func TestTheLagOfWhatCannotBeDispatched(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		w.sent.refuse = func(*task.Task) error { return errors.New("no") }
		s := w.start()
		w.waiting(high, 10*time.Second)
		w.advance(9 * time.Second)
		if s.Lag() != 0 {
			t.Errorf("%v before it was due", s.Lag())
		}
		w.advance(31 * time.Second)
		if lag := s.Lag(); lag < 29*time.Second || lag > 30*time.Second {
			t.Errorf("%v, want 30 s", lag)
		}
	})
}

// A task that waits for room in its queue is overdue and no lag, whatever else becomes of the round; other
// partitions' tasks are.
func TestWhatWaitsForRoomIsNoLag(t *testing.T) {
	const room = 2
	refused := errors.New("no")
	for name, add := range map[string]func(w *world, p task.Partition) task.Task{
		"first dispatch": func(w *world, p task.Partition) task.Task { return w.waiting(p, 10*time.Second) },
		"retry": func(w *world, p task.Partition) task.Task {
			return w.awake(p, 10*time.Second, func(t *task.Task) { t.State, t.Attempt = task.RetriableFailure, 1 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 100, func(w *world) {
				w.sent.depthMax = room
				refuse := func(does func(t *task.Task) bool) {
					w.sent.mu.Lock()
					defer w.sent.mu.Unlock()
					w.sent.refuse = func(t *task.Task) error {
						if does(t) {
							return refused
						}
						return nil
					}
				}
				l := w.openLease(30 * time.Second)
				w.running(high, l.Worker)
				for range room + 3 {
					add(w, high)
				}
				add(w, low)
				var s *scheduler.Scheduler
				lag := func(when string, least, most time.Duration) {
					t.Helper()
					if got := s.Lag(); got < least || got > most {
						t.Errorf("%s: lag %v, want %v to %v", when, got, least, most)
					}
				}
				refuse(func(t *task.Task) bool { return t.Partition == low })
				s = w.start()
				w.advance(16 * time.Second)
				lag("one is full, one is refused", 5*time.Second, 6*time.Second)
				refuse(func(*task.Task) bool { return false })
				w.advance(6 * time.Second)
				if _, overdue := s.Overdue()[high]; !overdue {
					t.Error("nothing is overdue")
				}
				lag("one is full", 0, 0)
				refuse(func(t *task.Task) bool { return t.State == task.Processing })
				before := w.failed[high]
				w.advance(30 * time.Second)
				if w.failed[high] == before {
					t.Error("no round failed")
				}
				lag("one is full and fails", 0, 0)
				refuse(func(t *task.Task) bool { return t.Partition == high })
				w.drain(100)
				w.advance(10 * time.Second)
				lag("there is room, and all is refused", 50*time.Second, 60*time.Second)
				refuse(func(*task.Task) bool { return false })
				for range 10 {
					w.drain(100)
					w.advance(6 * time.Second)
				}
				lag("all is sent", 0, 0)
			})
		})
	}
}

// TestALoopThatHangsIsSeen has the store not answer.
func TestALoopThatHangsIsSeen(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		s := w.start()
		w.advance(time.Hour)
		if got := s.Stalled(); got > 15*time.Second {
			t.Errorf("stalled for %v with nothing to do", got)
		}
		hang := make(chan struct{})
		w.rows.mu.Lock()
		w.rows.during = func(task.Partition) { <-hang }
		w.rows.mu.Unlock()
		w.advance(2 * time.Minute)
		if got := s.Stalled(); got < 100*time.Second {
			t.Errorf("stalled for %v while a call hangs", got)
		}
		close(hang)
		w.advance(time.Second)
		if got := s.Stalled(); got > 15*time.Second {
			t.Errorf("stalled for %v after that", got)
		}
	})
}
