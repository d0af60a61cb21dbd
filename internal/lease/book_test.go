package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// fixture is a book over a store in memory, and the book of another process.
type fixture struct {
	t         *testing.T
	ctx       context.Context //nolint:containedctx // of the test
	rows      *countedRows
	hsc, peer *lease.Book
}

// countedRows counts reads, and fails the next write on demand, before or after it is applied.
type countedRows struct {
	*store.Store

	reads      int
	failNext   error
	applyFirst bool
}

func (r *countedRows) Control(ctx context.Context, kind, name string) (store.Control, error) {
	r.reads++
	return r.Store.Control(ctx, kind, name)
}

func (r *countedRows) PutControl(ctx context.Context, c store.Control) error {
	err := r.failNext
	r.failNext = nil
	if err == nil {
		return r.Store.PutControl(ctx, c)
	}
	if r.applyFirst {
		_ = r.Store.PutControl(ctx, c)
	}
	return err
}

func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rows := &countedRows{Store: store.New(mem.New(), store.Config{})}
		test(&fixture{
			t: t, ctx: t.Context(), rows: rows,
			hsc: lease.NewBook(rows, clock.Real()), peer: lease.NewBook(rows, clock.Real()),
		})
	})
}

func (f *fixture) open() lease.Lease {
	f.t.Helper()
	l, err := f.hsc.Open(f.ctx, "host 1/w", "", 0, "", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func (f *fixture) look(worker string) lease.Lease {
	f.t.Helper()
	l, err := f.peer.Look(f.ctx, worker)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func TestOpenMakesAReadableIDOfItsOwn(t *testing.T) {
	run(t, func(f *fixture) {
		a, b := f.open(), f.open()
		if a.Worker == b.Worker || !strings.HasPrefix(a.Worker, "host-1-w-") || len(a.Worker) != len("host-1-w-")+10 {
			t.Errorf("ids %q and %q", a.Worker, b.Worker)
		}
		if a.Length != lease.LengthDefault || a.HeartbeatEvery() != lease.LengthDefault/4 {
			t.Errorf("length %v, heartbeat every %v", a.Length, a.HeartbeatEvery())
		}
		if got := f.look(a.Worker); got != a {
			t.Errorf("stored %+v, want %+v", got, a)
		}
	})
}

func TestTheIDOfAWorkerHasItsVersion(t *testing.T) {
	run(t, func(f *fixture) {
		for version, want := range map[string]string{"": "", "2.4.1": "2.4.1", "v1+dirty@x": "v1-dirty-x", strings.Repeat("9", 99): strings.Repeat("9", task.WorkerVersionBytesMax)} {
			l, err := f.hsc.Open(f.ctx, "a@b", version, 0, "", nil)
			if err != nil || task.WorkerVersion(l.Worker) != want {
				t.Errorf("%q: worker %q, %v", version, l.Worker, err)
			}
		}
	})
}

func TestOpenRefusesLengthsOutsideTheLimits(t *testing.T) {
	run(t, func(f *fixture) {
		for _, d := range []time.Duration{-1, 2999 * time.Millisecond, time.Hour + 1} {
			if _, err := f.hsc.Open(f.ctx, "w", "", d, "", nil); !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), "3s to 1h") {
				t.Errorf("%v: %v", d, err)
			}
		}
	})
}

func TestLeasesOfALastingBookOutlastJumps(t *testing.T) {
	rows := store.New(mem.New(), store.Config{})
	b := lease.NewLastingBook(rows, clock.Real())
	l, err := b.Open(t.Context(), "w", "", time.Minute, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if l.Length != lease.LengthLasting || l.Over(l.Receipt.Add(50*365*24*time.Hour), 0) {
		t.Errorf("length %v", l.Length)
	}
	if _, err := b.Open(t.Context(), "w", "", time.Second, "", nil); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("a length outside the limits: %v", err)
	}
}

func TestAHeartbeatCostsNoRead(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		for range 5 {
			time.Sleep(l.HeartbeatEvery())
			renewed, err := f.hsc.Renew(f.ctx, l.Worker)
			if err != nil {
				t.Fatal(err)
			}
			if want := clock.Real().Now().Add(l.Length); renewed.End() != want {
				t.Errorf("ends %d, want %d", renewed.End(), want)
			}
		}
		if f.rows.reads != 0 {
			t.Errorf("%d reads", f.rows.reads)
		}
	})
}

func TestHeartbeatsThroughTwoProcessesFollowEachOther(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		suspect := task.ID{7}
		if err := f.hsc.SetSuspect(f.ctx, l.Worker, suspect); err != nil {
			t.Fatal(err)
		}
		for _, book := range []*lease.Book{f.peer, f.hsc, f.peer} {
			time.Sleep(time.Second)
			renewed, err := book.Renew(f.ctx, l.Worker)
			if err != nil || renewed.Suspect != suspect {
				t.Errorf("%+v, %v", renewed, err)
			}
		}
	})
}

