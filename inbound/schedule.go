package inbound

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Schedule accepts tasks, with an outcome for each. What has an id in its result is durable.
func (in *Inbound) Schedule(ctx context.Context, request *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	items := request.Items
	if len(items) == 0 || len(items) > ScheduleItemsMax {
		return nil, invalid("a call schedules 1 to %d tasks, this one has %d", ScheduleItemsMax, len(items))
	}
	if in.isDraining() {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server is stopping; try again")
	}
	defer in.intakes.begin()()
	b := newIntake(in, len(items))
	b.items = items
	for i, item := range items {
		if err := b.admit(ctx, i, item); err != nil {
			b.refuse(ctx, i, err)
		}
	}
	// A caller who goes now will call again, and then meets rows that nobody announces: so what is begun is finished.
	lasting := context.WithoutCancel(ctx)
	b.deliver(lasting)
	b.buffer(lasting)
	b.store(lasting)
	b.announce(lasting)
	return &kinesinv1.ScheduleResponse{Results: b.pointers()}, nil
}

// intake is one Schedule call on its way, or tasks that the consumer of the buffer takes in.
type intake struct {
	*Inbound
	now     task.Instant
	since   time.Duration // since when what it knows of lambdas is true
	items   []*kinesinv1.ScheduleItem
	results []kinesinv1.ScheduleResult
	ops     []store.Op // those of an item beside each other, as a chain
	itemOf  []int      // index of the item of ops[k]
	rooms   map[queue.Name]*room
	slots   map[int]Slot   // of items whose tasks are matched, until they are written
	lambda  *catalog.Entry // of the item before: most calls name one
	told    bool           // an internal error was told

	fallback map[int]bool // items that the buffer did not acknowledge
	issued   []string     // what the consumer takes in: the id of each item; nil for a Schedule call
	errs     []error      // what the consumer takes in: why items were refused

	straight []straight // what needs no row

	payloads []payloadOp // of those that are stored apart
	met      []payloadOp // those of them that were there already
}

func newIntake(in *Inbound, n int) *intake {
	return &intake{
		Inbound: in, now: in.Clock.Now(), since: in.Catalog.Since(),
		results: make([]kinesinv1.ScheduleResult, n),
		ops:     make([]store.Op, 0, n), itemOf: make([]int, 0, n),
	}
}

func (b *intake) pointers() []*kinesinv1.ScheduleResult {
	all := make([]*kinesinv1.ScheduleResult, len(b.results))
	for i := range b.results {
		all[i] = &b.results[i]
	}
	return all
}

func (b *intake) refuse(ctx context.Context, i int, err error) {
	if b.issued != nil {
		b.errs[i] = err
		return
	}
	r := &b.results[i]
	r.Id, r.Duplicate, r.DueMicros = "", false, 0
	r.Problem = problem(err)
	if isInternal(r.Problem) && !b.told {
		b.told = true
		b.internal(ctx, kinesinv1connect.TaskServiceScheduleProcedure, err)
	}
	if b.Hooks.Refused != nil {
		b.Hooks.Refused(r.Problem.Reason)
	}
}

// admit validates one item and plans its write.
func (b *intake) admit(ctx context.Context, i int, item *kinesinv1.ScheduleItem) error {
	l, err := b.lambdaOf(ctx, item.Lambda)
	if err != nil {
		return err
	}
	due, err := b.due(item)
	if err != nil {
		return err
	}
	t, err := b.build(l, item)
	if err != nil {
		return err
	}
	t.Due = due
	if err := b.identify(&t, l, item); err != nil {
		return err
	}
	t.Partition = partitionOf(l, t.Partition.Priority, t.ID)
	return b.plan(ctx, i, l, &t, item.Payload)
}

func partitionOf(l *catalog.Entry, priority uint8, id task.ID) task.Partition {
	return task.Partition{Lambda: l.Ref, Priority: priority, Shard: partition.ShardOf(id, l.ShardsFor(id))}
}

// plan says how a task is stored.
func (b *intake) plan(ctx context.Context, i int, l *catalog.Entry, t *task.Task, payload []byte) error {
	if b.goesStraight(l, i, t) {
		b.goStraight(l, i, t, payload)
		return nil
	}
	switch {
	case l.Mode == task.Managed && b.near(ctx, t):
		return b.planNear(ctx, i, l, t, payload)
	case t.Key != "":
		t.Wake = t.Due
		b.put(i, l, store.FirstWithRow(*t), payload)
	default:
		b.put(i, l, store.First(*t), payload)
	}
	return nil
}

// put has the rows of an item written, and its payload where that is stored apart.
func (b *intake) put(i int, l *catalog.Entry, chain []store.Op, payload []byte) {
	if t := &chain[0].Task; len(payload) > b.Store.PayloadInlineMax() {
		b.payloads = append(b.payloads, payloadOp{i, store.Op{
			Kind: store.PutPayload, New: true, Payload: payload,
			Task: task.Task{ID: t.PayloadID(), Partition: t.Partition, Due: t.Due, ExpireAt: max(t.Due, b.now).Add(l.Retention)},
		}})
	}
	for _, op := range chain {
		b.ops = append(b.ops, op)
		b.itemOf = append(b.itemOf, i)
	}
}

