package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Differential performs the same random operations on two drivers and compares every answer and, at
// the end, all that they hold. It fails when an operation never succeeded: what was not
// exercised was not compared. A reopenable driver may return another value from reopen, which is
// called now and then; nil keeps it.
func Differential(t *testing.T, openModel, openSubject func() store.Driver, reopen func(store.Driver) store.Driver) {
	t.Helper()
	succeeded := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		p := &pair{T: rt, model: openModel(), subject: openSubject(), reopen: reopen, succeeded: succeeded}
		defer func() { // the pair's subject may change
			if err := errors.Join(p.model.Close(), p.subject.Close()); err != nil {
				rt.Errorf("close: %v", err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"apply": p.apply, "scanSchedule": p.scanSchedule, "sweep": p.sweep, "reopen": p.reopenSubject, "": p.nothing,
		})
		p.compareAll()
	})
	for _, kind := range everyKind {
		if succeeded[kind.name] == 0 {
			t.Errorf("%s never succeeded", kind.name)
		}
	}
	for _, other := range []string{"scanSchedule", "sweep", "follower", "skipped follower"} {
		if succeeded[other] == 0 {
			t.Errorf("%s: there never was any", other)
		}
	}
}

// everyKind is in the order of the kinds.
var everyKind = []struct {
	name string
	kind store.OpKind
}{
	{"PutWakeup", store.PutWakeup},
	{"DeleteWakeup", store.DeleteWakeup},
	{"PutTask", store.PutTask},
	{"ReplaceTask", store.ReplaceTask},
	{"PutPayload", store.PutPayload},
	{"DeletePayload", store.DeletePayload},
	{"PutControl", store.PutControl},
	{"DeleteControl", store.DeleteControl},
	{"ReplaceWakeup", store.ReplaceWakeup},
}

// The universe is small, so that operations meet.
const (
	universeIDs  = 8
	universeDues = 6
)

var universe = []task.Partition{partA, partB}

// pair is a model and the driver that is compared with it.
type pair struct {
	*rapid.T

	model, subject store.Driver
	reopen         func(store.Driver) store.Driver
	succeeded      map[string]int
}

func (p *pair) nothing(*rapid.T) {}

func (p *pair) reopenSubject(*rapid.T) {
	if p.reopen != nil {
		p.subject = p.reopen(p.subject)
	}
}

func drawTask(rt *rapid.T) task.Task {
	n := rapid.IntRange(1, universeIDs).Draw(rt, "id")
	due := at(rapid.IntRange(1, universeDues).Draw(rt, "due"))
	t := newTask(n, rapid.SampledFrom(universe).Draw(rt, "partition"), due)
	t.WakeRow.Seq = rapid.SampledFrom([]uint64{1, 1, 1, 2, 3}).Draw(rt, "row seq")
	t.Seq = t.WakeRow.Seq
	t.Collection = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "collection")
	return t
}

// drawState puts t in any state it may be stored in.
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

// drawWakeup makes of t a wake-up row: bare, or in a first state.
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

// drawSeq is mostly good, else another one or one beside it.
func drawSeq(rt *rapid.T, good, other uint64) uint64 {
	return rapid.SampledFrom([]uint64{good, good, good, good, other, good + 1}).Draw(rt, "seq")
}

// drawThere mostly takes a wake-up row that is there.
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

// drawChange changes a task row that may be there, with what else belongs to it.
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

// drawChain draws any ops and makes them follow each other. Nothing follows a delete: whether one of a row
// that is not there holds is left to the driver.
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

func (p *pair) apply(rt *rapid.T) {
	var ops []store.Op
	for range rapid.IntRange(1, 12).Draw(rt, "ops") {
		ops = append(ops, p.drawOps(rt)...)
	}
	want, err := p.model.Apply(context.Background(), ops)
	got, err2 := p.subject.Apply(context.Background(), ops)
	if err != nil || err2 != nil {
		rt.Fatalf("apply: %v, %v", err, err2)
	}
	for i := range ops {
		if w, g := outcome(want[i]), outcome(got[i]); w != g && (got[i] != nil || !mayBeGone(&ops[i], want[i])) {
			rt.Fatalf("op %d, %+v: model says %s, subject %s", i, ops[i], w, g)
		}
		switch {
		case want[i] == nil:
			p.succeeded[everyKind[ops[i].Kind-store.PutWakeup].name]++
			if ops[i].Follows {
				p.succeeded["follower"]++
			}
		case errors.Is(want[i], store.ErrSkipped):
			p.succeeded["skipped follower"]++
		}
	}
}

