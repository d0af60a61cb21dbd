package scheduler_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// gated is a world with gates.
type gated struct {
	*world

	book *gate.Book
}

func inGated(t *testing.T, depth int, test func(g *gated)) {
	t.Helper()
	inWorld(t, depth, func(w *world) { test(w.withGates()) })
}

func (w *world) withGates() *gated {
	g := &gated{world: w, book: gate.NewBook(w.rows.Store, w.clock, slog.New(slog.DiscardHandler))}
	w.gating = &scheduler.Gating{
		Gates:     g.book,
		Retention: func(uint32) (time.Duration, bool) { return 7 * 24 * time.Hour, true },
	}
	return g
}

// set stores a gate as it is and lets the scheduler know.
func (g *gated) set(one *hold.Gate) {
	g.t.Helper()
	one.Ref = high.Lambda
	row, err := gate.AsRows.Encode(one)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.rows.PutControl(g.ctx, row); err != nil {
		g.t.Fatal(err)
	}
	one.Version++
	g.refresh()
}

func (g *gated) end(one *hold.Gate) {
	g.t.Helper()
	if err := g.rows.DeleteControl(g.ctx, store.Control{Kind: gate.Kind, Name: one.ID, Version: one.Version}); err != nil {
		g.t.Fatal(err)
	}
	g.refresh()
}

func (g *gated) refresh() {
	g.t.Helper()
	if err := g.book.Refresh(g.ctx); err != nil {
		g.t.Fatal(err)
	}
	synctest.Wait()
}

func pauseAll() *hold.Gate { return &hold.Gate{ID: "1", Action: hold.Pause, Reason: "maintenance"} }

// pauseA pauses the collection "a".
func pauseA() *hold.Gate {
	return &hold.Gate{ID: "1", Action: hold.Pause, Reason: "maintenance", Collection: "a"}
}

func dropAll() *hold.Gate { return &hold.Gate{ID: "2", Action: hold.Drop, Reason: "not wanted"} }

// of stores a task of a collection that is due in d.
func (g *gated) of(collection string, d time.Duration) task.Task {
	g.t.Helper()
	t := g.next(high, d)
	t.Collection = collection
	ops := store.First(t)
	g.apply(ops...)
	return ops[0].Task
}

// backlog stores many tasks of a collection that were due long ago.
func (g *gated) backlog(collection string, count int, age time.Duration) {
	g.t.Helper()
	for count > 0 {
		var ops []store.Op
		for range min(count, 5000) {
			t := g.next(high, -age)
			t.Collection = collection
			ops = append(ops, store.First(t)...)
		}
		g.apply(ops...)
		count -= len(ops)
	}
}

func (g *gated) wantNone(tasks ...task.Task) {
	g.t.Helper()
	for _, t := range tasks {
		if at, ok := g.dispatched(t); ok {
			g.t.Errorf("task due at +%v was dispatched at +%v", t.Due.Sub(start), at.Sub(start))
		}
	}
}

// Every kind of row that waits is left in the schedule, and goes when the gate ends.
func TestAPauseHoldsAllThatWaits(t *testing.T) {
	for name, shared := range map[string]bool{"alone": false, "with others": true} {
		t.Run(name, func(t *testing.T) {
			inGated(t, depth, func(g *gated) {
				g.shared = shared
				gate := pauseAll()
				old := g.waiting(high, -time.Hour)
				g.set(gate)
				s := g.settled()
				g.advance(time.Second)
				soon, late := g.waiting(high, 2*time.Second), g.waiting(high, 30*time.Second)
				s.Added(&soon)
				keyed := g.awake(high, 3*time.Second, func(*task.Task) {})
				s.Awake(&keyed)
				retry := g.awake(high, 0, backedOff(4*time.Second))
				s.Awake(&retry)
				moved := g.moved(high, 40*time.Second, func(t *task.Task) { t.State, t.Attempt = task.RetriableFailure, 1 })
				all := []task.Task{old, soon, late, keyed, retry, moved}
				g.advance(time.Minute)
				g.wantNone(all...)
				if s.InFlight() != 0 || s.Lag() != 0 {
					t.Errorf("%d in flight, lag %v", s.InFlight(), s.Lag())
				}
				g.advance(10 * time.Minute)
				g.wantNone(all...)
				resumed := g.clock.Now()
				g.end(gate)
				g.advance(time.Second)
				for i := range all {
					g.wantDispatched(&all[i], resumed, time.Second)
				}
			})
		})
	}
}

