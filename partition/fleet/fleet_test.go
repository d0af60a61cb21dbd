package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/partitiontest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ partition.Membership = (*Membership)(nil)

const start = task.Instant(1_700_000_000_000_000)

// world is a store and the processes over it, each of which does a round every RenewEvery while it lives.
type world struct {
	t       *testing.T
	virtual *clock.Virtual
	rows    *store.Store
	all     []*process
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, virtual: clock.NewVirtual(start, 7)}
	w.rows = store.New(mem.New(), store.Config{Clock: w.virtual.Process(0)})
	return w
}

// process is a member that the test steps. stopped ones do nothing; cut ones do not reach the store.
type process struct {
	*Membership

	phase   time.Duration // of its rounds, within RenewEvery
	cut     bool
	mute    bool // it can read and not write
	stopped bool
	log     strings.Builder
	skews   []time.Duration
}

var errCut = errors.New("cannot reach the store")

// cutting is the store as a process reaches it, or does not.
type cutting struct {
	*store.Store
	p *process
}

func (c cutting) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	if c.p.cut {
		return nil, errCut
	}
	return c.Store.Controls(ctx, kind)
}

func (c cutting) PutControl(ctx context.Context, row store.Control) error {
	if c.p.cut || c.p.mute {
		return errCut
	}
	return c.Store.PutControl(ctx, row)
}

// join starts a process; skew is how far its wall clock is ahead.
func (w *world) join(name string, skew time.Duration) *process {
	p := &process{phase: time.Duration(len(w.all)) * 400 * time.Millisecond % RenewEvery}
	p.Membership = New(Config{
		Rows: cutting{w.rows, p}, Self: name, Clock: w.virtual.Process(skew), Log: slog.New(slog.NewTextHandler(&p.log, nil)),
		Hooks: Hooks{ClockAhead: func(_ string, by time.Duration) { p.skews = append(p.skews, by) }},
	})
	w.all = append(w.all, p)
	_ = p.round(w.t.Context())
	return p
}

// pass lets time go by in steps of which every phase is a multiple.
func (w *world) pass(d time.Duration) {
	const step = 100 * time.Millisecond
	for end := w.virtual.Now().Add(d); w.virtual.Now() < end; {
		w.virtual.Advance(step)
		for _, p := range w.all {
			if !p.stopped && w.virtual.Now().Sub(start)%RenewEvery == p.phase {
				_ = p.round(w.t.Context())
			}
		}
	}
}

func (w *world) want(p *process, names ...string) {
	w.t.Helper()
	if got := p.Members(); !slices.Equal(got, names) {
		w.t.Errorf("%s at %v knows %q, want %q", p.Self(), w.virtual.Now().Sub(start), got, names)
	}
}

// until passes time, a tenth of a second at a time, until all the others know exactly these members.
func (w *world) until(atMost time.Duration, names ...string) (took time.Duration) {
	w.t.Helper()
	for ; took <= atMost; took += 100 * time.Millisecond {
		agreed := true
		for _, p := range w.all {
			agreed = agreed && (p.stopped || p.cut || p.mute || slices.Equal(p.Members(), names))
		}
		if agreed {
			return took
		}
		w.pass(100 * time.Millisecond)
	}
	w.t.Errorf("no agreement on %q within %v", names, atMost)
	return took
}

func three(t *testing.T) (w *world, a, b, c *process) {
	t.Helper()
	w = newWorld(t)
	a, b, c = w.join("a", 0), w.join("b", 0), w.join("c", 0)
	w.until(RenewEvery, "a", "b", "c")
	return w, a, b, c
}

func TestALeaverIsGoneAtTheNextLook(t *testing.T) {
	w, _, b, _ := three(t)
	b.stopped = true
	b.leave(t.Context())
	w.until(RenewEvery, "a", "c")
}

func TestAKilledMemberIsGoneWithinEightSeconds(t *testing.T) {
	for after := range 15 { // at every phase of its rounds
		w, _, b, _ := three(t)
		w.pass(time.Duration(after) * 100 * time.Millisecond)
		b.stopped = true
		took := w.until(8*time.Second, "a", "c")
		if took < Length-RenewEvery {
			t.Errorf("given up after %v, before its lease was over", took)
		}
	}
}

func TestAKilledMembersRowIsBuried(t *testing.T) {
	w, _, b, _ := three(t)
	b.stopped = true
	w.pass(deleteAfter + Length)
	rows, err := w.rows.Controls(t.Context(), Kind)
	if err != nil || len(rows) != 2 {
		t.Errorf("%d rows are left, %v: want those of the two that live", len(rows), err)
	}
	b.stopped = false // it was only stopped
	w.until(2*RenewEvery, "a", "b", "c")
}

