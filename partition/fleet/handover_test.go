package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
)

// town is processes that run by themselves over one store, in the time of a bubble.
type town struct {
	t    *testing.T
	rows *counting
}

// counting is a store that counts what is asked of it, and can be cut off.
type counting struct {
	*store.Store
	reads, writes atomic.Int64
}

func (c *counting) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	c.reads.Add(1)
	return c.Store.Controls(ctx, kind)
}

func (c *counting) PutControl(ctx context.Context, row store.Control) error {
	c.writes.Add(1)
	return c.Store.PutControl(ctx, row)
}

func inTown(t *testing.T, f func(w *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&town{t, &counting{Store: store.New(mem.New(), store.Config{Clock: clock.Real()})}})
	})
}

// citizen is one of them.
type citizen struct {
	*Membership

	stop  context.CancelFunc
	ended chan struct{}
	log   *strings.Builder
}

// start starts a process in a state, with what it fires by in force if that is Ready.
func (w *town) start(name string, s State) *citizen { return w.startOver(w.rows, name, s) }

func (w *town) startOver(rows store.ControlRows, name string, s State) *citizen {
	c := &citizen{ended: make(chan struct{}), log: &strings.Builder{}}
	c.Membership = New(Config{
		Rows: rows, Self: name, Host: "host-" + name, Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(c.log, nil)),
	})
	c.Declare(s)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	c.stop = stop
	go func() {
		defer close(c.ended)
		_ = c.Run(ctx)
	}()
	w.t.Cleanup(c.end)
	synctest.Wait()
	return c
}

// end stops a process as one that ends by itself.
func (c *citizen) end() {
	c.stop()
	<-c.ended
}

// follow keeps what is in force equal to the members, a moment after they change.
func (c *citizen) follow(warmUp time.Duration) {
	go func() {
		for {
			changed := c.Changed()
			members := c.Members()
			select {
			case <-time.After(warmUp):
				c.InForce(members)
			case <-c.ended:
				return
			}
			select {
			case <-changed:
			case <-c.ended:
				return
			}
		}
	}()
}

func (w *town) wantMembers(c *citizen, names ...string) {
	w.t.Helper()
	if got := c.Members(); !slices.Equal(got, names) {
		w.t.Errorf("%s knows %q, want %q", c.Self(), got, names)
	}
}

// until lets time go by until the condition holds.
func (w *town) until(atMost time.Duration, what string, holds func() bool) (took time.Duration) {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		if took = time.Since(began); holds() {
			return took
		}
		if took > atMost {
			w.t.Fatalf("%s: not within %v", what, atMost)
		}
	}
}

func TestWhoJoinsCountsWhenItIsWarm(t *testing.T) {
	inTown(t, func(w *town) {
		a, b := w.start("a", Ready), w.start("b", Ready)
		time.Sleep(2 * RenewEvery)
		c := w.start("c", Joining)
		time.Sleep(4 * RenewEvery)
		w.wantMembers(a, "a", "b")
		w.wantMembers(b, "a", "b")
		w.wantMembers(c, "a", "b", "c") // tentatively, to warm up for
		if here, _ := a.Presence("c"); !here {
			t.Error("who joins is not here")
		}
		c.InForce(c.Members())
		c.Declare(Ready)
		took := w.until(time.Second, "the others count who is ready", func() bool { return len(a.Members()) == 3 && len(b.Members()) == 3 })
		if took > 300*time.Millisecond {
			t.Errorf("took %v while they hurry", took)
		}
		if !a.Follows("c", []string{"c", "b", "a"}) || a.Follows("c", []string{"a", "b"}) || a.Follows("b", []string{"a", "b", "c"}) {
			t.Error("what c fires by is not known")
		}
		if !a.Follows("host-c", a.Members()) {
			t.Error("a process is not known by its host")
		}
	})
}

