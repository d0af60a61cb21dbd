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
