package groups

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// ScanEvery is how often a process looks for groups that it has to count.
	ScanEvery = 5 * time.Second
	// tidyEvery is how often it looks for ended groups that are to be forgotten.
	tidyEvery = time.Hour
	// workersMax bounds the groups that are counted at once.
	workersMax = 8
	// restMin is the least time between two counts of a group because a member ended that does not hold it,
	// and burstRest if that one did.
	restMin   = 50 * time.Millisecond
	burstRest = 2 * time.Millisecond
	// lookMin and lookMax bound how soon a group is counted again of which nothing was heard: after a tenth
	// of the time in which it did not get on.
	lookMin = 250 * time.Millisecond
	lookMax = 30 * time.Second
	// othersLook is how often a process counts a group that another one should look after.
	othersLook = 30 * time.Second
	// saveMembers and saveEvery say how far a count has got when it is stored: whichever is later.
	saveMembers = 1000
	saveEvery   = 5 * time.Second
	// readEvery is how often the row of a group is read while it is counted.
	readEvery = 10 * time.Second
	// unsealedFor is for how long a process remembers that a group is not sealed.
	unsealedFor = time.Second
	// heardMax bounds the ends of members of groups that this process does not count yet.
	heardMax = 100_000
)

var retry = backoff.Policy{Min: 100 * time.Millisecond, Max: 20 * time.Second}

// Config is what a Keeper is made of.
type Config struct {
	Store Store
	// FollowUp schedules what follows after a group, once however often it is called.
	FollowUp func(ctx context.Context, item []byte, after *task.GroupEnd, completed task.Instant) (id string, err error)
	// ForNow reports whether an error of FollowUp may go away.
	ForNow func(err error) bool
	// Mine reports whether this process is to look after a group; others do so less often. nil: it is.
	Mine func(g *Group) bool
	// Stepped says that time stands still while something is due: no count waits for more to be heard.
	Stepped bool
	Clock   clock.Clock
	Log     *slog.Logger
}

// Keeper counts groups and has their follow-ups scheduled. It is safe for concurrent use, and several
// processes may count the same group: each only reads the rows of its members, and what it stores is
// conditional.
type Keeper struct {
	Config

	wake chan struct{}

	mu       sync.Mutex
	tracked  map[task.ID]*tracker
	waiting  trackers                 // those that are not counted right now
	heard    int                      // ends in all trackers
	unsealed map[task.ID]task.Instant // until when a group is taken not to be sealed
}

// tracker is a group that is counted here. Whoever has set running owns all of it but what heard and next
// say.
type tracker struct {
	id      task.ID
	running bool
	// What follows until the next blank line is guarded by the keeper.
	next    task.Instant // when it is to be counted
	place   int          // in waiting
	again   bool         // the group was changed
	heard   []end        // since it was counted last
	counted task.Instant // when it was last
	holder  uint32       // the member that held it then

	group    *Group // nil: not read yet
	count    count
	read     task.Instant // when the group was
	moved    task.Instant // when the cursor moved last
	saved    task.Instant
	failures int
}

type end struct {
	index uint32
	state task.State
}

// NewKeeper returns a Keeper.
func NewKeeper(c Config) *Keeper {
	return &Keeper{Config: c, wake: make(chan struct{}, 1), tracked: map[task.ID]*tracker{}, unsealed: map[task.ID]task.Instant{}}
}

// Ended tells that a member has ended, in this process and as its row says.
func (k *Keeper) Ended(t *task.Task) {
	if t.Member == nil || !t.State.IsEnd() {
		return
	}
	now := k.Clock.Now()
	k.mu.Lock()
	tr := k.tracked[t.Member.Group]
	switch {
	case tr == nil && now < k.unsealed[t.Member.Group], k.heard >= heardMax:
		k.mu.Unlock()
		return
	case tr == nil:
		tr = k.track(t.Member.Group, now)
	}
	tr.heard = append(tr.heard, end{t.Member.Index, t.State})
	k.heard++
	k.plan(tr, min(tr.next, max(now, tr.counted.Add(k.restAfter(tr, t.Member.Index)))))
	k.mu.Unlock()
	k.look()
}

// restAfter returns how long after a count the next one may be, because a member has ended. The caller holds
// the lock.
func (k *Keeper) restAfter(tr *tracker, index uint32) time.Duration {
	switch {
	case k.Stepped:
		return 0
	case index == tr.holder:
		return burstRest
	}
	return restMin
}