func TestARestartDoesNotWaitForAWholeLease(t *testing.T) {
	w := newWorld(t)
	w.join("a-1", 0).stopped = true
	next := w.join("a-2", 0)
	w.want(next, "a-1", "a-2")
	w.until(firstReadLength+RenewEvery, "a-2")
}

func TestAnOutageOfTheStoreKeepsTheMembers(t *testing.T) {
	w, a, b, c := three(t)
	a.cut, b.cut, c.cut = true, true, true
	w.pass(time.Minute)
	for _, p := range w.all {
		w.want(p, "a", "b", "c")
	}
	a.cut = false // the first who is back sees rows that did not move for a minute
	w.pass(RenewEvery)
	w.want(a, "a", "b", "c")
	b.cut, c.cut = false, false
	w.pass(2 * Length)
	for _, p := range w.all {
		w.want(p, "a", "b", "c")
	}
}

// A store that takes no writes silences everybody: who went by that would own everything, and read all of it.
func TestAStoreThatTakesNoWritesKeepsTheMembers(t *testing.T) {
	w, a, b, c := three(t)
	a.mute, b.mute, c.mute = true, true, true
	w.pass(time.Minute)
	for _, p := range w.all {
		w.want(p, "a", "b", "c")
	}
	a.mute = false
	w.pass(2 * RenewEvery)
	w.want(a, "a", "b", "c") // they have a whole lease to come back
	b.mute, c.mute = false, false
	w.pass(2 * Length)
	w.want(a, "a", "b", "c")
	b.mute = true // alone
	w.until(8*time.Second, "a", "c")
}

func TestWhoIsCutOffIsGivenUpAndComesBack(t *testing.T) {
	w, a, b, c := three(t)
	b.cut = true
	w.until(8*time.Second, "a", "c")
	w.want(b, "a", "b", "c") // it tries on, and is refused where others were first
	b.cut = false
	w.pass(RenewEvery)
	w.want(a, "a", "b", "c")
	w.want(c, "a", "b", "c")
}

func TestAPauseOfThisProcessSaysNothingAboutOthers(t *testing.T) {
	w, a, _, _ := three(t)
	a.stopped = true
	w.pass(30 * time.Second)
	a.stopped = false
	w.pass(RenewEvery)
	w.want(a, "a", "b", "c")
}

func TestARowDeletedUnderItsMemberIsWrittenAgain(t *testing.T) {
	w, a, b, c := three(t)
	w.remove("b")
	w.pass(RenewEvery)
	for _, p := range []*process{a, b, c} {
		w.want(p, "a", "b", "c")
	}
}