func TestAGateHoldsOnlyWhatItSelects(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.set(pauseA())
		s := g.settled()
		held, free := g.of("a", 2*time.Second), g.of("b", 2*time.Second)
		s.Added(&held)
		s.Added(&free)
		g.advance(time.Minute)
		g.wantNone(held)
		g.wantOnTime(free)
	})
}

// Tasks that are in the buffer already when the gate is set.
func TestAGateHoldsWhatWasReadBefore(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		s := g.settled()
		one := g.waiting(high, 3*time.Second)
		s.Added(&one)
		keyed := g.awake(high, 3*time.Second, func(*task.Task) {})
		s.Awake(&keyed)
		g.advance(2 * time.Second)
		gate := pauseAll()
		g.set(gate)
		g.advance(time.Minute)
		g.wantNone(one, keyed)
		now := g.clock.Now()
		g.end(gate)
		g.advance(time.Second)
		g.wantDispatched(&one, now, time.Second)
		g.wantDispatched(&keyed, now, time.Second)
	})
}

// A gate ends at its expiry although nobody has tidied up its row.
func TestAGateEndsByItself(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		gate := pauseAll()
		gate.Until = g.clock.Now().Add(10 * time.Minute)
		g.set(gate)
		g.settled()
		one := g.waiting(high, 30*time.Second)
		g.advance(9 * time.Minute)
		g.wantNone(one)
		g.advance(2 * time.Minute)
		g.wantDispatched(&one, gate.Until, time.Second)
	})
}

// Reads go on behind the rows that are held, and tasks that are not find their way past them.
func TestABacklogThatIsHeldIsReadOnce(t *testing.T) {
	for name, shared := range map[string]bool{"alone": false, "with others": true} {
		t.Run(name, func(t *testing.T) {
			inGated(t, depth, func(g *gated) {
				g.shared, g.parts.all = shared, []task.Partition{high}
				count := either(100_000, 20_000)
				gate := pauseA()
				g.set(gate)
				s := g.settled()
				g.backlog("a", count, time.Hour)
				g.advance(fullScanLatest)
				if n := g.rows.lookedRows(); n < count {
					t.Fatalf("%d rows read, want all %d once", n, count)
				}
				free := g.of("b", 2*time.Second)
				s.Added(&free)
				reads := g.rows.readRows()
				g.advance(3 * fullScanLatest)
				if n := g.rows.lookedRows(); n > 200 {
					t.Errorf("%d rows read in %v, of %d that are held", n, 3*fullScanLatest, count)
				}
				if n := g.rows.readRows(); n > 10 {
					t.Errorf("%d task rows read after %d", n, reads)
				}
				g.wantOnTime(free)
				if n := s.Counts(high).Gates; n != int64(count) {
					t.Errorf("%d rows said to be held, want %d", n, count)
				}
				now := g.clock.Now()
				g.end(gate)
				g.advance(time.Second)
				first := slices.IndexFunc(g.sent.fired(), func(f fired) bool { return f.at >= now })
				if first < 0 {
					t.Error("nothing goes after the gate has ended")
				}
			})
		})
	}
}

// A full scan reads 5,000 rows a second where the store is a service.
func TestAFullScanOfAServiceTakesItsTime(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.parts.all, g.depths = []task.Partition{high}, lasting{g.queue}
		g.set(pauseA())
		g.backlog("a", 10_000, time.Hour)
		g.start()
		g.advance(time.Second)
		if n := g.rows.lookedRows(); n < 4000 || n > 6000 {
			t.Errorf("%d rows read in a second", n)
		}
	})
}

// Many tasks that are held come due at one moment, with others between them.
func TestABurstThatIsHeldDelaysNoOther(t *testing.T) {
	for name, shared := range map[string]bool{"alone": false, "with others": true} {
		t.Run(name, func(t *testing.T) {
			inGated(t, depth, func(g *gated) {
				g.shared, g.look, g.parts.all = shared, 256, []task.Partition{high}
				g.set(pauseA())
				g.settled()
				count := either(50_000, 10_000)
				g.backlog("a", count, -30*time.Second)
				free := []task.Task{g.of("b", 29*time.Second), g.of("b", 30*time.Second), g.of("b", 31*time.Second), g.of("b", 50*time.Second)}
				g.advance(2 * time.Minute)
				g.wantOnTime(free...)
				if n := g.rows.lookedRows(); n > 8*count {
					t.Errorf("%d rows read, of %d that are held", n, count)
				}
			})
		})
	}
}