// track has a group counted at an instant. The caller holds the lock, and the group is not tracked.
func (k *Keeper) track(id task.ID, next task.Instant) *tracker {
	tr := &tracker{id: id, next: next}
	k.tracked[id] = tr
	heap.Push(&k.waiting, tr)
	return tr
}

// plan sets when a group is counted next. The caller holds the lock.
func (k *Keeper) plan(tr *tracker, next task.Instant) {
	tr.next = next
	if !tr.running {
		heap.Fix(&k.waiting, tr.place)
	}
}

// Look has a group counted at once: it was sealed.
func (k *Keeper) Look(id task.ID) {
	k.mu.Lock()
	delete(k.unsealed, id)
	if tr := k.tracked[id]; tr != nil {
		tr.again = true
		k.plan(tr, k.Clock.Now())
	} else {
		k.track(id, k.Clock.Now())
	}
	k.mu.Unlock()
	k.look()
}

func (k *Keeper) look() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

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
	if len(k.waiting) == 0 {
		return nil, ScanEvery
	}
	if left := k.waiting[0].next.Sub(k.Clock.Now()); left > 0 {
		return nil, min(left, ScanEvery)
	}
	tr, _ := heap.Pop(&k.waiting).(*tracker)
	tr.running = true
	return tr, 0
}

// scan finds the groups that are to be counted here.
func (k *Keeper) scan(ctx context.Context) error {
	rows, err := k.Store.Controls(ctx, KindOpen)
	if err != nil {
		return fmt.Errorf("read groups: %w", err)
	}
	now := k.Clock.Now()
	for _, row := range rows {
		g, err := decode(row)
		if err != nil {
			k.Log.ErrorContext(ctx, "a group cannot be read", slog.Any("error", err))
			continue
		}
		if g.Sealed.IsZero() && g.Completed.IsZero() && now < g.Expires {
			continue
		}
		id := g.Key()
		k.mu.Lock()
		if k.tracked[id] == nil {
			next := now
			if !k.isMine(g) {
				next = now.Add(othersLook)
			}
			k.track(id, next)
		}
		k.mu.Unlock()
	}
	k.look()
	return nil
}

func (k *Keeper) isMine(g *Group) bool { return k.Mine == nil || k.Mine(g) }

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
	heap.Push(&k.waiting, tr)
}

// step counts a group, and ends it if all of its members have ended. It returns when to count it again; 0:
// not here.
func (k *Keeper) step(ctx context.Context, tr *tracker, heard []end) (next task.Instant, err error) {
	now := k.Clock.Now()
	if tr.group == nil || now >= tr.read.Add(readEvery) {
		if err := k.readGroup(ctx, tr); err != nil {
			return 0, err
		}
	}
	g := tr.group
	switch {
	case g == nil || g.IsEnded():
		return 0, nil
	case !g.Completed.IsZero():
		return 0, k.finish(ctx, g)
	case g.Sealed.IsZero() && now < g.Expires:
		k.noteUnsealed(tr.id, now)
		return 0, nil
	}
	before := tr.count.cursor
	for _, e := range heard {
		tr.count.note(e.index, e.state, g.Members)
	}
	if err := tr.count.advance(ctx, k.Store, g, now); err != nil {
		return 0, err
	}
	if tr.count.cursor > before {
		tr.moved = now
	}
	if all := tr.count.cursor == g.Members; all && !g.Sealed.IsZero() || now >= g.Expires {
		return k.complete(ctx, tr, !all || g.Sealed.IsZero())
	}
	if err := k.save(ctx, tr, now); err != nil || tr.group == nil {
		return now, err
	}
	return k.nextLook(tr, now), nil
}

// nextLook returns when to count a group again if nothing is heard of it.
func (k *Keeper) nextLook(tr *tracker, now task.Instant) task.Instant {
	if !k.isMine(tr.group) {
		return now.Add(othersLook)
	}
	pause := min(max(now.Sub(tr.moved)/10, lookMin), lookMax)
	return min(max(now.Add(pause), tr.count.wait), tr.group.Expires)
}

// readGroup reads the row of a group. A count that another process stored, and that has got further, replaces
// this one.
func (k *Keeper) readGroup(ctx context.Context, tr *tracker) error {
	g, err := Find(ctx, k.Store, tr.id.String())
	if errors.Is(err, store.ErrNotFound) {
		tr.group = nil
		return nil
	}
	if err != nil {
		return err
	}
	if tr.group == nil && tr.moved.IsZero() {
		tr.moved = k.Clock.Now()
	}
	tr.group, tr.read = g, k.Clock.Now()
	if g.Cursor > tr.count.cursor {
		tr.count.cursor, tr.count.ended = g.Cursor, g.Ended
	}
	tr.count.remembers = k.hasRoom(tr, g)
	return nil
}

