package breaker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// lookEvery is how often a keeper looks at what has ended, and at the gates.
const lookEvery = time.Second

// changedPause is how soon a lambda is looked at again because another server has changed its gate.
const changedPause = 20 * time.Millisecond

var failurePause = backoff.Policy{Min: lookEvery, Max: 30 * time.Second}

// Config is what a Keeper is made of.
type Config struct {
	Store gate.Store
	Book  *gate.Book
	Clock clock.Clock
	Log   *slog.Logger
	// Lambdas returns the lambdas that have a breaker, or gates.
	Lambdas func() []*task.Lambda
	// Setting returns the breaker of a lambda. It answers from memory, and is asked for every attempt.
	Setting func(lambda uint32) task.Breaker
	// Recovery returns at how many tasks per second a lambda goes on that was paused; 0: all at once.
	Recovery func(lambda uint32) uint32
	// Changed is called with each change of a gate that was stored; before is nil for a new one.
	Changed func(ctx context.Context, before, after *hold.Gate)
	// Rested is called when Run waits of which Rests tells. It may be nil.
	Rested func()
}

// Keeper keeps the circuit breakers of all lambdas, by the attempts that ended on this server. It is safe for
// concurrent use.
type Keeper struct {
	Config

	gates   *control.Book[hold.Gate]
	lambdas *control.Keeper[string, uint32, struct{}] // references by name

	mu    sync.Mutex
	of    map[uint32]*seen
	fresh bool // an attempt has ended since the last look began
}

// seen is what a server has seen of a lambda.
type seen struct {
	window window
	probed task.Instant // when the probing began that probes are counted of; zero: none is known
	probes counts       // that are not in the gate
}

// New returns a Keeper.
func New(c Config) *Keeper {
	k := &Keeper{Config: c, gates: control.NewBook(c.Store, gate.AsRows, c.Clock), of: map[uint32]*seen{}}
	k.lambdas = control.NewKeeper(control.KeeperConfig[string, uint32, struct{}]{
		Clock: c.Clock, Every: lookEvery, Max: 1, Retry: failurePause, Scan: k.look, Step: k.keepOne, Rested: c.Rested,
		StepFailed: func(ctx context.Context, lambda string, err error) {
			c.Log.WarnContext(ctx, "cannot keep circuit breakers; trying again", slog.String("lambda", lambda), slog.Any("error", err))
		},
	})
	return k
}

// Ended counts an attempt that ended on this server: its task was claimed at an instant, and failed or not.
func (k *Keeper) Ended(lambda uint32, claimed task.Instant, failed bool) {
	set := k.Setting(lambda)
	if !set.IsSet() {
		return
	}
	g := k.Book.OfLambda(lambda).BreakerOf(k.Clock.Now())
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh = true
	s := k.seen(lambda)
	if g == nil {
		s.window.add(clock.Mono(k.Clock), set.Window, failed)
		return
	}
	s.window = window{} // what ends while the gate is there says nothing about the time after it
	if s.follow(g); g.Probes() && claimed >= g.Resumed {
		s.probes.note(failed)
	}
}

func (k *Keeper) seen(lambda uint32) *seen {
	s := k.of[lambda]
	if s == nil {
		s = &seen{}
		k.of[lambda] = s
	}
	return s
}

// follow forgets probes of another time than the gate's.
func (s *seen) follow(g *hold.Gate) {
	if s.probed != g.Resumed {
		s.probed, s.probes = g.Resumed, counts{}
	}
}

// Run keeps the breakers until ctx ends.
func (k *Keeper) Run(ctx context.Context) error { return k.lambdas.Run(ctx) }

// Rests reports whether no look is under way, and when the next one is that may change something: while the gate of a
// breaker is in force, and after an attempt has ended. Else it is never.
func (k *Keeper) Rests() (until task.Instant, ok bool) {
	now := k.Clock.Now()
	open := slices.ContainsFunc(k.Lambdas(), func(l *task.Lambda) bool { return k.Book.OfLambda(l.Ref).BreakerOf(now) != nil })
	k.mu.Lock()
	defer k.mu.Unlock()
	again, look, ok := k.lambdas.Rests()
	if !open && !k.fresh {
		return task.Instant(math.MaxInt64), ok
	}
	return min(again, look), ok
}

