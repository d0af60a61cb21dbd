package lease_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// books returns the books of two processes over one store.
func books() (v *clock.Virtual, clocks [2]*clocktest.Settable, all [2]*lease.Book) {
	v = clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
	rows := store.New(storemem.New(), store.Config{Clock: v.Process(0)})
	for i := range all {
		clocks[i] = &clocktest.Settable{Clock: v.Process(0)}
		all[i] = lease.NewBook(rows, clocks[i])
	}
	return v, clocks, all
}

const length = 16 * time.Second

// wantAge checks how long ago the newest heartbeat was heard.
func wantAge(t *testing.T, k clock.Clock, l *lease.Lease, want time.Duration) {
	t.Helper()
	if age := clock.Steady(k).Sub(l.Heard); age != want {
		t.Errorf("the heartbeat counts from %v ago, want %v", age, want)
	}
}

// TestAHeartbeatCountsFromWhenItWasSeen sets the clock of the receiver of a heartbeat, or of the process that
// judges by it. The heartbeat never counts from the future, and never from so long ago that a live worker has
// no time for the next.
func TestAHeartbeatCountsFromWhenItWasSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by   time.Duration // of the clock of who judges
		want time.Duration // age of a heartbeat that was received 3 s ago, when it is seen first
	}{
		"clocks agree":           {0, 3 * time.Second},
		"behind":                 {-time.Hour, 0},
		"behind by a day":        {-24 * time.Hour, 0},
		"ahead":                  {time.Hour, 0},
		"ahead by a minute":      {time.Minute, 0},
		"ahead by a second":      {time.Second, 4 * time.Second},
		"ahead by half a lease":  {length / 2, length / 2},
		"behind by two seconds":  {-2 * time.Second, time.Second},
		"behind by four seconds": {-4 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			v, clocks, b := books()
			l, err := b[0].Open(ctx, "w", "", length, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			v.Advance(3 * time.Second)
			clocks[1].Step(c.by)
			seen, err := b[1].Look(ctx, l.Worker)
			if err != nil {
				t.Fatal(err)
			}
			wantAge(t, clocks[1], &seen, c.want)
			v.Advance(5 * time.Second)
			clocks[1].Step(-time.Hour) // no step moves what was seen
			if seen, err = b[1].Look(ctx, l.Worker); err != nil {
				t.Fatal(err)
			}
			wantAge(t, clocks[1], &seen, c.want+5*time.Second)
		})
	}
}

// TestAHeartbeatAfterTheClockWasSetBackIsSeen has a receipt that lies in the future, so that later heartbeats
// do not change it.
func TestAHeartbeatAfterTheClockWasSetBackIsSeen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, clocks, b := books()
	l, err := b[0].Open(ctx, "w", "", length, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	clocks[0].Step(-time.Hour)
	clocks[1].Step(-time.Hour)
	for range 10 {
		v.Advance(length / lease.BeatsPerLease)
		renewed, err := b[0].Renew(ctx, l.Worker)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := b[1].Look(ctx, l.Worker)
		if err != nil {
			t.Fatal(err)
		}
		wantAge(t, clocks[0], &renewed, 0)
		wantAge(t, clocks[1], &seen, 0)
	}
	v.Advance(time.Second)
	if err := b[0].SetSuspect(ctx, l.Worker, task.ID{1}); err != nil { // which is no heartbeat
		t.Fatal(err)
	}
	seen, err := b[1].Look(ctx, l.Worker)
	if err != nil {
		t.Fatal(err)
	}
	wantAge(t, clocks[1], &seen, time.Second)
}

// TestHowOldAHeartbeatMayBe sees a heartbeat late, by clocks that agree or not, and then the next one, of a
// receiver whose clock is an hour off. An answer that was received before is not taken for newer.
func TestHowOldAHeartbeatMayBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age  time.Duration // of the heartbeat when it is seen first
		by   time.Duration // of the clock of who judges
		came time.Duration // how long ago it was received at the earliest; 0: unknown
	}{
		"young":                     {3 * time.Second, 0, 3 * time.Second},
		"old":                       {length - 1, 0, length - 1},
		"older than the lease":      {length + time.Second, 0, 0},
		"by a clock that is behind": {3 * time.Second, -time.Minute, 0},
		"by a clock that is ahead":  {3 * time.Second, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			v, clocks, b := books()
			l, err := b[0].Open(ctx, "w", "", length, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			v.Advance(c.age)
			clocks[1].Step(c.by)
			look := func(when string, want task.Instant) lease.Lease {
				t.Helper()
				seen, err := b[1].Look(ctx, l.Worker)
				if err != nil || seen.Came != want || seen.Came > seen.Heard {
					t.Errorf("%s: received between %v and %v, want from %v on (%v)", when, seen.Came, seen.Heard, want, err)
				}
				return seen
			}
			var want task.Instant
			if c.came != 0 {
				want = clock.Steady(clocks[1]).Add(-c.came)
			}
			first := look("the first one", want)
			v.Advance(time.Second)
			look("the same again", want)

			clocks[0].Step(-time.Hour)
			second, err := b[0].Renew(ctx, l.Worker)
			if received := clock.Steady(clocks[0]); err != nil || second.Came != received {
				t.Errorf("who received the next one says %v, want %v (%v)", second.Came, received, err)
			}
			v.Advance(time.Second)
			look("the next one", first.Heard)
		})
	}
}

