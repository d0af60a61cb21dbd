package group

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
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
	// unsealedFor is how soon a process looks again at a group that was not sealed when a member ended.
	unsealedFor = time.Second
	// heardMax bounds the ends of members that are not counted yet.
	heardMax = 100_000
)

var retry = backoff.Policy{Min: 100 * time.Millisecond, Max: 20 * time.Second}

// KeeperConfig is what a Keeper is made of.
type KeeperConfig struct {
	Store Store
	// FollowUp schedules a task that follows after a group, once however often it is called for the same id.
	FollowUp func(ctx context.Context, item []byte, as task.ID, after *task.GroupEnd, completed task.Instant) (id string, err error)
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
	KeeperConfig

	groups  *control.Book[Group]
	tracked *control.Keeper[task.ID, tracker, end]
	tidied  task.Instant
	open    atomic.Int64 // groups that have not ended, when they were read last
	heard   atomic.Int64 // ends that are not counted yet
}

// tracker is a group that is counted here.
type tracker struct {
	group *Group // nil: not read yet
	count count
	read  task.Instant // when the group was
	moved task.Instant // when the cursor moved last
	saved task.Instant
}

// end is how a member has ended; the zero value says that the group was sealed.
type end struct {
	index, try uint32
	state      task.State
}

// NewKeeper returns a Keeper.
func NewKeeper(c KeeperConfig) *Keeper {
	k := &Keeper{KeeperConfig: c, groups: NewBook(c.Store, c.Clock), tidied: c.Clock.Now()}
	k.tracked = control.NewKeeper(control.KeeperConfig[task.ID, tracker, end]{
		Clock: c.Clock, Every: ScanEvery, Max: workersMax, Retry: retry, Scan: k.scan, Step: k.step, Rest: k.rest,
		ScanFailed: func(ctx context.Context, err error) {
			c.Log.WarnContext(ctx, "groups not looked after", slog.Any("error", err))
		},
		StepFailed: func(ctx context.Context, id task.ID, err error) {
			c.Log.WarnContext(ctx, "a group was not counted", slog.String("group", id.String()), slog.Any("error", err))
		},
	})
	return k
}

// Run counts groups until ctx ends.
func (k *Keeper) Run(ctx context.Context) error { return k.tracked.Run(ctx) }

// Ended tells that a member has ended, in this process and as its row says.
func (k *Keeper) Ended(t *task.Task) {
	if t.Member != nil && t.State.IsEnd() && k.heard.Load() < heardMax {
		k.hear(t.Member.Group, end{t.Member.Index, t.Member.Try, t.State})
	}
}

// Look has a group counted at once: it was sealed.
func (k *Keeper) Look(id task.ID) { k.hear(id, end{}) }

func (k *Keeper) hear(id task.ID, e end) {
	k.heard.Add(1)
	k.tracked.Keep(id, tracker{}, 0, e)
}

// rest returns how long after a count the next one may be, because of what was heard.
func (k *Keeper) rest(tr *tracker, e end) time.Duration {
	switch {
	case k.Stepped, e == end{}:
		return 0
	case tr.group != nil && tr.group.Sealed.IsZero():
		return unsealedFor
	case e.index == tr.count.cursor:
		return burstRest
	}
	return restMin
}

// Full reports whether there are as many groups that have not ended as there may be, about.
func (k *Keeper) Full() bool { return k.open.Load() >= OpenMax }

// scan finds the groups that are to be counted here, and forgets old ones now and then.
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
		after := time.Duration(0)
		if g.isOpen(now) {
			if !expiresSoon(g, now) {
				continue
			}
			after = g.Expires.Sub(now)
		}
		if !k.isMine(g) {
			after += othersLook
		}
		k.tracked.Keep(g.Key(), tracker{}, after)
	}
	if now < k.tidied.Add(tidyEvery) {
		return nil
	}
	k.tidied = now
	return k.tidy(ctx)
}

// expiresSoon reports whether a group may expire before the next scan: it is tracked, so that it does so on
// time.
func expiresSoon(g *Group, now task.Instant) bool { return now.Add(2*ScanEvery) >= g.Expires }

func (k *Keeper) isMine(g *Group) bool { return k.Mine == nil || k.Mine(g) }
