package control

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/task"
)

// Done is what a step returns that has no next one: the thing is kept no longer.
const Done = time.Duration(math.MaxInt64)

const never = task.Instant(math.MaxInt64)

// KeeperConfig says what a Keeper does.
type KeeperConfig[K comparable, T, H any] struct {
	Clock clock.Clock
	Every time.Duration  // between the end of a scan and the next one
	Max   int            // steps at once
	Retry backoff.Policy // of a step that fails

	// Scan finds what is to be kept, and calls Keep for each.
	Scan func(ctx context.Context) error
	// Step does what is to be done for a thing now, after what was heard since the last step, and returns when the next
	// one is due. Nothing else uses the thing meanwhile.
	Step func(ctx context.Context, key K, thing *T, heard []H) (next time.Duration, err error)
	// Rest returns how long after a step the next one may be because of what was heard; nil: at once.
	Rest func(thing *T, heard H) time.Duration
	// ScansAfter has the next scan follow at once when a thing is kept no longer.
	ScansAfter bool
	// Rested is called when nothing is to be done before the times that Rests tells; it may be nil.
	Rested func()
	// ScanFailed and StepFailed are told what failed; it is tried again.
	ScanFailed func(ctx context.Context, err error)
	StepFailed func(ctx context.Context, key K, err error)
}

// Keeper looks after things, most of which have control rows: it scans for them now and then, does the steps that are
// due, several at once, and repeats one that fails after a pause that grows. It remembers nothing that the next scan
// does not find. All methods are safe for concurrent use.
type Keeper[K comparable, T, H any] struct {
	KeeperConfig[K, T, H]

	wake chan struct{}

	mu       sync.Mutex
	kept     map[K]*kept[K, T, H]
	waiting  minheap.Heap[*kept[K, T, H]] // those whose step is not under way
	scanning bool
	nextScan task.Instant
}

// kept is a thing that is kept. All times of a Keeper are those of clock.Steady.
type kept[K comparable, T, H any] struct {
	minheap.Place

	key      K
	thing    T
	heard    []H // since the last step began
	next     task.Instant
	stepped  task.Instant // when the last step ended
	failures int          // in a row
}

// Before orders things by when their steps are due.
func (t *kept[K, T, H]) Before(other *kept[K, T, H]) bool { return t.next < other.next }

// NewKeeper returns a Keeper of nothing.
func NewKeeper[K comparable, T, H any](c KeeperConfig[K, T, H]) *Keeper[K, T, H] {
	return &Keeper[K, T, H]{KeeperConfig: c, wake: make(chan struct{}, 1), kept: map[K]*kept[K, T, H]{}}
}

// Keep has a thing kept, whose first step is due after a while. A thing that is kept already stays as it is, and only what
// is heard of it is added. The caller bounds what is heard.
func (k *Keeper[K, T, H]) Keep(key K, thing T, after time.Duration, heard ...H) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.kept[key]
	if t == nil {
		t = &kept[K, T, H]{key: key, thing: thing, next: clock.Steady(k.Clock).Add(after)}
		k.kept[key] = t
		k.waiting.Put(t)
	}
	t.heard = append(t.heard, heard...)
	if t.InHeap() {
		k.wait(t, heard)
	}
	k.look()
}

// wait puts a thing among those that wait for their next step, which what was heard may make due earlier.
func (k *Keeper[K, T, H]) wait(t *kept[K, T, H], heard []H) {
	for _, h := range heard {
		rest := time.Duration(0)
		if k.Rest != nil {
			rest = k.Rest(&t.thing, h)
		}
		t.next = min(t.next, t.stepped.Add(rest))
	}
	k.waiting.Put(t)
}

// Len returns how many things are kept.
func (k *Keeper[K, T, H]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept)
}

// Kept returns all things that are kept. Whoever looks at more than their keys waits until Run has ended.
func (k *Keeper[K, T, H]) Kept() map[K]*T {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[K]*T, len(k.kept))
	for key, t := range k.kept {
		all[key] = &t.thing
	}
	return all
}

// ScanSoon has a scan begin at once, or when the one under way has ended.
func (k *Keeper[K, T, H]) ScanSoon() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nextScan = 0
	k.look()
}

// look has Run look for what is due.
func (k *Keeper[K, T, H]) look() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Rests reports whether neither a scan nor a step is under way or due, and when the next ones are.
func (k *Keeper[K, T, H]) Rests() (step, scan task.Instant, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if step = never; k.waiting.Len() > 0 {
		step = k.waiting.First().next
	}
	return step, k.nextScan, !k.scanning && len(k.kept) == k.waiting.Len() && min(step, k.nextScan) > clock.Steady(k.Clock)
}

// Run keeps things until ctx has ended, and every step with it.
func (k *Keeper[K, T, H]) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	timer := k.Clock.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		stamp := clock.StampOf(timer)
		do, wait := k.due(ctx)
		if do != nil {
			running.Go(do)
			continue
		}
		clock.ResetFrom(timer, stamp, wait)
		if k.Rested != nil {
			k.Rested()
		}
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-timer.C():
		}
	}
	return nil
}

// due returns what is to be done now, or for how long nothing is.
func (k *Keeper[K, T, H]) due(ctx context.Context) (do func(), wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := clock.Steady(k.Clock)
	next := now.Add(k.Every)
	if !k.scanning {
		if next = k.nextScan; next <= now {
			k.scanning, k.nextScan = true, never
			return func() { k.scan(ctx) }, 0
		}
	}
	if k.waiting.Len() > 0 && len(k.kept)-k.waiting.Len() < k.Max {
		if t := k.waiting.First(); t.next <= now {
			k.waiting.Pop()
			heard := t.heard
			t.heard = nil
			return func() { k.step(ctx, t, heard) }, 0
		}
		next = min(next, k.waiting.First().next)
	}
	return nil, next.Sub(now)
}

// scan makes a scan, and says when the next one is due.
func (k *Keeper[K, T, H]) scan(ctx context.Context) {
	if err := k.Scan(ctx); err != nil && ctx.Err() == nil {
		k.ScanFailed(ctx, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.look()
	k.scanning, k.nextScan = false, min(k.nextScan, clock.Steady(k.Clock).Add(k.Every))
}

// step makes a step of a thing, after which the thing waits for the next step or is kept no longer.
func (k *Keeper[K, T, H]) step(ctx context.Context, t *kept[K, T, H], heard []H) {
	next, err := k.Step(ctx, t.key, &t.thing, heard)
	if t.failures++; err == nil {
		t.failures = 0
	} else if next = k.Retry.Pause(k.Clock, t.failures); ctx.Err() == nil {
		k.StepFailed(ctx, t.key, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.look()
	t.stepped = clock.Steady(k.Clock)
	if t.next = t.stepped.Add(next); next != Done || len(t.heard) > 0 {
		k.wait(t, t.heard)
		return
	}
	delete(k.kept, t.key)
	if k.ScansAfter {
		k.nextScan = 0
	}
}
