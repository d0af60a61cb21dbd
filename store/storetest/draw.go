package storetest

import (
	"bytes"
	"context"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func drawTask(rt *rapid.T) task.Task {
	n := rapid.IntRange(1, universeIDs).Draw(rt, "id")
	due := at(rapid.IntRange(1, universeDues).Draw(rt, "due"))
	t := newTask(n, rapid.SampledFrom(universe).Draw(rt, "partition"), due)
	t.WakeRow.Seq = rapid.SampledFrom([]uint64{1, 1, 1, 2, 3}).Draw(rt, "row seq")
	t.Seq = t.WakeRow.Seq
	t.Collection = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "collection")
	return t
}

// drawState puts t into any state in which it may be stored.
func drawState(rt *rapid.T, t task.Task) task.Task {
	t.State = rapid.SampledFrom(task.States()).Draw(rt, "state")
	when := at(rapid.IntRange(1, universeDues).Draw(rt, "when"))
	t.Wake = when
	t.WakeRow.Seq = min(t.WakeRow.Seq, t.Seq)
	if t.State.IsEnd() {
		t.Wake, t.Ended, t.ExpireAt = 0, when, when
	}
	return t
}

func (p *pair) drawOp(rt *rapid.T) store.Op {
	op := store.Op{
		Kind: rapid.SampledFrom(everyKind).Draw(rt, "kind").kind,
		Task: drawTask(rt),
		Lazy: rapid.Bool().Draw(rt, "lazy"),
		New:  rapid.Bool().Draw(rt, "new"),
	}
	op.Patient = rapid.IntRange(0, 9).Draw(rt, "patient") == 9
	switch op.Kind {
	case store.PutWakeup:
		op.Task = drawWakeup(rt, op.Task)
	case store.DeleteWakeup:
		p.drawThere(rt, &op.Task)
		op.Task.WakeRow.Seq = drawSeq(rt, op.Task.WakeRow.Seq, 0)
	case store.ReplaceWakeup:
		p.drawThere(rt, &op.Task)
		op.Task.WakeRow.Seq = max(2, drawSeq(rt, op.Task.WakeRow.Seq+1, op.Task.WakeRow.Seq))
		op.Task.Seq = max(op.Task.WakeRow.Seq, op.Task.Seq)
		op.Task.State = rapid.SampledFrom([]task.State{task.Scheduled, task.Acquired, task.Acquired}).Draw(rt, "waiting state")
		op.Task.Worker = rapid.SampledFrom([]string{"p1", "p2"}).Draw(rt, "worker")
	case store.PutTask:
		op.Task = drawState(rt, op.Task)
	case store.ReplaceTask:
		op.Task = drawState(rt, op.Task)
		op.Task.Seq = p.seqOf(op.Task.ID) + uint64(rapid.SampledFrom([]int{1, 1, 1, 1, 0, 2}).Draw(rt, "seq"))
		op.Task.Seq = max(op.Task.Seq, 2)
	case store.PutPayload:
		op.Payload = bytes.Repeat([]byte{'p'}, rapid.IntRange(1, 2000).Draw(rt, "bytes"))
	case store.PutControl, store.DeleteControl:
		op.Control = p.drawControl(rt, op.Kind)
	case store.DeletePayload:
	}
	return op
}

// drawWakeup turns t into a wake-up row: bare, or in a first state.
func drawWakeup(rt *rapid.T, t task.Task) task.Task {
	t.State = rapid.SampledFrom([]task.State{task.Unknown, task.Scheduled, task.Scheduled, task.Enqueued, task.Claimed}).Draw(rt, "first state")
	if t.IsBare() {
		return bare(t, t.WakeRow.At, t.WakeRow.Seq)
	}
	if t.State != task.Scheduled {
		t.Seq++
		t.Wake = at(universeDues)
	}
	return t
}

// drawSeq mostly returns good, sometimes other or the seq after good.
func drawSeq(rt *rapid.T, good, other uint64) uint64 {
	return rapid.SampledFrom([]uint64{good, good, good, good, other, good + 1}).Draw(rt, "seq")
}