func (w *world) remove(names ...string) {
	w.t.Helper()
	for _, name := range names {
		row, err := w.rows.Control(w.t.Context(), Kind, name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			err = w.rows.DeleteControl(w.t.Context(), row)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestRowsDeletedAllAtOnceAreNotBelieved(t *testing.T) {
	w, a, b, c := three(t)
	changed := []<-chan struct{}{a.Changed(), b.Changed(), c.Changed()}
	w.remove("a", "b", "c")
	w.pass(2 * Length)
	for i, p := range []*process{a, b, c} {
		w.want(p, "a", "b", "c")
		select {
		case <-changed[i]:
			t.Errorf("%s told of a change", p.Self())
		default:
		}
	}
	w.remove("a", "b", "c")
	c.stopped = true // one was not there to come back
	w.until(8*time.Second, "a", "b")
}

func TestTwoProcessesOfOneName(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 0)
	first := w.join("b", 0)
	second := w.join("b", 0)
	w.pass(2 * Length)
	w.want(a, "a", "b")
	w.want(first, "a", "b")
	w.want(second, "a")
	if partitiontest.Owned(second, partitions(40)) != nil {
		t.Error("the second of its name owns partitions")
	}
	first.stopped = true
	w.pass(8*time.Second + 2*RenewEvery)
	w.want(second, "a", "b")
	w.want(a, "a", "b")
}

func partitions(n int) (all []task.Partition) {
	for i := range n {
		all = append(all, task.Partition{Lambda: uint32(i + 1)})
	}
	return all
}

// losing is a store that loses the answers to writes, or the writes.
type losing struct {
	*store.Store
	answers, writes bool
}

func (l *losing) PutControl(ctx context.Context, row store.Control) error {
	if l.writes {
		return store.ErrUnknown
	}
	err := l.Store.PutControl(ctx, row)
	if l.answers {
		return store.ErrUnknown
	}
	return err
}

func TestAWriteWhoseAnswerGotLost(t *testing.T) {
	w := newWorld(t)
	l := &losing{Store: w.rows}
	m := New(Config{Rows: l, Self: "a", Clock: w.virtual.Process(0), Log: slog.New(slog.DiscardHandler)})
	for _, lose := range []losing{{}, {answers: true}, {}, {writes: true}, {}, {answers: true}, {writes: true}, {answers: true}} {
		l.answers, l.writes = lose.answers, lose.writes
		if err := m.round(t.Context()); errors.Is(err, errNameTaken) || errors.Is(err, store.ErrUnknown) != (lose.answers || lose.writes) {
			t.Errorf("%+v: %v", lose, err)
		}
		if got := m.Members(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%+v: members are %q", lose, got)
		}
		w.virtual.Advance(RenewEvery)
	}
}

func TestAClockThatIsAheadIsTold(t *testing.T) {
	w := newWorld(t)
	a, b := w.join("a", 0), w.join("b", 3*time.Second)
	w.pass(4 * RenewEvery)
	if len(a.skews) < 3 || a.skews[0] < time.Second || a.skews[0] > 3*time.Second {
		t.Errorf("a clock 3 s ahead shows as %v", a.skews)
	}
	if n := strings.Count(a.log.String(), "clock is ahead"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if len(b.skews) != 0 {
		t.Errorf("a clock that is behind shows as %v ahead", b.skews)
	}
}

func TestARowThatCannotBeReadCountsByItsChanges(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 0)
	row := store.Control{Kind: Kind, Name: "newer", Version: 1, Value: []byte{0xff}}
	if err := w.rows.PutControl(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	w.pass(RenewEvery)
	w.want(a, "a", "newer")
	w.pass(8 * time.Second)
	w.want(a, "a")
}

// The membership of the suite is b, among rows that the harness keeps alive.
func TestFleetConforms(t *testing.T) {
	partitiontest.Run(t, func(t *testing.T) partitiontest.Harness {
		t.Helper()
		w := newWorld(t)
		others := map[string]*process{}
		self := w.join("b", 0)
		var foreign *process // of our name, when we are not to be a member
		change := func(members ...string) {
			for name, p := range others {
				if !slices.Contains(members, name) {
					p.stopped = true
					w.remove(name)
					delete(others, name)
				}
			}
			for _, name := range members {
				if others[name] == nil && name != "b" {
					others[name] = w.join(name, 0)
				}
			}
			switch {
			case len(members) == 0:
				w.remove("b")
			case !slices.Contains(members, "b"):
				w.remove("b")
				foreign = w.join("b", 0)
			case foreign != nil:
				foreign.stopped = true
				w.remove("b")
				foreign = nil
			}
			w.pass(2 * RenewEvery)
		}
		change("a", "b", "c")
		return partitiontest.Harness{
			Membership: self, Change: change,
			Leave: func() { self.Declare(Leaving) },
			Lose: func() {
				self.cut = true
				w.pass(time.Minute)
			},
		}
	})
}

func TestRunRenewsAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.virtual.Settle(synctest.Wait)
		m := New(Config{Rows: w.rows, Self: NewName("host", 99), Clock: w.virtual.Process(0), Log: slog.New(slog.DiscardHandler)})
		stop := runtest.Start(t, m.Run)
		synctest.Wait()
		w.virtual.Advance(10 * RenewEvery)
		row, err := w.rows.Control(t.Context(), Kind, m.Self())
		if err != nil || row.Version != 11 {
			t.Errorf("row has version %d, %v: want one for each renewal", row.Version, err)
		}
		stop()
		if _, err := w.rows.Control(t.Context(), Kind, m.Self()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the row after leaving: %v", err)
		}
	})
}

// hanging is a store that does not answer until the call is given up.
type hanging struct{ *store.Store }

func (hanging) Controls(ctx context.Context, _ string) ([]store.Control, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestACallThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.virtual.Settle(synctest.Wait)
		m := New(Config{Rows: hanging{w.rows}, Self: "a", Clock: w.virtual.Process(0), Log: slog.New(slog.DiscardHandler)})
		ended := make(chan error, 1)
		go func() { ended <- m.round(t.Context()) }()
		synctest.Wait()
		w.virtual.Advance(callMax)
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("round ended with %v", err)
		}
	})
}

// BenchmarkRound is one renewal of a row and one look at those of so many others, all of which were renewed
// since the last. At one in 1.5 s, 15 ms are one percent of a core.
func BenchmarkRound(b *testing.B) {
	for _, members := range []int{10, 500} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			rows := store.New(mem.New(), store.Config{Clock: clock.Real()})
			all := make([]*Membership, members)
			names := make([]string, members)
			for i := range all {
				names[i] = NewName("kinesin-7d9f8b6c5-abcde", uint64(i)<<32)
				all[i] = New(Config{Rows: rows, Self: names[i], Host: "kinesin-7d9f8b6c5-abcde", Group: "prod/Deployment/kinesin", Clock: clock.Real(), Log: slog.New(slog.DiscardHandler)})
			}
			for _, m := range all {
				m.InForce(names)
			}
			renewAll := func() {
				for _, m := range all[1:] {
					if err := m.renew(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				renewAll()
				b.StartTimer()
				if err := all[0].round(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
