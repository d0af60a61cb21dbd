package group

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
)

var retry = backoff.Policy{Min: 100 * time.Millisecond, Max: 20 * time.Second}

// Run counts groups until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workersMax + 1)
	group.Go(func() error {
		tidied := k.Clock.Now()
		for again := true; again; again = clock.Sleep(ctx, k.Clock, ScanEvery) == nil {
			err := k.scan(ctx)
			if now := k.Clock.Now(); err == nil && now >= tidied.Add(tidyEvery) {
				tidied, err = now, k.tidy(ctx)
			}
			if err != nil && ctx.Err() == nil {
				k.Log.WarnContext(ctx, "groups not looked after", slog.Any("error", err))
			}
		}
		return nil
	})
	for ctx.Err() == nil {
		tr, wait := k.due()
		if tr == nil {
			k.rest(ctx, wait)
			continue
		}
		group.Go(func() error { // waits while as many as may are counted
			k.work(ctx, tr)
			k.look()
			return nil
		})
	}
	return group.Wait()
}

// rest sleeps until a group is due, something is heard, or ctx ends.
func (k *Keeper) rest(ctx context.Context, wait time.Duration) {
	timer := k.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-k.wake:
	case <-timer.C():
	}
}

// due returns a group that is to be counted now, or how long there is none.
func (k *Keeper) due() (*tracker, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting.Len() == 0 {
		return nil, ScanEvery
	}
	if left := k.waiting.First().next.Sub(k.Clock.Now()); left > 0 {
		return nil, min(left, ScanEvery)
	}
	tr := k.waiting.Pop()
	tr.running = true
	return tr, 0
}

// scan finds the groups that are to be counted here.
func (k *Keeper) scan(ctx context.Context) error {
	rows, err := k.Store.Controls(ctx, KindOpen)
	if err != nil {
		return fmt.Errorf("read groups: %w", err)
	}
	k.open.Store(int64(len(rows)))
	now := k.Clock.Now()
	for _, row := range rows {
		g, err := asRows.Decode(row)
		if err != nil {
			k.Log.ErrorContext(ctx, "a group cannot be read", slog.Any("error", err))
			continue
		}
		waits := g.Sealed.IsZero() && g.Completed.IsZero() && now < g.Expires
		if waits && !expiresSoon(g, now) {
			continue
		}
		id := g.Key()
		k.mu.Lock()
		if k.tracked[id] == nil {
			next := now
			if waits {
				next = g.Expires
			}
			if !k.isMine(g) {
				next = next.Add(othersLook)
			}
			k.track(id, next)
		}
		k.mu.Unlock()
	}
	k.look()
	return nil
}

// work counts a group once and says when to count it again.
func (k *Keeper) work(ctx context.Context, tr *tracker) {
	k.mu.Lock()
	heard := tr.heard
	tr.heard, k.heard = nil, k.heard-len(tr.heard)
	if tr.again {
		tr.again, tr.group = false, nil
	}
	k.mu.Unlock()
	next, err := k.step(ctx, tr, heard)
	now := k.Clock.Now()
	if err != nil {
		tr.failures++
		next = now.Add(max(retry.Min, retry.Pause(k.Clock, tr.failures)))
		tr.group = nil // whatever was stored is read again
		if ctx.Err() == nil {
			k.Log.WarnContext(ctx, "a group was not counted", slog.String("group", tr.id.String()), slog.Any("error", err))
		}
	} else {
		tr.failures = 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	tr.running, tr.counted, tr.holder = false, now, tr.count.cursor
	if next == 0 && !tr.again {
		k.heard -= len(tr.heard)
		delete(k.tracked, tr.id)
		return
	}
	for _, e := range tr.heard {
		next = min(next, now.Add(k.restAfter(tr, e.index)))
	}
	if tr.again {
		next = now
	}
	tr.next = next
	k.waiting.Put(tr)
}