// drawThere mostly replaces t by a wake-up row that exists.
func (p *pair) drawThere(rt *rapid.T, t *task.Task) {
	rows, err := p.model.ScanSchedule(context.Background(), t.Partition, store.WakeKey{}, forever, universeIDs)
	if err != nil {
		p.Fatalf("model: %v", err)
	}
	if len(rows) > 0 && rapid.IntRange(0, 3).Draw(rt, "any") != 3 {
		*t = rapid.SampledFrom(rows).Draw(rt, "row")
	}
}

// drawOps returns one op, or several of one task that follow each other.
func (p *pair) drawOps(rt *rapid.T) []store.Op {
	switch rapid.IntRange(0, 9).Draw(rt, "chain") {
	case 0:
		return store.FirstWithRow(drawTask(rt))
	case 1, 2:
		return p.drawChange(rt)
	case 3, 4:
		return p.drawChain(rt)
	}
	return []store.Op{p.drawOp(rt)}
}

// drawChange returns the writes that change a task row, which may exist.
func (p *pair) drawChange(rt *rapid.T) []store.Op {
	t := drawTask(rt)
	rows, err := p.model.Tasks(context.Background(), []task.ID{t.ID})
	if err != nil {
		p.Fatalf("model: %v", err)
	}
	if len(rows) == 1 && !rows[0].ID.IsZero() {
		t = rows[0]
	}
	t.Seq++
	t.Ended, t.ExpireAt = 0, 0
	t = drawState(rt, t)
	if t.WakeRow.At == 0 { // none in the row of an end that moved nowhere
		t.WakeRow = task.WakeRow{At: at(1), Seq: 1}
	}
	return store.Change(t, rapid.Bool().Draw(rt, "move"), rapid.Bool().Draw(rt, "patient"))
}

// drawChain draws any ops and makes them follow each other. Nothing follows a delete, because drivers may
// differ in whether the delete of an absent row holds.
func (p *pair) drawChain(rt *rapid.T) []store.Op {
	ops := []store.Op{p.drawOp(rt)}
	for range rapid.IntRange(1, 3).Draw(rt, "followers") {
		last, op := &ops[len(ops)-1], p.drawOp(rt)
		if !ofTask(last.Kind) || last.Kind == store.DeleteWakeup || !ofTask(op.Kind) {
			break
		}
		op.Task.ID, op.Task.Partition, op.Follows = last.Task.ID, last.Task.Partition, true
		if op.Kind == store.ReplaceTask {
			op.Task.Seq = max(2, p.seqOf(op.Task.ID)+1)
			op.Task.WakeRow.Seq = min(op.Task.WakeRow.Seq, op.Task.Seq)
		}
		ops = append(ops, op)
	}
	return ops
}

func ofTask(k store.OpKind) bool { return k <= store.ReplaceTask || k == store.ReplaceWakeup }

func (p *pair) seqOf(id task.ID) uint64 {
	rows, err := p.model.Tasks(context.Background(), []task.ID{id})
	if err != nil {
		p.Fatalf("model: %v", err)
	}
	return rows[0].Seq
}

func (p *pair) drawControl(rt *rapid.T, kind store.OpKind) store.Control {
	c := store.Control{Kind: rapid.SampledFrom([]string{"a", "ab"}).Draw(rt, "kind"), Name: rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "name")}
	rows, err := p.model.Controls(context.Background(), c.Kind, "")
	if err != nil {
		p.Fatalf("model: %v", err)
	}
	if len(rows) > 0 && rapid.IntRange(0, 3).Draw(rt, "any") != 3 { // mostly one that is there
		c.Name = rapid.SampledFrom(rows).Draw(rt, "row").Name
	}
	for _, row := range rows {
		if row.Name == c.Name {
			c.Version = row.Version
		}
	}
	if kind == store.PutControl {
		c.Version++
		c.Value = []byte(rapid.SampledFrom([]string{"", "v", "w"}).Draw(rt, "value"))
	}
	c.Version = max(1, c.Version+uint64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(rt, "off")))
	return c
}