// Expiry holds.
func TestAHeldTaskExpiresInTime(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.parts.set(high)
		g.set(pauseAll())
		s := g.settled()
		one := g.startSoon(high, 5*time.Second)
		keyed := g.awake(high, 5*time.Second, func(t *task.Task) { t.StartBefore = t.Due.Add(startWithin) })
		s.Awake(&keyed)
		g.advance(5*time.Second + startWithin - time.Millisecond)
		g.advance(2 * time.Second)
		g.wantExpired(one, keyed)
	})
}

// Tasks that a drop gate selects end when they are due, with its id and reason.
func TestADropGateEndsWhatIsDue(t *testing.T) {
	inGated(t, 4, func(g *gated) {
		s := g.settled()
		before := g.waiting(high, 10*time.Second)
		s.Added(&before)
		g.advance(time.Second)
		gate := dropAll()
		g.set(gate)
		keyed := g.awake(high, 3*time.Second, func(*task.Task) {})
		s.Awake(&keyed)
		retry := g.awake(high, 0, backedOff(4*time.Second))
		s.Awake(&retry)
		all := []task.Task{before, keyed, retry}
		for range 20 { // more than the queue takes
			all = append(all, g.waiting(high, 12*time.Second))
		}
		later := g.waiting(high, time.Hour)
		g.advance(30 * time.Second)
		for _, one := range all {
			row := g.read(one.ID)
			if row.State != task.Dropped || row.Ended < one.Wake || row.Ended > one.Wake.Add(window) {
				t.Errorf("task that wakes at +%v is %s since +%v", one.Wake.Sub(start), row.State, row.Ended.Sub(start))
				continue
			}
			if last := row.History[len(row.History)-1]; !strings.Contains(last.Error, gate.String()) || last.Outcome != task.OutcomeDropped {
				t.Errorf("its history says %+v", last)
			}
		}
		if left := g.schedule(high); len(left) != 1 || left[0].ID != later.ID {
			t.Errorf("%d wake-up rows are left", len(left))
		}
	})
}

// A task that a claim has put back leaves the tasks in flight, and starts at once when the gate ends.
func TestATaskThatWasPutBackGoesWhenTheGateEnds(t *testing.T) {
	for name, early := range map[string]bool{"with a task row": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			inGated(t, depth, func(g *gated) {
				g.parts.set(high)
				g.sent.early = early
				s := g.settled()
				one := g.waiting(high, time.Second)
				s.Added(&one)
				g.advance(2 * time.Second)
				gate := pauseAll()
				g.set(gate)
				message := g.drain(1)[0].Task
				if !early {
					row := g.read(one.ID)
					next, _, err := row.Apply(task.Event{Kind: task.Reschedule, Due: row.Due}, g.clock.Now(), policy)
					if err != nil {
						t.Fatal(err)
					}
					g.apply(store.Change(next, false, false)...)
					message = next
				}
				s.PutBack(&message, !early)
				g.advance(10 * time.Minute)
				if s.InFlight() != 0 || len(g.drain(1)) != 0 {
					t.Errorf("%d in flight", s.InFlight())
				}
				g.end(gate)
				g.advance(time.Second)
				if len(g.drain(2)) != 1 {
					t.Error("not sent after the gate has ended")
				}
			})
		})
	}
}

// One whose message nobody claims waits in its row again when its timeout comes, and no message piles up.
func TestAnEnqueuedTaskWaitsAgainAtItsTimeout(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.parts.set(high)
		s := g.settled()
		one := g.waiting(high, time.Second)
		s.Added(&one)
		g.advance(2 * time.Second)
		g.drain(1) // lost
		gate := pauseAll()
		g.set(gate)
		g.advance(time.Hour)
		if row := g.read(one.ID); row.State != task.Scheduled || len(g.drain(1)) != 0 || s.InFlight() != 0 {
			t.Errorf("%s, %d in flight", row.State, s.InFlight())
		}
		g.end(gate)
		g.advance(time.Second)
		if len(g.drain(2)) != 1 {
			t.Error("not sent after the gate has ended")
		}
	})
}

// Attempts that run are watched as ever.
func TestARunningTaskIsWatchedUnderAGate(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.parts.set(high)
		g.set(pauseAll())
		one := g.awake(high, -time.Minute, func(t *task.Task) {
			t.State, t.Attempt, t.Worker, t.ClaimedAt, t.Wake = task.Processing, 1, "gone", t.Due, t.Due.Add(time.Minute)
		})
		g.settled()
		g.advance(2 * time.Minute)
		if row := g.read(one.ID); row.State != task.Enqueued || row.Lost != 1 {
			t.Errorf("the task of a lost worker is %s", row.State)
		}
	})
}

