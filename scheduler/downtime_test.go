package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// asides is where doubtful tasks go.
type asides struct {
	mu    sync.Mutex
	room  int
	taken []task.ID
}

func (a *asides) SetAside(_ context.Context, rows []task.Task) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range rows {
		if a.room == 0 {
			return i, errors.New("no room")
		}
		a.room--
		a.taken = append(a.taken, rows[i].ID)
	}
	return len(rows), nil
}

func (a *asides) makeRoom(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.room = n
}

func (a *asides) want(w *world, want ...task.Task) {
	w.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.EqualFunc(a.taken, want, func(id task.ID, t task.Task) bool { return id == t.ID }) {
		w.t.Errorf("set aside %v, want %d", a.taken, len(want))
	}
	a.taken = nil
}

// expiring has ended rows expire by themselves, after an hour.
func (w *world) expiring(room int) *asides {
	a := &asides{room: room}
	w.downtime = &scheduler.Downtime{
		Rows: w.rows.Store, Aside: a,
		Retention: func(lambda uint32) (time.Duration, bool) { return time.Hour, lambda == high.Lambda },
	}
	return a
}

// ranUntilNow notes that a scheduler ran.
func (w *world) ranUntilNow() {
	s := scheduler.New(scheduler.Config{
		Store: w.rows, Queue: w.queue, Leases: w.leases, Ownership: everything{}, Partitions: &partitions{},
		Clock: w.clock, Log: w.log, Downtime: w.downtime,
	})
	stop := runtest.Start(w.t, func(ctx context.Context) error { return s.Run(ctx, w.sent, nil) })
	w.advance(time.Minute + time.Second)
	stop()
}

func TestAfterALongGapWhatMayHaveRunIsSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		gap   time.Duration
		first bool // no scheduler ran before
		aside int
	}{
		"shorter than the retention": {gap: 50 * time.Minute},
		"longer":                     {gap: 70 * time.Minute, aside: 1},
		"no note":                    {gap: 70 * time.Minute, first: true},
	} {
		inWorld(t, depth, func(w *world) {
			a := w.expiring(10)
			before, in, after := w.waiting(high, 0), w.waiting(high, 20*time.Minute), w.waiting(high, 2*time.Hour)
			if !c.first {
				w.ranUntilNow()
			}
			w.advance(c.gap)
			w.start()
			w.advance(2 * time.Hour)
			want := []task.Task{before, in, after}
			a.want(w, want[:c.aside]...)
			for _, one := range want[c.aside:] {
				if _, fired := w.dispatched(one); !fired {
					t.Errorf("%s: what was due at +%v was not fired", name, one.Due.Sub(start))
				}
			}
			if n := len(w.sent.fired()); n != 3-c.aside {
				t.Errorf("%s: %d fired", name, n)
			}
			if left := w.schedule(high); c.aside > 0 && slices.ContainsFunc(left, func(row task.Task) bool { return row.ID == before.ID }) {
				t.Errorf("%s: its wake-up row is there still", name)
			}
		})
	}
}

// A wake-up that cannot be set aside stays where it is, for as long as that is so, and other processes know
// of the gap.
func TestWhatCannotBeSetAsideIsLeft(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		a := w.expiring(1)
		one, two := w.waiting(high, 0), w.waiting(high, time.Second)
		w.ranUntilNow()
		w.advance(2 * time.Hour)
		w.ranUntilNow() // without any partition
		w.start()
		w.advance(time.Hour)
		a.want(w, one)
		if left := w.schedule(high); len(left) != 1 || left[0].ID != two.ID {
			t.Errorf("left are %v", left)
		}
		if w.failed[high] == 0 {
			t.Error("nobody was told")
		}
		a.makeRoom(1)
		w.advance(fullScanLatest)
		a.want(w, two)
		if left, orders := w.schedule(high), w.sent.fired(); len(left) != 0 || len(orders) != 0 {
			t.Errorf("left are %v, fired %v", left, orders)
		}
	})
}

// notes is a store of control rows that fails for a while, and counts what is written.
type notes struct {
	*store.Store

	mu     sync.Mutex
	fails  int
	writes int
}

func (n *notes) Control(ctx context.Context, kind, name string) (store.Control, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails > 0 {
		n.fails--
		return store.Control{}, store.ErrUnreachable
	}
	return n.Store.Control(ctx, kind, name)
}

func (n *notes) PutControl(ctx context.Context, c store.Control) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes++
	return n.Store.PutControl(ctx, c)
}

func TestTheRecordIsReadBeforeTheFirstReadAheadAndRenewed(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.expiring(0)
		n := &notes{Store: w.rows.Store, fails: 3}
		w.downtime.Rows = n
		looked := 0
		w.rows.slow = func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if looked++; n.fails > 0 {
				t.Error("looked before the note was read")
			}
		}
		w.start()
		w.advance(time.Hour + 2*time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.writes != 12 || looked == 0 {
			t.Errorf("%d writes in an hour, want one after a minute and then every five", n.writes)
		}
	})
}