// mayBeGone reports whether a driver may say that a wake-up row is removed although its condition failed:
// when the row is not there, and with Lazy always.
func mayBeGone(op *store.Op, want error) bool {
	var conflict *store.ConflictError
	if op.Kind != store.DeleteWakeup || !errors.As(want, &conflict) {
		return false
	}
	return op.Lazy || (op.Task.WakeRow.Seq == 0 && conflict.Task == nil)
}

// outcome is a comparable form of a result, with all that a conflict shows.
func outcome(err error) string {
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) {
		return fmt.Sprint(err)
	}
	text := "conflict"
	if conflict.Task != nil {
		text += fmt.Sprintf(" with %+v", *conflict.Task)
	}
	if conflict.Control != nil {
		text += fmt.Sprintf(" with %s %s %d %q", conflict.Control.Kind, conflict.Control.Name, conflict.Control.Version, conflict.Control.Value)
	}
	return text
}

func (p *pair) scanSchedule(rt *rapid.T) {
	part := rapid.SampledFrom(universe).Draw(rt, "partition")
	var from store.WakeKey
	if rapid.Bool().Draw(rt, "resume") {
		t := drawTask(rt)
		from = store.WakeKey{Partition: part, Wake: t.Due, ID: t.ID}
	}
	through, limit := at(rapid.IntRange(0, universeDues+1).Draw(rt, "through")), rapid.IntRange(1, 10).Draw(rt, "limit")
	want, err := p.model.ScanSchedule(context.Background(), part, from, through, limit)
	got, err2 := p.subject.ScanSchedule(context.Background(), part, from, through, limit)
	p.same("scanSchedule", rt, want, got, errors.Join(err, err2))
}

func (p *pair) same(what string, rt *rapid.T, want, got []task.Task, err error) {
	if err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	if len(want) > 0 {
		p.succeeded[what]++
	}
	if len(want) != len(got) || (len(want) > 0 && !reflect.DeepEqual(want, got)) {
		rt.Fatalf("%s:\nmodel   %+v\nsubject %+v", what, want, got)
	}
}

func (p *pair) sweep(rt *rapid.T) {
	now := at(rapid.IntRange(0, universeDues+1).Draw(rt, "now"))
	limit := universeIDs // which of several rows go first at one instant is the driver's choice
	want, err := p.model.Sweep(context.Background(), now, limit)
	got, err2 := p.subject.Sweep(context.Background(), now, limit)
	if err != nil || err2 != nil || want != got {
		rt.Fatalf("sweep: model %d, %v; subject %d, %v", want, err, got, err2)
	}
	p.succeeded["sweep"] += want
}

// compareAll compares everything that is stored, by every way to read it.
func (p *pair) compareAll() {
	want, got := p.dump(p.model), p.dump(p.subject)
	for i := range want {
		if want[i] != got[i] {
			p.Fatalf("model   %s\nsubject %s", want[i], got[i])
		}
	}
}

func (p *pair) dump(d store.Driver) []string {
	ctx := context.Background()
	var all []string
	note := func(value any, err error) { all = append(all, fmt.Sprintf("%+v %v", value, err)) }
	for n := 1; n <= universeIDs; n++ {
		rows, err := d.Tasks(ctx, []task.ID{idOf(n)})
		note(rows, err)
		payload, err := d.Payload(ctx, idOf(n))
		if errors.Is(err, store.ErrNotFound) {
			err = store.ErrNotFound // the text is the driver's
		}
		note(payload, err)
	}
	for _, part := range universe {
		rows, err := d.ScanSchedule(ctx, part, store.WakeKey{}, forever, 1000)
		note(rows, err)
		for i := range rows {
			again, err := d.Wakeups(ctx, []store.WakeKey{store.KeyOf(&rows[i])})
			note(again, err)
		}
		for _, s := range append(task.States(), task.Unknown) {
			if s == task.Unknown || s.IsEnd() {
				note(sortedEnded(ctx, d, &part, s))
				note(sortedEnded(ctx, d, nil, s))
			}
		}
	}
	for _, kind := range []string{"a", "ab"} {
		rows, err := d.Controls(ctx, kind, "")
		note(rows, err)
	}
	return all
}

func sortedEnded(ctx context.Context, d store.Driver, part *task.Partition, s task.State) ([]task.Task, error) {
	var all []task.Task
	var cursor []byte
	for {
		rows, more, err := d.ScanEnded(ctx, part, s, cursor, 3)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
		if cursor = more; len(cursor) == 0 {
			break
		}
	}
	slices.SortFunc(all, func(a, b task.Task) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return all, nil
}