func TestThoseWhoFindNobodyReadyCountAtOnce(t *testing.T) {
	inTown(t, func(w *town) {
		a, b := w.start("a", Joining), w.start("b", Joining)
		w.until(2*time.Second, "both are members", func() bool { return len(a.Members()) == 2 && len(b.Members()) == 2 })
		if a.Declared() != Joining {
			t.Errorf("declared %s", a.Declared())
		}
		c := w.start("c", Joining) // nobody is warm yet, so it shares from the start
		w.until(2*time.Second, "the third counts too", func() bool { return len(a.Members()) == 3 && len(b.Members()) == 3 })
		changed := []<-chan struct{}{a.Changed(), b.Changed(), c.Changed()}
		for _, one := range []*citizen{b, a, c} {
			one.InForce(one.Members())
			one.Declare(Ready)
			time.Sleep(2 * RenewEvery)
		}
		for i := range changed {
			select {
			case <-changed[i]:
				t.Errorf("the members changed for %s when they got ready one by one", []string{"a", "b", "c"}[i])
			default:
			}
		}
		for _, p := range a.Peers() {
			if p.State != Ready || p.Founder {
				t.Errorf("%+v: want it ready by what it is", p)
			}
		}
		d := w.start("d", Joining)
		time.Sleep(2 * RenewEvery)
		w.wantMembers(a, "a", "b", "c")
		w.wantMembers(d, "a", "b", "c", "d")
	})
}

// A member that joins beside one that is leaving has nobody else's share to leave alone, and neither have the
// others that join.
func TestFoundersBesideWhoLeaves(t *testing.T) {
	inTown(t, func(w *town) {
		a := w.start("a", Ready)
		time.Sleep(2 * RenewEvery)
		a.Declare(Leaving)
		b, c := w.start("b", Joining), w.start("c", Joining)
		w.until(2*time.Second, "those who come share", func() bool {
			return slices.Equal(b.Members(), []string{"b", "c"}) && slices.Equal(c.Members(), []string{"b", "c"})
		})
		time.Sleep(RenewEvery) // the one who leaves knows of both
		b.follow(time.Second)
		c.follow(2 * time.Second)
		began := time.Now()
		if err := a.Taken(w.t.Context()); err != nil || time.Since(began) < 2*time.Second {
			t.Errorf("%v after %v: want it to wait for both", err, time.Since(began))
		}
	})
}

// One that never gets warm is counted no more, once most of the others are: nobody fires its share.
func TestAFounderThatNeverGetsReady(t *testing.T) {
	inTown(t, func(w *town) {
		a, b, c, d := w.start("a", Joining), w.start("b", Joining), w.start("c", Joining), w.start("d", Joining)
		w.until(2*time.Second, "all count", func() bool { return len(a.Members()) == 4 })
		a.Declare(Ready)
		b.Declare(Ready)
		time.Sleep(2 * FounderMax)
		w.wantMembers(a, "a", "b", "c", "d") // half of them are slow: it may be the store
		c.Declare(Ready)
		took := w.until(FounderMax+4*RenewEvery, "the last one is out", func() bool { return len(a.Members()) == 3 && len(b.Members()) == 3 && len(c.Members()) == 3 })
		if took < FounderMax {
			t.Errorf("given up after %v", took)
		}
		d.Declare(Ready)
		w.until(RenewEvery, "it is warm at last", func() bool { return len(a.Members()) == 4 })
	})
}

func TestAFounderThatIsKilled(t *testing.T) {
	inTown(t, func(w *town) {
		a := w.start("a", Joining)
		w.write("b", record{Run: "x", Beat: 1, Format: format, State: Joining, Founder: true})
		w.until(2*time.Second, "both count", func() bool { return len(a.Members()) == 2 })
		w.until(8*time.Second, "the silent one is out", func() bool { return len(a.Members()) == 1 })
	})
}

// Where something besides the rows tells who is ready, a founder counts by its word until it says that others
// know.
func TestAFounderIsOneUntilItSettles(t *testing.T) {
	inTown(t, func(w *town) {
		a := w.start("a", Joining)
		b := New(Config{Rows: w.rows, Self: "b", Host: "h", Group: "g", Clock: clock.Real(), Log: slog.New(slog.DiscardHandler)})
		b.Declare(Joining)
		stop := runtest.Start(w.t, b.Run)
		is := func(state State, founder bool) func() bool {
			return func() bool {
				p := a.Peers()
				return len(p) == 1 && p[0].State == state && p[0].Founder == founder
			}
		}
		w.until(2*time.Second, "b is a founder", is(Joining, true))
		b.Settle() // which means nothing before it is ready
		b.Declare(Ready)
		w.until(2*time.Second, "and is one when it is ready", is(Ready, true))
		time.Sleep(2 * FounderMax)
		w.until(0, "as long as that takes", is(Ready, true))
		b.Settle()
		w.until(2*time.Second, "until others know", is(Ready, false))
		b.Declare(Leaving)
		w.until(2*time.Second, "it leaves", is(Leaving, false))
		stop()
	})
}