// hasRoom reports whether the ends of a group's members may be remembered.
func (k *Keeper) hasRoom(tr *tracker, g *Group) bool {
	if tr.count.remembers {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return (len(k.tracked)+1)*int(g.Members) <= rememberedMax
}

func (k *Keeper) noteUnsealed(id task.ID, now task.Instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other, until := range k.unsealed {
		if now >= until {
			delete(k.unsealed, other)
		}
	}
	k.unsealed[id] = now.Add(unsealedFor)
}

// save stores how far a count has got, if it is far enough, so that whoever goes on need not read that again.
func (k *Keeper) save(ctx context.Context, tr *tracker, now task.Instant) error {
	g := tr.group
	if tr.count.cursor < g.Cursor+saveMembers || now < tr.saved.Add(saveEvery) {
		return nil
	}
	next := *g
	next.Cursor, next.Ended = tr.count.cursor, tr.count.ended
	err := Put(ctx, k.Store, &next)
	if errors.Is(err, store.ErrConflict) {
		tr.group = nil // it is read again
		return nil
	}
	if err == nil {
		tr.group, tr.saved = &next, now
	}
	return err
}

// complete stores that a group has ended, and how; then it ends it. Of several who do so, one is the first:
// the others go on with what that one stored.
func (k *Keeper) complete(ctx context.Context, tr *tracker, expired bool) (next task.Instant, err error) {
	now, g := k.Clock.Now(), *tr.group
	g.Cursor, g.Ended, g.Completed, g.Expired = tr.count.cursor, tr.count.ended, now, expired
	err = Put(ctx, k.Store, &g)
	switch {
	case errors.Is(err, store.ErrConflict):
		tr.group = nil
		return now, nil
	case err != nil:
		return 0, err
	}
	return 0, k.finish(ctx, &g)
}

// finish schedules what follows after a group that is complete, and moves its row out of the way of those
// that are not. Each step may be made again.
func (k *Keeper) finish(ctx context.Context, g *Group) error {
	ended := *g
	item, err := k.followUpOf(ctx, g)
	switch {
	case errors.Is(err, store.ErrNotFound):
		ended.Problem = "the group was never wholly created"
	case err != nil:
		return err
	case item != nil:
		ended.FollowUp, err = k.FollowUp(ctx, item, g.End(), g.Completed)
		if err != nil && k.ForNow(err) {
			return fmt.Errorf("schedule what follows: %w", err)
		}
		if err != nil {
			ended.Problem = err.Error()
			k.Log.ErrorContext(ctx, "nothing follows after a group", slog.String("group", g.ID), slog.Any("error", err))
		}
	}
	ended.Version = 0
	if err := put(ctx, k.Store, KindEnded, &ended); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	err = k.Store.DeleteControl(ctx, store.Control{Kind: KindOpen, Name: g.ID, Version: g.Version})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("delete the row of ended group %s: %w", g.ID, err)
	}
	return nil
}

// followUpOf returns the task that follows after a group; nil: none does.
func (k *Keeper) followUpOf(ctx context.Context, g *Group) ([]byte, error) {
	spec, err := findSpec(ctx, k.Store, g.ID)
	if err != nil {
		return nil, err
	}
	wellDone := !g.Expired && g.Ended.Succeeded() == g.Members
	switch {
	case wellDone:
		return spec.Then, nil
	case len(spec.Else) > 0:
		return spec.Else, nil
	case g.Expired:
		return nil, nil
	}
	return spec.Then, nil
}

// tidy forgets groups that ended and expired long ago.
func (k *Keeper) tidy(ctx context.Context) error {
	rows, err := k.Store.Controls(ctx, KindEnded)
	if err != nil {
		return fmt.Errorf("read ended groups: %w", err)
	}
	now := k.Clock.Now()
	for _, row := range rows {
		g, err := decode(row)
		if err != nil || now < g.Until() {
			continue
		}
		spec, err := k.Store.Control(ctx, KindSpec, g.ID)
		if err == nil {
			err = k.Store.DeleteControl(ctx, spec)
		}
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			err = k.Store.DeleteControl(ctx, row)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("forget group %s: %w", g.ID, err)
		}
	}
	return nil
}