// TestAStepForwardSweepsNoWorkerThatLives sets the clock forward by more than leases are kept.
func TestAStepForwardSweepsNoWorkerThatLives(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, clocks, b := books()
	l, err := b[0].Open(ctx, "w", "", length, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		clocks[i].Step(2 * lease.KeptAfterEnd)
		if n, err := b[i].Sweep(ctx); n != 0 || err != nil {
			t.Errorf("book %d: %d leases swept (%v)", i, n, err)
		}
	}
	if _, err := b[0].Renew(ctx, l.Worker); err != nil {
		t.Error(err)
	}
	v.Advance(2*lease.KeptAfterEnd + time.Hour)
	if n, err := b[1].Sweep(ctx); n != 0 || err != nil {
		t.Errorf("%d leases swept at first sight of a heartbeat (%v)", n, err)
	}
	v.Advance(length + task.ClockBound)
	if n, err := b[1].Sweep(ctx); n != 1 || err != nil {
		t.Errorf("%d leases swept (%v), want the one of a worker that was silent", n, err)
	}
}

// TestSilenceOutlivesAProcess has processes follow each other, each of which ends before it has listened for a
// whole lease. Together they listen for one, whatever their wall clocks say; a heartbeat begins anew.
func TestSilenceOutlivesAProcess(t *testing.T) {
	t.Parallel()
	const lives, each = 5, length / 4
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		ctx := t.Context()
		v := clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
		rows := store.New(storemem.New(), store.Config{Clock: v.Process(0)})
		book := lease.NewBook(rows, v.Process(0))
		l, err := book.Open(ctx, "w", "", length, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		alive, err := book.Open(ctx, "alive", "", length, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		listened := time.Duration(0) // noted, at least
		for life := range lives {
			k := &clocktest.Settable{Clock: v.Process(0)}
			k.Step(by)
			book = lease.NewBook(rows, k)
			v.Advance(time.Minute) // while nobody listens
			start := clock.Steady(k)
			seen, err := book.Look(ctx, l.Worker)
			if err != nil || seen.SilentBefore != min(listened, length+task.ClockBound) {
				t.Fatalf("step %v, life %d: silent for %v before (%v), want %v", by, life, seen.SilentBefore, err, listened)
			}
			local := seen // as the scheduler judges it
			local.Receipt = seen.Heard
			if at, want := local.OverAt(start), start.Add(max(0, length+task.ClockBound-listened)); at != want {
				t.Errorf("step %v, life %d: over %v after the start, want %v", by, life, at.Sub(start), want.Sub(start))
			}
			if _, err := book.Renew(ctx, alive.Worker); err != nil {
				t.Error(err)
			}
			if err := book.NoteSilence(ctx); err != nil { // sees what is known
				t.Fatal(err)
			}
			for range 2 {
				v.Advance(each)
				if err := book.NoteSilence(ctx); err != nil {
					t.Fatal(err)
				}
			}
			listened += 2 * each
			v.Advance(each / 2) // is lost with the process
			again, err := book.Look(ctx, l.Worker)
			if err != nil || again.SilentBefore != seen.SilentBefore || again.Heard != seen.Heard {
				t.Errorf("step %v, life %d: what a process notes itself counts for it twice: %+v (%v)", by, life, again, err)
			}
		}
		book = lease.NewBook(rows, v.Process(0))
		if seen, err := book.Look(ctx, l.Worker); err != nil || seen.Silent != length+task.ClockBound {
			t.Errorf("step %v: noted %v (%v), want no more than the lease", by, seen.Silent, err)
		}
		if _, err := book.Renew(ctx, l.Worker); err != nil {
			t.Fatal(err)
		}
		seen, err := lease.NewBook(rows, v.Process(0)).Look(ctx, l.Worker)
		if err != nil || seen.Silent != 0 || seen.SilentBefore != 0 {
			t.Errorf("step %v: a heartbeat leaves %+v (%v)", by, seen, err)
		}
	}
}

// TestTwoProcessesThatListenAtOnce note what they hear of one worker. The time that both listened counts once.
func TestTwoProcessesThatListenAtOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, _, b := books()
	l, err := b[0].Open(ctx, "w", "", length, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	const each = length / 8
	for range 6 {
		for i := range b {
			if err := b[i].NoteSilence(ctx); err != nil {
				t.Fatal(err)
			}
		}
		v.Advance(each)
	}
	seen, err := b[1].Look(ctx, l.Worker)
	if err != nil || seen.Silent != 5*each {
		t.Errorf("noted %v (%v), want %v", seen.Silent, err, 5*each)
	}
	for i, read := range []*lease.Book{b[0], b[1]} {
		if seen, err := read.Look(ctx, l.Worker); err != nil || seen.SilentBefore != 0 {
			t.Errorf("book %d counts %v twice (%v)", i, seen.SilentBefore, err)
		}
	}
}

// TestSilenceOfWhoLivesIsNotWritten notes silence between the heartbeats of a worker, which costs no write.
func TestSilenceOfWhoLivesIsNotWritten(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, _, b := books()
	l, err := b[0].Open(ctx, "w", "", length, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	version := l.Version
	for beat := range 8 {
		v.Advance(length / lease.BeatsPerLease)
		for i := range b {
			if err := b[i].NoteSilence(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if l, err = b[0].Renew(ctx, l.Worker); err != nil || l.Version != version+uint64(beat)+1 {
			t.Errorf("version %d after %d heartbeats (%v), want %d", l.Version, beat+1, err, version+uint64(beat)+1)
		}
	}
}