func TestWhoLeavesWaitsUntilTheOthersHaveTakenOver(t *testing.T) {
	const warmUp = 700 * time.Millisecond
	inTown(t, func(w *town) {
		var all []*citizen
		for _, name := range []string{"a", "b", "c", "d"} {
			all = append(all, w.start(name, Ready))
			all[len(all)-1].follow(warmUp)
		}
		time.Sleep(2 * fastMax)
		a, c, d := all[0], all[2], all[3]
		before := c.Members()
		c.Declare(Leaving)
		d.Declare(Leaving) // two at once
		began := time.Now()
		errs := make(chan error, 2)
		go func() { errs <- c.Taken(w.t.Context()) }()
		go func() { errs <- d.Taken(w.t.Context()) }()
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		took := time.Since(began)
		if took < warmUp || took > RenewEvery+warmUp+2*fastEvery {
			t.Errorf("taken over after %v", took)
		}
		w.wantMembers(a, "a", "b")
		w.wantMembers(all[1], "a", "b")
		w.wantMembers(c, before...) // it fired what it did
		if here, _ := a.Presence("c"); !here {
			t.Error("who leaves is here until it ended")
		}
		c.end()
		d.end()
		time.Sleep(RenewEvery)
		if here, gone := a.Presence("c"); here || !gone {
			t.Errorf("who left: here %v, gone %v", here, gone)
		}
	})
}

func TestTakenWaitsForNobodyWhoIsNotThere(t *testing.T) {
	taken := func(w *town, c *citizen, atMost time.Duration) {
		w.t.Helper()
		c.Declare(Leaving)
		began := time.Now()
		if err := c.Taken(w.t.Context()); err != nil || time.Since(began) > atMost {
			w.t.Errorf("%v after %v", err, time.Since(began))
		}
	}
	t.Run("the only one", func(t *testing.T) {
		inTown(t, func(w *town) { taken(w, w.start("a", Ready), 0) })
	})
	t.Run("all leave", func(t *testing.T) {
		inTown(t, func(w *town) {
			a, b := w.start("a", Ready), w.start("b", Ready)
			time.Sleep(2 * RenewEvery)
			b.Declare(Leaving)
			taken(w, a, 2*time.Second)
		})
	})
	t.Run("a killed one", func(t *testing.T) {
		inTown(t, func(w *town) {
			a := w.start("a", Ready)
			w.write("b", record{Run: "x", Beat: 1, Format: format})
			time.Sleep(Length + 2*RenewEvery)
			taken(w, a, 0)
		})
	})
	t.Run("one of an older version", func(t *testing.T) {
		inTown(t, func(w *town) {
			a := w.start("a", Ready)
			w.write("b", record{Run: "x", Beat: 1})
			time.Sleep(RenewEvery + fastEvery)
			w.wantMembers(a, "a", "b")
			taken(w, a, 0)
		})
	})
}

