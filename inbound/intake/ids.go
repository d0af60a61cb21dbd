package intake

import (
	"context"
	"encoding/binary"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/task"
)

// PartitionOf returns the partition of a new task of a lambda.
func PartitionOf(l *catalog.Entry, priority uint8, id task.ID, limitKey string) task.Partition {
	p := task.Partition{Lambda: l.Ref, Priority: priority}
	if limitKey != "" {
		p.Shard = partition.ShardOfKey(limitKey, l.ShardsFirst())
	} else {
		p.Shard = partition.ShardOf(id, l.ShardsFor(id))
	}
	return p
}

// RequestID returns the request id that a client sent; zero: it sent none.
func RequestID(sent []byte) (id task.ID, err error) {
	switch {
	case len(sent) == 0:
		return id, nil
	case len(sent) != len(id) || sent[6]>>4 != 7:
		return id, refusal.Invalid("request id: want the 16 bytes of a UUID version 7")
	default:
		return task.ID(sent), nil
	}
}

// OwnRequestID is RequestID for a caller, for whom alone the id counts. A call without a caller is the
// server's own, and its ids are, too.
func OwnRequestID(caller string, sent []byte) (task.ID, error) {
	id, err := RequestID(sent)
	if caller != "" && err == nil && !id.IsZero() {
		id = id.OwnedBy(caller)
	}
	return id, err
}

// ownRequestID is OwnRequestID for a task that Build makes. The id counts for this very item, so that a
// caller who uses it again for another one gets another task, and loses none that waits. An id that is bound
// to the lambda and the collection of the item counts whoever calls: whoever knows it has made it, since it
// is not the id of the task.
func (b *Batch) ownRequestID(t *task.Task, item *kinesinv1.ScheduleItem) (task.ID, error) {
	id, err := RequestID(item.RequestId)
	switch {
	case err != nil || id.IsZero() || b.Caller == "":
		return id, err
	case id == id.BoundTo(item.Lambda, item.Collection):
		return id.OwnedBy(""), nil
	}
	same := Digest(t, item.Payload)
	content := binary.BigEndian.AppendUint32(same[:], t.Partition.Lambda)
	content = binary.BigEndian.AppendUint64(content, uint64(item.Due))
	content = binary.BigEndian.AppendUint64(content, uint64(item.Delay))
	return id.OwnedBy(b.Caller, content...), nil
}

// MadeAt returns when an id of version 7 was made, by the clock of its maker.
func MadeAt(id task.ID) task.Instant {
	made, _ := id.Made()
	return made
}

// IsAhead reports whether the time of an id is too far ahead: it would make every later id look old to a
// store that recognizes new ids by their time, or is of a time for which a count of shards may still be
// written.
func IsAhead(id task.ID, now task.Instant) bool { return MadeAt(id) > now.Add(catalog.IDAheadMax) }

// Buffered returns what is known of a task that may be in the buffer: its wake-up row is the one that it gets
// when it comes out.
func Buffered(t task.Token) task.Task {
	return task.Task{
		ID: t.ID, Partition: t.Partition, Due: t.Due, Created: MadeAt(t.ID), State: task.Accepted,
		WakeRow: task.WakeRow{At: t.Due, Seq: 1},
	}
}

// OpenInbound reads an id that a client made when it sent a task to the buffer itself. Such an id names its
// lambda, which may have been created again since: then it is the id of a task that does not exist.
func (in *Intake) OpenInbound(ctx context.Context, public string) (task.Token, *catalog.Entry, error) {
	if in.InboundSealer == nil {
		return task.Token{}, nil, task.ErrBadID
	}
	q, err := in.InboundSealer.Open(ctx, public)
	if err != nil {
		return task.Token{}, nil, err
	}
	l, err := in.Catalog.Lambda(q.Lambda)
	if err != nil {
		return task.Token{}, nil, err
	}
	priority, err := l.Priority(q.Priority)
	if err != nil {
		return task.Token{}, nil, err
	}
	id := q.TaskID()
	return task.Token{ID: id, Due: q.Due, Partition: PartitionOf(l, priority, id, "")}, l, nil
}

// passKeyed has later tasks with keys get higher seqs than one that began after the ended row of its key.
func (in *Intake) passKeyed(seq uint64) {
	for last := in.keyedSeq.Load(); last < seq && !in.keyedSeq.CompareAndSwap(last, seq); {
		last = in.keyedSeq.Load()
	}
}

// SeqOfKeyed returns the seq of a new task with a key. It is higher than that of every earlier task with the
// key, of which a wake-up row may remain. No two calls to this process get the same or the next one, which is
// that of a row that is stored as enqueued: so of two calls only one finds its own row when the store did not
// answer.
func (b *Batch) SeqOfKeyed() uint64 {
	for b.keyed == 0 {
		last := b.keyedSeq.Load()
		if next := max(uint64(b.Now), last+2); b.keyedSeq.CompareAndSwap(last, next) {
			b.keyed = next
		}
	}
	return b.keyed
}

// Open reads a public id of either form.
func (in *Intake) Open(ctx context.Context, id string) (task.Token, error) {
	if !task.IsInboundToken(id) {
		return in.Sealer.Open(ctx, id)
	}
	token, _, err := in.OpenInbound(ctx, id)
	return token, err
}

// LambdaOf returns the name of the lambda of a task by its public id; task.ErrBadID for an id that was not
// issued here, or whose lambda was deleted.
func (in *Intake) LambdaOf(ctx context.Context, id string) (string, error) {
	token, err := in.Open(ctx, id)
	if err != nil {
		return "", task.ErrBadID
	}
	l, err := in.Catalog.FindRef(ctx, token.Partition.Lambda)
	if err != nil {
		return "", refusal.Wire(err)
	}
	if l == nil {
		return "", task.ErrBadID
	}
	return l.Name, nil
}
