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
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Schedule accepts tasks, with an outcome for each. What has an id in its result is durable.
func (in *Inbound) Schedule(ctx context.Context, request *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	items := request.Items
	if len(items) == 0 || len(items) > ScheduleItemsMax {
		return nil, refusal.Invalid("a call schedules 1 to %d tasks, this one has %d", ScheduleItemsMax, len(items))
	}
	if in.isDraining() {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server is stopping; try again")
	}
	defer in.intakes.begin()()
	b := newIntake(in, len(items))
	for i, item := range items {
		c := &b.tasks[i]
		c.item, c.way = item, WayStore
		c.err = b.admit(ctx, c, request.Again)
	}
	// A caller who goes now will call again, and then meets rows that nobody announces: so what is begun is
	// finished.
	lasting := context.WithoutCancel(ctx)
	b.deliver(lasting)
	b.buffer(lasting)
	b.store(lasting)
	b.announce(lasting)
	return b.answer(lasting), nil
}

// answer says what became of the tasks of a Schedule call.
func (b *intake) answer(ctx context.Context) *kinesinv1.ScheduleResponse {
	results := make([]kinesinv1.ScheduleResult, len(b.tasks))
	response := &kinesinv1.ScheduleResponse{Results: make([]*kinesinv1.ScheduleResult, len(b.tasks))}
	told := false
	for i := range b.tasks {
		c, r := &b.tasks[i], &results[i]
		response.Results[i] = r
		if c.err == nil {
			r.Id, r.Duplicate, r.DueMicros = c.id, c.known, int64(c.task.Due)
			if r.Id == "" {
				r.Id = b.Sealer.Seal(task.TokenOf(c.task))
			}
			continue
		}
		r.Problem = refusal.Problem(c.err)
		if isInternal(r.Problem) && !told {
			told = true
			b.internal(ctx, kinesinv1connect.TaskServiceScheduleProcedure, c.err)
		}
		if b.Hooks.Refused != nil {
			b.Hooks.Refused(r.Problem.Reason)
		}
	}
	return response
}

// admit validates what a call asks for and plans its write.
func (b *intake) admit(ctx context.Context, c *incoming, again bool) error {
	l, err := b.lambdaOf(ctx, c.item.Lambda)
	if err != nil {
		return err
	}
	due, err := b.due(c)
	if err != nil {
		return err
	}
	t, err := b.build(l, c.item)
	if err != nil {
		return err
	}
	t.Due = due
	if err := b.identify(t, l, c.item); err != nil {
		return err
	}
	t.Partition = partitionOf(l, t.Partition.Priority, t.ID)
	if again && l.Mode == task.Deliver && t.Key == "" && c.item.DueMicros == 0 {
		t.Enqueued = b.now // the earlier call may have stored a row with another due time, which a cancel does not find
	}
	return b.plan(ctx, c, l, t)
}

func partitionOf(l *catalog.Entry, priority uint8, id task.ID) task.Partition {
	return task.Partition{Lambda: l.Ref, Priority: priority, Shard: partition.ShardOf(id, l.ShardsFor(id))}
}

// plan says how a task is stored.
func (b *intake) plan(ctx context.Context, c *incoming, l *catalog.Entry, t *task.Task) error {
	c.lambda, c.task = l, t
	switch {
	case b.goesStraight(c):
		c.straight = true
	case l.Mode == task.Managed && b.near(ctx, t):
		return b.planNear(ctx, c)
	case t.Key != "":
		t.Wake = t.Due
		b.put(c, store.FirstWithRow(*t))
	default:
		b.put(c, store.First(*t))
	}
	return nil
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
func (b *intake) build(l *catalog.Entry, item *kinesinv1.ScheduleItem) (*task.Task, error) {
	t := &task.Task{State: task.Scheduled, Seq: 1, Created: b.now, Collection: item.Collection, Key: item.Key, Traceparent: item.Traceparent}
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
		if err := b.checkDeliverable(l, t, item.Payload); err != nil {
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
func (b *intake) due(c *incoming) (task.Instant, error) {
	item := c.item
	if item.DueMicros != 0 && item.DelayMicros != 0 {
		return 0, refusal.Invalid("a task has a due time or a delay, not both")
	}
	if item.DueMicros < 0 {
		return 0, refusal.Invalid("due time before 1970")
	}
	c.wanted = task.Instant(item.DueMicros)
	if item.DueMicros == 0 {
		c.wanted = b.now.Add(max(0, task.Micros(item.DelayMicros)))
	}
	if c.wanted > b.now.Add(b.Horizon) {
		return 0, b.tooFar()
	}
	if c.wanted <= b.now {
		// Rounding down cannot make it early: it is due already.
		return task.FromMillis(b.now.Millis()), nil
	}
	return c.wanted.CeilMillis(), nil
}

func (b *intake) tooFar() error {
	const year = 365 * 24 * time.Hour
	if b.Horizon%year == 0 {
		return refusal.Invalid("due time is too far ahead: at most %d years (of 365 days)", b.Horizon/year)
	}
	return refusal.Invalid("due time is too far ahead: at most %s", b.Horizon)
}

func checkLabel(what, text string, bytesMax int) error {
	if len(text) <= bytesMax && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
		return nil
	}
	return refusal.Invalid("%s of %d bytes: want at most %d bytes of UTF-8 text without control characters", what, len(text), bytesMax)
}

func overrides(item *kinesinv1.ScheduleItem) (task.Overrides, error) {
	o := task.Overrides{
		MaxAttempts: item.MaxAttempts,
		Timeout:     task.Micros(item.TimeoutMicros),
		BackoffMin:  task.Micros(item.BackoffMinMicros),
		BackoffMax:  task.Micros(item.BackoffMaxMicros),
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
		t.Seq = b.seqOfKeyed()
		t.Digest = digest(t, item.Payload)
	case len(item.RequestId) == 0:
		t.ID = task.NewID(b.now, b.Clock.Uint64(), b.Clock.Uint64())
	case len(item.RequestId) != len(t.ID) || item.RequestId[6]>>4 != 7:
		return refusal.Invalid("request id: want the 16 bytes of a UUID version 7")
	default:
		copy(t.ID[:], item.RequestId)
		if isAhead(t.ID, b.now) {
			return refusal.Invalid("request id: its time is more than %v ahead of the server's clock", catalog.IDAheadMax)
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

// seqOfKeyed is above that of every earlier task with the key, of which a wake-up row may remain. No two
// calls to this process get the same, so that of two equal calls only one finds its own row when the store
// did not answer.
func (b *intake) seqOfKeyed() uint64 {
	for b.keyed == 0 {
		last := b.keyedSeq.Load()
		if next := max(uint64(b.now), last+1); b.keyedSeq.CompareAndSwap(last, next) {
			b.keyed = next
		}
	}
	return b.keyed
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