func TestALeaseIsOverOnlyAfterItsEndAndTheClockBound(t *testing.T) {
	l := lease.Lease{Receipt: 1_000_000_000, Length: 10 * time.Second}
	end := l.End().Add(task.ClockBound)
	for _, c := range []struct {
		now, since task.Instant
		want       bool
	}{
		{end - 1, 0, false},
		{end, 0, true},
		{end, l.Receipt + 1, false},    // listening only since later
		{end + 1, l.Receipt + 1, true}, // and a whole lease has passed since
		{end + 99, l.Receipt + 50, true},
	} {
		if got := l.Over(c.now, c.since); got != c.want {
			t.Errorf("over at %d since %d: %v", c.now, c.since, got)
		}
	}
	l.Lost = true
	if !l.Over(0, 0) {
		t.Error("a lost lease is not over")
	}
}

func TestAHeartbeatThatGotThroughBeatsTheVerdict(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		time.Sleep(l.Length + task.ClockBound)
		seen := f.look(l.Worker)
		if _, err := f.hsc.Renew(f.ctx, l.Worker); err != nil {
			t.Fatal(err) // it ran out, and nobody acted on it
		}
		if err := f.peer.MarkLost(f.ctx, seen); !errors.Is(err, store.ErrConflict) {
			t.Errorf("marked lost: %v", err)
		}
		if f.look(l.Worker).Lost {
			t.Error("lost")
		}
	})
}

func TestAHeartbeatAfterTheVerdictIsRefusedForGood(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		if err := f.hsc.SetSuspect(f.ctx, l.Worker, task.ID{9}); err != nil {
			t.Fatal(err)
		}
		if err := f.peer.MarkLost(f.ctx, f.look(l.Worker)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := f.hsc.Renew(f.ctx, l.Worker); !errors.Is(err, lease.ErrLost) {
				t.Errorf("renewed: %v", err)
			}
		}
		if err := f.hsc.SetSuspect(f.ctx, l.Worker, task.ID{1}); !errors.Is(err, lease.ErrLost) {
			t.Errorf("suspect: %v", err)
		}
		if err := f.hsc.Leave(f.ctx, l.Worker); err != nil {
			t.Errorf("leave: %v", err)
		}
		if got := f.look(l.Worker); got.Suspect != (task.ID{9}) || got.Version == 0 {
			t.Errorf("the row of the lost lease is %+v", got)
		}
	})
}

func TestLeaveDeletesTheRow(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		for range 2 {
			if err := f.hsc.Leave(f.ctx, l.Worker); err != nil {
				t.Fatal(err)
			}
		}
		got := f.look(l.Worker)
		if !got.Lost || got.Version != 0 {
			t.Errorf("%+v", got)
		}
		if err := f.peer.MarkLost(f.ctx, got); err != nil {
			t.Error(err)
		}
		if _, err := f.hsc.Renew(f.ctx, l.Worker); !errors.Is(err, lease.ErrLost) {
			t.Errorf("renewed: %v", err)
		}
	})
}

func TestASuspectComesOffWithTheNextChange(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		one, two := task.ID{1}, task.ID{2}
		if err := f.hsc.SetSuspect(f.ctx, l.Worker, one); err != nil {
			t.Fatal(err)
		}
		suspect := task.Task{ID: one, Suspect: true}
		if got := f.look(l.Worker); !got.Blames(&suspect) || got.Blames(&task.Task{ID: one}) || got.Blames(&task.Task{ID: two, Suspect: true}) {
			t.Errorf("blames the wrong ones: %+v", got)
		}
		f.hsc.ClearSuspect(l.Worker, one)
		if got := f.look(l.Worker).Suspect; got != one {
			t.Errorf("suspect %v before the next change", got)
		}
		if _, err := f.hsc.Renew(f.ctx, l.Worker); err != nil {
			t.Fatal(err)
		}
		if got := f.look(l.Worker).Suspect; !got.IsZero() {
			t.Errorf("suspect %v after the heartbeat", got)
		}
		f.hsc.ClearSuspect(l.Worker, two)
		if err := f.hsc.SetSuspect(f.ctx, l.Worker, two); err != nil {
			t.Fatal(err)
		}
		if _, err := f.hsc.Renew(f.ctx, l.Worker); err != nil {
			t.Fatal(err)
		}
		if got := f.look(l.Worker).Suspect; got != two {
			t.Errorf("suspect %v, want the one that was set after it was cleared", got)
		}
	})
}