// While the store cannot be read, the gates that were known last stay.
func TestGatesStayWhileTheStoreIsAway(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.set(pauseAll())
		g.settled()
		one := g.waiting(high, 30*time.Second)
		g.rows.setAway(true)
		g.advance(time.Minute)
		g.rows.setAway(false)
		g.advance(time.Minute)
		g.wantNone(one)
	})
}

// The next owner holds what its gates hold, and starts it when they end.
func TestTheNextOwnerHoldsToo(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.parts.set(high)
		gate := pauseAll()
		g.set(gate)
		one, keyed := g.waiting(high, -time.Minute), g.awake(high, -2*time.Minute, func(*task.Task) {})
		g.backlog("", 2000, time.Hour)
		s := g.settled()
		g.parts.set()
		g.advance(time.Minute)
		g.parts.set(high)
		g.advance(20 * time.Minute)
		g.wantNone(one, keyed)
		if s.InFlight() != 0 {
			t.Errorf("%d in flight", s.InFlight())
		}
		g.end(gate)
		g.advance(20 * time.Second)
		if _, ok := g.dispatched(keyed); !ok {
			t.Error("not dispatched after the gate has ended")
		}
	})
}

// A gate that resumes lets so many go in a second, and what comes due after that at once.
func TestAGateResumesAtItsPace(t *testing.T) {
	inGated(t, 10_000, func(g *gated) {
		g.parts.all = []task.Partition{high}
		const pace, count = 50, 2000
		bucket := struct{ left, at float64 }{0, 0}
		g.gating.Pace = func(gate *hold.Gate, _ task.Partition) (bool, task.Instant) {
			now := g.clock.Now()
			seconds := now.Sub(start).Seconds()
			bucket.left = min(bucket.left+(seconds-bucket.at)*float64(gate.Pace), pace/10)
			bucket.at = seconds
			if bucket.left < 1 {
				return false, now.Add(time.Second / pace)
			}
			bucket.left--
			return true, 0
		}
		gate := pauseAll()
		g.set(gate)
		s := g.settled()
		g.backlog("", count-100, time.Hour)
		for range 100 {
			g.waiting(high, 0)
		}
		g.advance(10 * time.Second)
		bucket.at = g.clock.Now().Sub(start).Seconds()
		gate.Resumed, gate.Pace = g.clock.Now(), pace
		g.rows.lookedRows()
		g.set(gate)
		fresh := g.waiting(high, 5*time.Second)
		s.Added(&fresh)
		g.advance(20 * time.Second)
		g.wantOnTime(fresh)
		if n := len(g.sent.fired()); n < 20*pace*9/10 || n > 20*pace+pace/10+1 {
			t.Errorf("%d dispatched in 20 s at %d/s", n, pace)
		}
		if n := g.rows.lookedRows(); n > 20*count {
			t.Errorf("%d rows read", n)
		}
		g.advance(10 * time.Minute)
		if n := len(g.sent.fired()); n != count+1 {
			t.Errorf("%d dispatched, want all %d", n, count+1)
		}
	})
}

// A leftover row behind which full scans begin is met while the ended row is there to tell.
func TestALeftoverRowAmongHeldRowsIsMetInTime(t *testing.T) {
	for name, c := range map[string]struct{ kept, within time.Duration }{
		"ended rows go soon": {task.EndedMin, fullScanLatest},
		"they are kept long": {7 * 24 * time.Hour, time.Hour + fullScanLatest},
	} {
		t.Run(name, func(t *testing.T) {
			inGated(t, depth, func(g *gated) {
				g.parts.all = []task.Partition{high}
				g.gating.Retention = func(uint32) (time.Duration, bool) { return c.kept, true }
				g.set(pauseA())
				g.settled()
				g.backlog("a", 1000, time.Hour)
				g.advance(2 * fullScanLatest)
				ended := g.awake(high, -2*time.Hour, func(t *task.Task) {
					t.State, t.Wake, t.Ended, t.ExpireAt = task.Success, 0, t.Due, t.Due.Add(24*time.Hour)
				})
				g.advance(c.within)
				if rows := g.schedule(high); rows[0].ID == ended.ID {
					t.Errorf("the leftover row is there %v later", c.within)
				}
			})
		})
	}
}

// A row that another process stores behind those that read-ahead has passed over is found within a minute.
func TestAReadAheadGoesBackToItsMargin(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.shared = true
		g.set(pauseA())
		g.settled()
		for range 20 {
			g.of("a", 0)
			g.advance(time.Second)
		}
		now := g.clock.Now()
		one := g.of("b", -15*time.Second)
		g.advance(time.Minute + window)
		g.wantDispatched(&one, now, time.Minute+window/2)
	})
}
