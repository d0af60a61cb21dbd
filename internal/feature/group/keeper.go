package group

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/minheap"
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

	groups *control.Book[Group]

	wake chan struct{}
	open atomic.Int64 // groups that have not ended, when they were read last

	mu       sync.Mutex
	tracked  map[task.ID]*tracker
	waiting  minheap.Heap[*tracker]   // those that are not counted right now, by when they are
	heard    int                      // ends in all trackers
	unsealed map[task.ID]task.Instant // until when a group is taken not to be sealed
}

// tracker is a group that is counted here. Whoever has set running owns all of it but what heard and next
// say.
type tracker struct {
	minheap.Place // in waiting

	id      task.ID
	running bool
	// The fields until the next blank line are guarded by the keeper.
	next    task.Instant // when it is to be counted
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
	index, try uint32
	state      task.State
}

// NewKeeper returns a Keeper.
func NewKeeper(c KeeperConfig) *Keeper {
	return &Keeper{
		KeeperConfig: c, groups: NewBook(c.Store, c.Clock), wake: make(chan struct{}, 1), tracked: map[task.ID]*tracker{}, unsealed: map[task.ID]task.Instant{},
	}
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
	tr.heard = append(tr.heard, end{t.Member.Index, t.Member.Try, t.State})
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

// Before orders groups by when they are to be counted.
func (t *tracker) Before(other *tracker) bool { return t.next < other.next }

// track has a group counted at an instant. The caller holds the lock, and the group is not tracked.
func (k *Keeper) track(id task.ID, next task.Instant) *tracker {
	tr := &tracker{id: id, next: next}
	k.tracked[id] = tr
	k.waiting.Put(tr)
	return tr
}

// plan sets when a group is counted next. The caller holds the lock.
func (k *Keeper) plan(tr *tracker, next task.Instant) {
	tr.next = next
	if !tr.running {
		k.waiting.Put(tr)
	}
}

// Full reports whether there are as many groups that have not ended as there may be, about.
func (k *Keeper) Full() bool { return k.open.Load() >= OpenMax }

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

// expiresSoon reports whether a group may expire before the next scan: it is tracked, so that it does so on
// time.
func expiresSoon(g *Group, now task.Instant) bool { return now.Add(2*ScanEvery) >= g.Expires }

func (k *Keeper) isMine(g *Group) bool { return k.Mine == nil || k.Mine(g) }