func (b *intake) lambdaOf(ctx context.Context, name string) (*catalog.Entry, error) {
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

// build makes the task that an item asks for, but for its id and when it is due.
func (b *intake) build(l *catalog.Entry, item *kinesinv1.ScheduleItem) (task.Task, error) {
	t := task.Task{State: task.Scheduled, Seq: 1, Created: b.now, Collection: item.Collection, Key: item.Key, Traceparent: item.Traceparent}
	t.Partition.Lambda = l.Ref
	var err error
	if t.Partition.Priority, err = l.Priority(item.Priority); err != nil {
		return t, err
	}
	if err := checkLabel("key", item.Key, KeyBytesMax); err != nil {
		return t, err
	}
	if err := checkLabel("collection", item.Collection, CollectionBytesMax); err != nil {
		return t, err
	}
	if err := task.CheckTraceparent(item.Traceparent); err != nil {
		return t, err
	}
	if t.Overrides, err = overrides(item); err != nil {
		return t, err
	}
	if n, most := len(item.Payload), b.Store.PayloadBytesMax(); n > most {
		return t, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "payload of %d bytes: at most %d are allowed", n, most)
	}
	if l.Mode == task.Deliver {
		if err := b.checkDeliverable(l, &t, item.Payload); err != nil {
			return t, err
		}
	}
	t.PayloadSize = uint32(len(item.Payload))
	if len(item.Payload) <= b.Store.PayloadInlineMax() {
		t.Payload = item.Payload
	}
	return t, nil
}

// due is the requested start, counted from this server's clock for a delay; the past means now.
func (b *intake) due(item *kinesinv1.ScheduleItem) (task.Instant, error) {
	if item.DueMicros != 0 && item.DelayMicros != 0 {
		return 0, invalid("a task has a due time or a delay, not both")
	}
	if item.DueMicros < 0 {
		return 0, invalid("due time before 1970")
	}
	due := b.wanted(item)
	if due > b.now.Add(b.Horizon) {
		return 0, b.tooFar()
	}
	if due <= b.now {
		// Rounding down cannot make it early: it is due already.
		return task.FromMillis(b.now.Millis()), nil
	}
	return due.CeilMillis(), nil
}

// wanted is the requested start to the microsecond.
func (b *intake) wanted(item *kinesinv1.ScheduleItem) task.Instant {
	if item.DueMicros != 0 {
		return task.Instant(item.DueMicros)
	}
	return b.now.Add(max(0, micros(item.DelayMicros)))
}

func (b *intake) tooFar() error {
	const year = 365 * 24 * time.Hour
	if b.Horizon%year == 0 {
		return invalid("due time is too far ahead: at most %d years (of 365 days)", b.Horizon/year)
	}
	return invalid("due time is too far ahead: at most %s", b.Horizon)
}

func checkLabel(what, text string, bytesMax int) error {
	if len(text) <= bytesMax && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
		return nil
	}
	return invalid("%s of %d bytes: want at most %d bytes of UTF-8 text without control characters", what, len(text), bytesMax)
}

func overrides(item *kinesinv1.ScheduleItem) (task.Overrides, error) {
	o := task.Overrides{
		MaxAttempts: item.MaxAttempts,
		Timeout:     micros(item.TimeoutMicros),
		BackoffMin:  micros(item.BackoffMinMicros),
		BackoffMax:  micros(item.BackoffMaxMicros),
	}
	if o == (task.Overrides{}) {
		return o, nil
	}
	return o, o.Validate()
}

// identify gives the task its id: derived from the key, chosen by the client so
// that a repeated call is harmless, or new.
func (b *intake) identify(t *task.Task, l *catalog.Entry, item *kinesinv1.ScheduleItem) error {
	switch {
	case item.Key != "":
		t.ID = keyedID(l.Ref, item.Key)
		t.Seq = uint64(t.Created) // above that of every earlier task with the key, of which a wake-up row may remain
		t.Digest = digest(t, item.Payload)
	case len(item.RequestId) == 0:
		t.ID = task.NewID(b.now, b.Clock.Uint64(), b.Clock.Uint64())
	case len(item.RequestId) != len(t.ID) || item.RequestId[6]>>4 != 7:
		return invalid("request id: want the 16 bytes of a UUID version 7")
	default:
		copy(t.ID[:], item.RequestId)
		if isAhead(t.ID, b.now) {
			return invalid("request id: its time is more than %v ahead of the server's clock", catalog.IDAheadMax)
		}
	}
	return nil
}

// isAhead refuses ids whose time would make every later id look old to a store that tells new ids by their
// time, and those of a time for which a count of shards may still be written.
func isAhead(id task.ID, now task.Instant) bool { return madeAt(id) > now.Add(catalog.IDAheadMax) }

// madeAt is when an id of version 7 was made, by the clock of who made it.
func madeAt(id task.ID) task.Instant {
	made, _ := id.Made()
	return made
}

// keyedID is the id of all tasks of a lambda with that key: a UUID version 8 made of both.
func keyedID(lambda uint32, key string) task.ID {
	var space uuid.UUID
	binary.BigEndian.PutUint32(space[:], lambda)
	return task.ID(uuid.NewHash(sha256.New(), space, []byte(key), 8))
}

// digest tells whether a key is used again for the same task: same priority, collection and payload.
func digest(t *task.Task, payload []byte) (d [16]byte) {
	h := sha256.New()
	h.Write([]byte{t.Partition.Priority, byte(len(t.Collection))})
	h.Write([]byte(t.Collection))
	h.Write(payload)
	copy(d[:], h.Sum(nil))
	return d
}