// write puts a row as another version writes it.
func (w *town) write(name string, r record) {
	w.t.Helper()
	value, err := json.Marshal(r)
	if err == nil {
		err = w.rows.PutControl(w.t.Context(), store.Control{Kind: Kind, Name: name, Version: 1, Value: value})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestTakenWaitsForWhoJoinsWhereNobodyElseIs(t *testing.T) {
	inTown(t, func(w *town) {
		a := w.start("a", Ready)
		b := w.start("b", Joining)
		time.Sleep(2 * RenewEvery)
		b.follow(2 * time.Second)
		a.Declare(Leaving)
		began := time.Now()
		if err := a.Taken(w.t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*time.Second || took > 4*time.Second+fastEvery {
			t.Errorf("waited %v for one that needs 2 s for each set", took)
		}
		w.wantMembers(b, "b")
	})
}

func TestTakenGivesUp(t *testing.T) {
	inTown(t, func(w *town) {
		a := w.start("a", Ready)
		w.start("b", Ready) // which never says that it took over
		time.Sleep(2 * RenewEvery)
		a.Declare(Leaving)
		began := time.Now()
		err := a.Taken(w.t.Context())
		if took := time.Since(began); !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), ": b") || took != FarewellMax {
			t.Errorf("%v after %v, want ErrNotTaken of b after %v", err, took, FarewellMax)
		}
		a.Declare(Ready) // leaving is for good
		if a.Declared() != Leaving {
			t.Errorf("declared %s", a.Declared())
		}
	})
}

// A process that has two partitions to give to one another waits until the other fires by the same set.
func TestHurryLastsUntilAllFireByTheSame(t *testing.T) {
	inTown(t, func(w *town) {
		a, b := w.start("a", Ready), w.start("b", Ready)
		time.Sleep(2 * fastMax)
		a.InForce([]string{"a", "b"})
		reads := w.rows.reads.Load()
		time.Sleep(3 * time.Second)
		hurried := w.rows.reads.Load() - reads
		b.InForce([]string{"b", "a"})
		w.until(300*time.Millisecond, "a hears of it", func() bool { return a.Follows("b", a.Members()) })
		time.Sleep(fastMax)
		reads = w.rows.reads.Load()
		time.Sleep(3 * time.Second)
		if calm := w.rows.reads.Load() - reads; hurried < 10 || calm > 5 {
			t.Errorf("%d reads in 3 s of a change, %d after it", hurried, calm)
		}
	})
}

// One that never gets warm must not keep the others busy for ever.
func TestHurryIsBounded(t *testing.T) {
	inTown(t, func(w *town) {
		for i := range 4 {
			w.start(fmt.Sprint("m", i), Ready)
		}
		time.Sleep(2 * RenewEvery)
		w.start("x", Joining)
		time.Sleep(2 * fastMax)
		reads, writes := w.rows.reads.Load(), w.rows.writes.Load()
		time.Sleep(30 * time.Second)
		if r, n := w.rows.reads.Load()-reads, w.rows.writes.Load()-writes; r > 110 || n > 110 { // 5 processes, 20 rounds each
			t.Errorf("%d reads and %d writes in 30 s", r, n)
		}
	})
}

func TestWhatIsSaidTwiceIsWrittenOnce(t *testing.T) {
	inTown(t, func(w *town) {
		a := w.start("a", Ready)
		a.InForce([]string{"a"})
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		writes := w.rows.writes.Load()
		for range 50 {
			a.InForce([]string{"a"})
			a.Declare(Ready)
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.rows.writes.Load() - writes; n > 1 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestViewIsOfTheSet(t *testing.T) {
	if View([]string{"a", "b"}) != View([]string{"b", "a", "b"}) {
		t.Error("order or repetition matters")
	}
	sets := [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"ab"}, {"a", "b", "c"}}
	seen := map[uint64]bool{0: true}
	for _, s := range sets {
		if seen[View(s)] {
			t.Errorf("%q has the view of another set", s)
		}
		seen[View(s)] = true
	}
}

func TestRowsOfOtherVersions(t *testing.T) {
	for _, c := range []struct {
		row  string
		want record
	}{
		{`{"run":"r","beat":3,"wall_us":5}`, record{Run: "r", Beat: 3, Wall: 5}},
		{
			`{"run":"r","beat":3,"format":1,"state":"leaving","host":"h","view":"18446744073709551615","without":[1]}`,
			record{Run: "r", Beat: 3, Format: 1, State: Leaving, Host: "h", View: 1<<64 - 1, Without: []uint32{1}},
		},
		{`{"run":"r","beat":3,"format":1,"state":"joining","founder":true}`, record{Run: "r", Beat: 3, Format: 1, State: Joining, Founder: true}},
		{`{"run":"r","beat":3,"format":9,"state":"hibernating","more":{}}`, record{Run: "r", Beat: 3, Format: 9}},
	} {
		got := decode(&store.Control{Value: []byte(c.row)})
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v", c.row, got)
		}
	}
	for s, name := range map[State]string{Ready: "ready", Joining: "joining", Leaving: "leaving", 7: "state 7"} {
		if s.String() != name {
			t.Errorf("%d is %q", s, s.String())
		}
	}
}

func TestStalledGrowsWhereRunHangs(t *testing.T) {
	inTown(t, func(w *town) {
		a := w.start("a", Ready)
		time.Sleep(time.Minute)
		if a.Stalled() > RenewEvery {
			t.Errorf("stalled for %v", a.Stalled())
		}
		a.end()
		time.Sleep(time.Minute)
		if a.Stalled() < time.Minute {
			t.Errorf("stalled for %v after a minute without Run", a.Stalled())
		}
	})
}
