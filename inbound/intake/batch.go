package intake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Batch is the tasks of one call. The caller builds and plans each task, sets the Err of a task that it refuses, and then
// calls SendDirect, Write and Announce.
type Batch struct {
	*Intake
	Now   task.Instant
	Tasks []Incoming
	Again bool // an earlier call asked for the same tasks, and its outcome is not known
	First bool // no earlier call asked for the same tasks
	// Elapsed is the time since the first call that asked for them: delays count from then.
	Elapsed time.Duration
	// Caller is the identity whose request ids are told apart from those of others; empty: the server itself.
	Caller string
	// MaySchedule reports whether the caller may schedule tasks of a collection, and so may learn of one that
	// has his key; nil: of all.
	MaySchedule func(l *catalog.Entry, collection string) bool

	since time.Duration // when the catalog that it uses was read, in monotonic time
	ops   []store.Op    // the rows of all tasks
	round dispatcher.Round
	takes bool   // its task is a follow-up that takes its key
	keyed uint64 // seq of its tasks with a key; 0: it has none so far

	lambda *catalog.Entry // found last: most calls name one
}

// Incoming is a task of a Batch.
type Incoming struct {
	Item *kinesinv1.ScheduleItem
	// Member is the place of the task in a group, and After the group after which it follows; nil: none.
	Member *task.Member
	After  *task.GroupEnd
	// Due is when a task that follows is due, whatever its item says; zero: as that says.
	Due task.Instant
	// WithRow says that the task needs a task row from the start, also without a key.
	WithRow bool
	// ID is the public id; empty: that of Task.
	ID string
	// Way is how the task is accepted; empty: it was counted before, when it was put into the buffer.
	Way    string
	Lambda *catalog.Entry
	Task   *task.Task // as far as it is known
	// Err says why the task is refused, or why it is unknown whether it was stored.
	Err error
	// Exists says that the task is not new, or that it was dropped: it is not announced.
	Exists bool
	// Replaces says that the task that has the key is to be replaced by this one, and Replaced that it was.
	Replaces, Replaced bool

	requested task.Instant // due time before it was rounded up to what a row can hold
	rows      []store.Op   // its rows, the last of which decides; none: it needs no row
	at        int          // index of rows in the ops that are written
	onlyLive  bool         // an ended task with its key does not keep the key
	direct    bool         // it goes to the queue of its deliver lambda, and gets a row only if that fails
	start     dispatcher.Start
	ended     *task.Task // the ended task that had its key before, whose row it replaces
	follow    []byte     // its follow-ups, if they do not fit its row
}

// Begin begins a batch of n tasks. The caller calls end when the call is over.
func (in *Intake) Begin(n int) (b *Batch, end func()) {
	end = in.calls.begin()
	now := in.Clock.Now()
	return &Batch{
		Intake: in, Now: now, Tasks: make([]Incoming, n), since: in.Catalog.Since(), ops: make([]store.Op, 0, n), round: in.Starter.Begin(now),
	}, end
}

// IsNew reports whether a task is neither refused so far nor known to exist.
func (c *Incoming) IsNew() bool { return c.Err == nil && !c.Exists }

// IsOpen reports whether the rows of a new task are to be written, or were.
func (c *Incoming) IsOpen() bool { return c.IsNew() && len(c.rows) > 0 }

// IsDirect reports whether a task is to go to the queue of its deliver lambda without a row.
func (c *Incoming) IsDirect() bool { return c.IsNew() && c.direct }

// OnlyWakeup reports whether a task is stored as a wake-up row, without a task row.
func (c *Incoming) OnlyWakeup() bool { return len(c.rows) == 1 }

// Wakeup returns the wake-up row of a task that has rows.
func (c *Incoming) Wakeup() *task.Task { return &c.rows[0].Task }

// AcceptWithoutRows notes that something else than the store acknowledged a task under a public id.
func (c *Incoming) AcceptWithoutRows(way, id string) { c.Way, c.ID, c.rows = way, id, nil }

// FindLambda finds the lambda of new tasks.
func (b *Batch) FindLambda(ctx context.Context, name string) (*catalog.Entry, error) {
	if b.lambda != nil && b.lambda.Name == name {
		return b.lambda, nil
	}
	l, err := b.Catalog.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if l.Deleting {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "lambda %q is being deleted", name)
	}
	b.lambda = l
	return l, nil
}