func TestAFailedWriteHarmsNothingEitherWay(t *testing.T) {
	for _, applied := range []bool{false, true} {
		run(t, func(f *fixture) {
			l := f.open()
			time.Sleep(time.Second)
			f.rows.failNext, f.rows.applyFirst = store.ErrUnknown, applied
			if _, err := f.hsc.Renew(f.ctx, l.Worker); !errors.Is(err, store.ErrUnknown) {
				t.Errorf("applied %v: %v", applied, err)
			}
			renewed, err := f.hsc.Renew(f.ctx, l.Worker)
			if err != nil || f.look(l.Worker) != renewed {
				t.Errorf("applied %v: %+v, %v", applied, renewed, err)
			}
		})
	}
}

func TestSweepDeletesWhatEndedLongAgo(t *testing.T) {
	run(t, func(f *fixture) {
		gone, lost := f.open(), f.open()
		if err := f.peer.MarkLost(f.ctx, f.look(lost.Worker)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease.LengthDefault + lease.KeptAfterEnd - time.Second)
		live := f.open()
		if n, err := f.hsc.Sweep(f.ctx); n != 0 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		time.Sleep(time.Second)
		if n, err := f.hsc.Sweep(f.ctx); n != 2 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		all, err := f.hsc.List(f.ctx)
		if err != nil || len(all) != 1 || all[0].Worker != live.Worker {
			t.Errorf("left %+v, %v", all, err)
		}
		if _, err := f.hsc.Renew(f.ctx, gone.Worker); !errors.Is(err, lease.ErrLost) {
			t.Errorf("renewed: %v", err)
		}
	})
}

// Only the given suspect comes off the lease, and at once.
func TestASuspectIsDropped(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		one, other := task.ID{1}, task.ID{2}
		if err := f.hsc.SetSuspect(f.ctx, l.Worker, one); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ drop, want task.ID }{{other, one}, {one, task.ID{}}, {one, task.ID{}}} {
			if err := f.peer.DropSuspect(f.ctx, l.Worker, c.drop); err != nil {
				t.Fatal(err)
			}
			if got := f.look(l.Worker).Suspect; got != c.want {
				t.Errorf("without %v the lease names %v, want %v", c.drop, got, c.want)
			}
		}
		if err := f.hsc.MarkLost(f.ctx, f.look(l.Worker)); err != nil {
			t.Fatal(err)
		}
		if err := f.peer.DropSuspect(f.ctx, l.Worker, one); !errors.Is(err, lease.ErrLost) {
			t.Errorf("of a lost lease: %v", err)
		}
	})
}

// behind is a clock that is behind by a duration.
type behind struct {
	clock.Clock

	by time.Duration
}

func (b behind) Now() task.Instant { return b.Clock.Now().Add(-b.by) }

func TestAHeartbeatThroughAClockThatIsBehindShortensNothing(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		late := lease.NewBook(f.rows, behind{clock.Real(), 2 * time.Second})
		if renewed, err := late.Renew(f.ctx, l.Worker); err != nil || renewed.End() < l.End() {
			t.Errorf("ends %d, %v: it ended %d before the heartbeat", renewed.End(), err, l.End())
		}
	})
}

func TestClearingASuspectLeavesAnother(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		f.hsc.ClearSuspect(l.Worker, task.ID{1})
		if err := f.peer.SetSuspect(f.ctx, l.Worker, task.ID{2}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.hsc.Renew(f.ctx, l.Worker); err != nil {
			t.Fatal(err)
		}
		if got := f.look(l.Worker).Suspect; got != (task.ID{2}) {
			t.Errorf("suspect %v, want the one that another process wrote", got)
		}
	})
}

func TestAFailedWriteForgetsNoClearedSuspect(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		if err := f.hsc.SetSuspect(f.ctx, l.Worker, task.ID{1}); err != nil {
			t.Fatal(err)
		}
		f.hsc.ClearSuspect(l.Worker, task.ID{1})
		f.rows.failNext = store.ErrUnknown
		if _, err := f.hsc.Renew(f.ctx, l.Worker); !errors.Is(err, store.ErrUnknown) {
			t.Fatal(err)
		}
		if _, err := f.hsc.Renew(f.ctx, l.Worker); err != nil {
			t.Fatal(err)
		}
		if got := f.look(l.Worker).Suspect; !got.IsZero() {
			t.Errorf("suspect %v is still on the lease", got)
		}
	})
}

// busyRows refuses a number of writes, as if another writer were faster each time.
type busyRows struct {
	*store.Store

	left int
}

func (r *busyRows) PutControl(ctx context.Context, c store.Control) error {
	if r.left--; r.left >= 0 {
		return store.ErrConflict
	}
	return r.Store.PutControl(ctx, c)
}

func TestALeaseThatOthersKeepChangingIsGivenUp(t *testing.T) {
	run(t, func(f *fixture) {
		l := f.open()
		rows := &busyRows{f.rows.Store, 1000}
		if _, err := lease.NewBook(rows, clock.Real()).Renew(f.ctx, l.Worker); !errors.Is(err, lease.ErrBusy) {
			t.Errorf("%v after %d writes, want ErrBusy", err, 1000-rows.left)
		}
	})
}
