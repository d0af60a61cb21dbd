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

// Differential performs the same random operations on two drivers. It compares every answer and, at the end,
// all rows. Without -short it fails when a kind of operation never succeeded, because that was then not
// compared. reopen is called now and then and may return another driver over the same data; nil keeps the
// driver.
func Differential(t *testing.T, openModel, openSubject func() store.Driver, reopen func(store.Driver) store.Driver) {
	t.Helper()
	succeeded := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		p := &pair{T: rt, model: openModel(), subject: openSubject(), reopen: reopen, succeeded: succeeded}
		defer func() { // reopen may change p.subject
			if err := errors.Join(p.model.Close(), p.subject.Close()); err != nil {
				rt.Errorf("close: %v", err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"apply": p.apply, "scanSchedule": p.scanSchedule, "sweep": p.sweep, "reopen": p.reopenSubject, "": p.nothing,
		})
		p.compareAll()
	})
	if testing.Short() {
		return // so few runs may miss a kind
	}
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

// pair has a model and the driver that is compared with it.
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

// mayBeGone reports whether a driver may answer that a wake-up row is removed although the condition failed:
// for an absent row, and with Lazy always.
func mayBeGone(op *store.Op, want error) bool {
	var conflict *store.ConflictError
	if op.Kind != store.DeleteWakeup || !errors.As(want, &conflict) {
		return false
	}
	return op.Lazy || (op.Task.WakeRow.Seq == 0 && conflict.Task == nil)
}

// outcome returns a result in a comparable form, with the row that a conflict shows.
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

// compareAll compares all rows, by every way to read them.
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