// look has the breakers of all lambdas kept.
func (k *Keeper) look(context.Context) error {
	k.forgetUnset()
	for _, l := range k.Lambdas() {
		k.lambdas.Keep(l.Name, l.Ref, 0)
	}
	return nil
}

// keepOne keeps the breaker of a lambda. If that fails it is left out for a while, longer each time, and puts off no
// other.
func (k *Keeper) keepOne(ctx context.Context, name string, ref *uint32, _ []struct{}) (time.Duration, error) {
	err := k.keep(ctx, name, *ref)
	if errors.Is(err, store.ErrConflict) {
		return changedPause, k.Book.Refresh(ctx)
	}
	return control.Done, err
}

// keep does what follows for one lambda. When another server has changed the gate it fails with
// store.ErrConflict.
func (k *Keeper) keep(ctx context.Context, name string, ref uint32) error {
	now, set := k.Clock.Now(), k.Setting(ref)
	g := k.Book.OfLambda(ref).BreakerOf(now)
	switch {
	case g == nil && !set.IsSet():
		return nil
	case g == nil:
		c := k.sum(ref, set)
		if !opens(c, set) {
			return nil
		}
		return k.open(ctx, open(name, ref, c, set, now))
	case !set.IsSet():
		return k.end(ctx, g, now)
	}
	fresh := k.probes(ref, g)
	what, after := next(*g, fresh, set, now)
	switch what {
	case stay:
		return nil
	case closes:
		return k.close(ctx, g, now)
	case probe, count, reopen:
	}
	if err := k.gates.Put(ctx, &after); err != nil {
		return err
	}
	k.counted(ref, fresh)
	if what != count {
		k.Changed(ctx, g, &after)
	}
	return k.Book.Refresh(ctx)
}

// open sets the gate of a breaker, unless another server has.
func (k *Keeper) open(ctx context.Context, g *hold.Gate) error {
	added, _, err := gate.Add(ctx, k.Store, k.gates, g, func(known *hold.Gate) bool {
		return known.Ref == g.Ref && known.Breaker != nil && known.InForce(g.Created)
	}, func(active []*hold.Gate) bool { return len(active) < gate.ActiveMax })
	if err != nil {
		return err
	}
	if added == g {
		k.Log.WarnContext(ctx, "circuit breaker opened", slog.String("lambda", g.Lambda), slog.String("gate", g.ID), slog.String("reason", g.Reason))
		k.Changed(ctx, nil, g)
	}
	return k.Book.Refresh(ctx)
}

// close ends the gate of a breaker whose probes have succeeded, or has it resume at the pace of recovery.
func (k *Keeper) close(ctx context.Context, g *hold.Gate, now task.Instant) error {
	pace := k.Recovery(g.Ref)
	if pace == 0 {
		return k.end(ctx, g, now)
	}
	after := *g
	after.Breaker, after.Resumed, after.Pace, after.EndedBy = nil, now, pace, hold.BreakerOwner
	if err := k.gates.Put(ctx, &after); err != nil {
		return err
	}
	k.Changed(ctx, g, &after)
	return k.Book.Refresh(ctx)
}

func (k *Keeper) end(ctx context.Context, g *hold.Gate, now task.Instant) error {
	after := *g
	err := gate.End(ctx, k.gates, &after, now, hold.BreakerOwner)
	if after.Ended.IsZero() {
		return err
	}
	k.Changed(ctx, g, &after)
	return errors.Join(err, k.Book.Refresh(ctx))
}

// sum returns the attempts of a lambda without a gate that ended within the window.
func (k *Keeper) sum(lambda uint32, set task.Breaker) counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen(lambda).window.sum(clock.Mono(k.Clock), set.Window)
}

// probes returns the results of probes that are not in the gate.
func (k *Keeper) probes(lambda uint32, g *hold.Gate) counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.seen(lambda)
	s.window = window{}
	s.follow(g)
	return s.probes
}

// counted notes that results of probes are in the gate.
func (k *Keeper) counted(lambda uint32, c counts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.of[lambda]; s != nil {
		s.probes.succeeded, s.probes.failed = max(0, s.probes.succeeded-c.succeeded), max(0, s.probes.failed-c.failed)
	}
}

// forgetUnset begins a look, and forgets lambdas that have no breaker any more, or are gone.
func (k *Keeper) forgetUnset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh = false
	for lambda := range k.of {
		if !k.Setting(lambda).IsSet() {
			delete(k.of, lambda)
		}
	}
}
