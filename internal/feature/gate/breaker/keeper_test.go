package breaker_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/feature/gate/breaker"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

const start = task.Instant(1_700_000_000_000_000)

// fleet is some servers over one store, in virtual time.
type fleet struct {
	t       *testing.T
	time    *clock.Virtual
	clock   clock.Clock
	store   *store.Store
	lambda  *task.Lambda
	pace    uint32
	servers []*server
	changes []string // states that gates came to
}

type server struct {
	*breaker.Keeper

	book *gate.Book
}

func inFleet(t *testing.T, servers int, test func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		f := &fleet{t: t, time: v, clock: c, store: store.New(mem.New(), store.Config{Clock: c})}
		f.lambda = &task.Lambda{Name: "mail", Ref: 7, Breaker: task.Breaker{Failures: 0.5, Window: time.Minute}}
		for range servers {
			f.add()
		}
		test(f)
	})
}

// add starts a server, which runs until the test ends.
func (f *fleet) add() *server {
	log := slog.New(slog.DiscardHandler)
	book := gate.NewBook(f.store, f.clock, log)
	s := &server{book: book}
	s.Keeper = breaker.New(breaker.Config{
		Store: f.store, Book: book, Clock: f.clock, Log: log,
		Lambdas:  func() []*task.Lambda { return []*task.Lambda{f.lambda} },
		Setting:  func(uint32) task.Breaker { return f.lambda.Breaker },
		Recovery: func(uint32) uint32 { return f.pace },
		Changed: func(_ context.Context, _, after *hold.Gate) {
			f.changes = append(f.changes, after.State(f.clock.Now()))
		},
	})
	f.servers = append(f.servers, s)
	runtest.Start(f.t, book.Run)
	runtest.Start(f.t, s.Run)
	synctest.Wait()
	return s
}

func (f *fleet) advance(d time.Duration) {
	synctest.Wait()
	f.time.Advance(d)
	synctest.Wait()
}

// ends has attempts end on a server that were claimed just now.
func (f *fleet) ends(s *server, succeeded, failed int) {
	for i := range succeeded + failed {
		s.Ended(7, f.clock.Now(), i < failed)
	}
}

// wantState wants all servers to know one gate in a state, and returns it; none if that is empty.
func (f *fleet) wantState(state string) *hold.Gate {
	f.t.Helper()
	f.advance(3 * time.Second)
	var one *hold.Gate
	for i, s := range f.servers {
		all := s.book.OfLambda(7)
		if len(all) > 1 || len(all) == 0 != (state == "") {
			f.t.Fatalf("server %d knows %d gates, want %q", i, len(all), state)
		}
		for _, g := range all {
			if one = g; g.State(f.clock.Now()) != state {
				f.t.Fatalf("server %d knows %+v (%+v), want %q", i, g, g.Breaker, state)
			}
		}
	}
	return one
}

func TestABreakerOpensProbesAndCloses(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		f.ends(f.servers[0], 30, 10)
		f.wantState("")
		f.ends(f.servers[0], 0, 20)
		g := f.wantState("active")
		if g.Owner != "circuit breaker" || g.Action != hold.Pause || !strings.Contains(g.Reason, "30 of 60 attempts failed") {
			t.Errorf("%+v", g)
		}
		f.ends(f.servers[0], 0, 100) // which ran when it opened
		f.advance(30 * time.Second)
		f.wantState("probing")
		f.ends(f.servers[0], 0, 5)
		if g = f.wantState("active"); g.Breaker.Times != 2 {
			t.Errorf("%+v", g.Breaker)
		}
		f.advance(50 * time.Second)
		f.wantState("active")
		f.advance(10 * time.Second)
		f.wantState("probing")
		f.ends(f.servers[0], 10, 0)
		f.wantState("")
		f.ends(f.servers[0], 10, 9)
		f.wantState("")
		if got := strings.Join(f.changes, " "); got != "active probing active probing ended" {
			t.Errorf("changes %s", got)
		}
	})
}

// Each of three servers sees a third of all: the gate is one, and what its row says is of all probes.
func TestServersShareOneBreaker(t *testing.T) {
	inFleet(t, 3, func(f *fleet) {
		for _, s := range f.servers {
			f.ends(s, 0, 25)
		}
		f.wantState("active")
		f.advance(30 * time.Second)
		g := f.wantState("probing")
		for _, s := range f.servers {
			f.ends(s, 3, 0)
			s.Ended(7, g.Resumed.Add(-time.Second), true) // it ran before
		}
		if g = f.wantState("probing"); g.Breaker.Succeeded != 9 || g.Breaker.Failed != 0 {
			t.Errorf("%+v, want 9 probes that succeeded", g.Breaker)
		}
		f.ends(f.servers[1], 1, 0)
		f.wantState("")
		if got := strings.Join(f.changes, " "); got != "active probing ended" {
			t.Errorf("changes %s", got)
		}
	})
}

func TestABreakerOutlivesItsServer(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		f.ends(f.servers[0], 0, 20)
		f.wantState("active")
		f.servers = nil
		s := f.add()
		f.advance(30 * time.Second)
		f.wantState("probing")
		f.ends(s, 10, 0)
		f.wantState("")
	})
}

func TestABreakerThatClosesGoesOnAtThePaceOfRecovery(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		f.pace = 50
		f.ends(f.servers[0], 0, 20)
		f.wantState("active")
		f.advance(30 * time.Second)
		f.wantState("probing")
		f.ends(f.servers[0], 10, 0)
		if g := f.wantState("resuming"); g.Pace != 50 || g.Breaker != nil {
			t.Errorf("%+v", g)
		}
	})
}

func TestABreakerThatIsTakenAwayEndsItsGate(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		f.ends(f.servers[0], 0, 20)
		f.wantState("active")
		f.lambda.Breaker = task.Breaker{}
		f.wantState("")
		f.ends(f.servers[0], 0, 100)
		f.wantState("")
	})
}

// Somebody ends the gate by hand: what failed before says nothing any more.
func TestAGateThatIsEndedByHandOpensAnewForNewFailures(t *testing.T) {
	inFleet(t, 2, func(f *fleet) {
		f.ends(f.servers[0], 0, 25)
		g := *f.wantState("active")
		f.ends(f.servers[1], 0, 40)
		f.advance(2 * time.Second)
		if err := gate.End(t.Context(), control.NewBook(f.store, gate.AsRows, f.clock), &g, f.clock.Now(), "me"); err != nil {
			t.Fatal(err)
		}
		f.wantState("")
		f.ends(f.servers[1], 0, 19)
		f.wantState("")
		f.ends(f.servers[1], 0, 1)
		f.wantState("active")
	})
}