// put plans the rows of a task.
func (b *Batch) put(c *Incoming, rows []store.Op) {
	b.ops = append(b.ops, rows...)
	b.noteRows(c, len(rows))
}

// putWakeup plans the wake-up row of a task that needs no task row.
func (b *Batch) putWakeup(c *Incoming, t *task.Task) {
	b.ops = store.AppendFirst(b.ops, t)
	b.noteRows(c, 1)
}

// noteRows notes that the last rows of the batch are those of a task.
func (b *Batch) noteRows(c *Incoming, rows int) {
	c.at = len(b.ops) - rows
	c.rows, c.Task = b.ops[c.at:], &b.ops[len(b.ops)-1].Task
}

// Select returns the tasks for which is holds.
func (b *Batch) Select(is func(c *Incoming) bool) []*Incoming {
	var some []*Incoming
	for i := range b.Tasks {
		if c := &b.Tasks[i]; is(c) {
			some = append(some, c)
		}
	}
	return some
}

// ReadRows reads the task rows of some tasks and calls each with its own, which has a zero ID where there is
// none. When the read fails, the outcome of the tasks is unknown.
func (b *Batch) ReadRows(ctx context.Context, some []*Incoming, each func(c *Incoming, row *task.Task)) {
	if len(some) == 0 {
		return
	}
	ids := make([]task.ID, len(some))
	for k, c := range some {
		ids[k] = c.Task.ID
	}
	rows, err := b.Store.Tasks(ctx, ids)
	for k, c := range some {
		if err != nil {
			c.Err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		} else {
			each(c, &rows[k])
		}
	}
}

// Announce sends the messages of tasks that were stored as enqueued and tells the scheduler of the others, but for tasks that
// a waiting worker got, of which it knows.
func (b *Batch) Announce(ctx context.Context) {
	b.announceExisting()
	var messages []queue.Message
	for _, c := range b.Select((*Incoming).IsOpen) {
		switch {
		case c.Task.State == task.Claimed:
		case c.Task.State == task.Enqueued:
			messages = append(messages, queue.Message{Task: *c.Task})
		case c.OnlyWakeup():
			b.Scheduler.Added(c.Task)
		default:
			b.Scheduler.Awake(c.Task)
		}
	}
	b.countAccepted()
	if len(messages) == 0 {
		return
	}
	for i := range messages { // before a worker can have one, so that the scheduler hears of its retry after this
		b.Scheduler.Enqueued(&messages[i].Task)
	}
	for i, err := range b.Queue.Send(ctx, messages) {
		if err != nil { // the task is enqueued; its wake-up sends it again
			b.Scheduler.Awake(&messages[i].Task)
		}
	}
}

// announceExisting tells the scheduler of the wake-up rows of tasks that exist already and were never
// started, as if a scan had found them. The try that stored them may not have learned that it did; then
// nobody has announced them, and only a full scan would find those that are due before the next read-ahead.
func (b *Batch) announceExisting() {
	for i := range b.Tasks {
		c := &b.Tasks[i]
		if c.Err != nil || !c.Exists || c.Task == nil { // nil: it was dropped with its lambda
			continue
		}
		switch have := c.Task; {
		case have.State.IsEnd() || have.Attempt > 0: // it needs no dispatch, or had one
		case have.IsBare(): // it cannot be read
		case have.State == task.Scheduled:
			b.Scheduler.Added(have)
		default:
			wakeup := store.Bare(have)
			b.Scheduler.Added(&wakeup)
		}
	}
}

// countAccepted calls the hook once for each run of tasks of one priority that were accepted in one way.
func (b *Batch) countAccepted() {
	accepted := b.Select(func(c *Incoming) bool { return c.IsNew() && c.Way != "" })
	for len(accepted) > 0 {
		c := accepted[0]
		n := slices.IndexFunc(accepted, func(other *Incoming) bool {
			return other.Lambda != c.Lambda || other.Task.Partition.Priority != c.Task.Partition.Priority || other.Way != c.Way
		})
		if n < 0 {
			n = len(accepted)
		}
		if b.Hooks.Accepted != nil {
			b.Hooks.Accepted(c.Lambda, c.Task.Partition.Priority, c.Way, n)
		}
		accepted = accepted[n:]
	}
}
