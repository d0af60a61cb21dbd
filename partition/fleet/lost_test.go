package fleet

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// way is the store as one process reaches it.
type way struct {
	*store.Store

	slow   atomic.Int64 // nanoseconds that each call takes
	harm   atomic.Int32 // what happens to calls
	times  atomic.Int32 // to so many; negative: to all
	harmed atomic.Int32
}

// The fates of calls on the way to the store.
const (
	refuseWrites int32 = 1 << iota // at once
	swallowWrites
	refuseReads
	swallowReads // nothing is answered until the call is given up
)

var errLost = errors.New("lost on the way")

func (w *way) harms(ctx context.Context, refuse, swallow int32) error {
	if slow := time.Duration(w.slow.Load()); slow > 0 && clock.Sleep(ctx, clock.Real(), slow) != nil {
		return errLost
	}
	harm := w.harm.Load() & (refuse | swallow)
	if harm == 0 || w.times.Load() == 0 {
		return nil
	}
	w.times.Add(-1)
	w.harmed.Add(1)
	if harm == swallow {
		<-ctx.Done()
	}
	return errLost
}

func (w *way) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	if err := w.harms(ctx, refuseReads, swallowReads); err != nil {
		return nil, err
	}
	return w.Store.Controls(ctx, kind)
}

func (w *way) PutControl(ctx context.Context, row store.Control) error {
	if err := w.harms(ctx, refuseWrites, swallowWrites); err != nil {
		return err
	}
	return w.Store.PutControl(ctx, row)
}

func (w *way) DeleteControl(ctx context.Context, row store.Control) error {
	if err := w.harms(ctx, refuseWrites, swallowWrites); err != nil {
		return err
	}
	return w.Store.DeleteControl(ctx, row)
}

func (w *way) set(harm, times int32) {
	w.times.Store(times)
	w.harm.Store(harm)
}

// startOn starts a process with a way of its own to the store.
func (w *town) startOn(name string) (*citizen, *way) {
	way := &way{Store: w.rows.Store}
	return w.startOver(way, name, Ready), way
}

// One call of a process that gets lost, whichever and whenever, must not give everybody another lease: a
// killed process would be missed for two.
func TestAKilledMemberIsGoneWithinTenSecondsThoughACallGetsLost(t *testing.T) {
	for name, harm := range map[string]int32{
		"a write is refused": refuseWrites, "a write hangs": swallowWrites, "a read is refused": refuseReads, "a read hangs": swallowReads,
	} {
		t.Run(name, func(t *testing.T) {
			var worst time.Duration
			for killed := range 5 {
				for lost := range 14 {
					for _, hurry := range []bool{false, true} {
						at, after := time.Duration(killed)*310*time.Millisecond, time.Duration(lost)*630*time.Millisecond
						worst = max(worst, missedFor(t, harm, at, after, hurry))
					}
				}
			}
			t.Logf("at most %v", worst)
			if worst > 10*time.Second {
				t.Errorf("a killed process was a member for %v", worst)
			}
		})
	}
}

// missedFor is how long b is a member for a after it was killed, when so long after that a call of a gets
// lost.
func missedFor(t *testing.T, harm int32, at, after time.Duration, hurry bool) (took time.Duration) {
	t.Helper()
	inTown(t, func(w *town) {
		a, lossy := w.startOn("a")
		time.Sleep(at)
		b, cut := w.startOn("b")
		time.Sleep(RenewEvery / 3)
		w.start("c", Ready)
		time.Sleep(10 * time.Second)
		w.wantMembers(a, "a", "b", "c")
		cut.set(refuseWrites|refuseReads, -1)
		b.end()
		if hurry {
			a.Hurry()
		}
		began := time.Now()
		time.AfterFunc(after, func() { lossy.set(harm, 1) })
		w.until(20*time.Second, "a misses b", func() bool { return !slices.Contains(a.Members(), "b") })
		took = time.Since(began)
		w.wantMembers(a, "a", "c")
	})
	return took
}

// A process with something to say tries often. A second in which that fails is no outage.
func TestManyFailuresInASecondAreNoOutage(t *testing.T) {
	for phase := range 5 {
		inTown(t, func(w *town) {
			a, lossy := w.startOn("a")
			time.Sleep(time.Duration(phase) * 330 * time.Millisecond)
			b, cut := w.startOn("b")
			time.Sleep(10 * time.Second)
			cut.set(refuseWrites|refuseReads, -1)
			b.end()
			began := time.Now()
			time.Sleep(5 * time.Second)
			lossy.set(refuseWrites, -1)
			a.InForce([]string{"a"})
			time.Sleep(700 * time.Millisecond)
			if n := lossy.harmed.Load(); n < 2 {
				t.Errorf("%d writes failed", n)
			}
			lossy.set(0, 0)
			w.until(20*time.Second, "a misses b", func() bool { return len(a.Members()) == 1 })
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("a killed process was a member for %v", took)
			}
		})
	}
}

// A store each of whose answers takes longer than one is waited for at first is used all the same.
func TestASlowStoreIsWaitedFor(t *testing.T) {
	inTown(t, func(w *town) {
		a, slow := w.startOn("a")
		time.Sleep(2 * RenewEvery)
		slow.slow.Store(int64(readMax + 200*time.Millisecond))
		time.Sleep(time.Minute)
		b := w.start("b", Ready)
		w.until(30*time.Second, "a hears of b", func() bool { return len(a.Members()) == 2 })
		a.InForce([]string{"a", "b"})
		w.until(30*time.Second, "b hears of a", func() bool { return b.Follows("a", []string{"a", "b"}) })
	})
}

// Whatever a store does not do for some time, for all: nobody is given up for it.
func TestAnOutageOfAnyLengthKeepsTheMembers(t *testing.T) {
	for name, harm := range map[string]int32{
		"no writes": refuseWrites, "writes hang": swallowWrites,
		"nothing": refuseWrites | refuseReads, "all hangs": swallowWrites | swallowReads,
	} {
		t.Run(name, func(t *testing.T) {
			for length := 500 * time.Millisecond; length < 20*time.Second; length += length / 4 {
				for phase := range 3 {
					for _, hurry := range []bool{false, true} {
						outage(t, harm, length.Round(10*time.Millisecond), time.Duration(phase)*390*time.Millisecond, hurry)
					}
				}
			}
		})
	}
}

func outage(t *testing.T, harm int32, length, phase time.Duration, hurry bool) {
	t.Helper()
	inTown(t, func(w *town) {
		names := []string{"a", "b", "c", "d"}
		all, ways := make([]*citizen, len(names)), make([]*way, len(names))
		for i, name := range names {
			all[i], ways[i] = w.startOn(name)
			time.Sleep(phase)
		}
		time.Sleep(10 * time.Second)
		var changed []<-chan struct{}
		for _, c := range all {
			w.wantMembers(c, names...)
			changed = append(changed, c.Changed())
			if hurry {
				c.Hurry()
			}
		}
		time.Sleep(phase)
		for _, way := range ways {
			way.set(harm, -1)
		}
		time.Sleep(length)
		for i := range all {
			ways[i].set(0, 0)
		}
		time.Sleep(3 * Length)
		for i, c := range all {
			select {
			case <-changed[i]:
				t.Errorf("after %v, %v apart: %s gave somebody up", length, phase, c.Self())
			default:
			}
			if ways[i].harmed.Load() == 0 && length > RenewEvery {
				t.Errorf("no call of %s got lost", c.Self())
			}
		}
	})
}
