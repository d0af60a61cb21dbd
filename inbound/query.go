package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// WaitLookEveryDefault bounds how often a Wait reads its tasks again, and waitLookMax how long it trusts
// that nothing ended, since a task may end in another process.
const (
	WaitLookEveryDefault = 10 * time.Millisecond
	waitLookMax          = time.Second
)

// Get reads tasks by id, with an outcome for each.
func (in *Inbound) Get(ctx context.Context, request *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	rows, err := in.lookUp(ctx, request.Ids)
	if err != nil {
		return nil, err
	}
	response := &kinesinv1.GetResponse{Results: in.viewAll(request.Ids, rows)}
	if request.WithPayload {
		err = in.addPayloads(ctx, rows, response.Results)
	}
	return response, err
}

func (in *Inbound) addPayloads(ctx context.Context, rows []task.Task, results []*kinesinv1.GetResult) error {
	size := 0
	for i := range rows {
		size += int(rows[i].PayloadSize)
	}
	if size > PayloadsBytesMax {
		return refusal.Invalid("the payloads of these tasks have %d bytes: an answer has at most %d; name fewer ids", size, PayloadsBytesMax)
	}
	for i := range rows {
		payload, err := in.payload(ctx, &rows[i])
		switch {
		case errors.Is(err, store.ErrNotFound):
			results[i] = &kinesinv1.GetResult{Problem: noSuchTask()} // it was deleted in between
		case err != nil:
			return refusal.Wire(err)
		case results[i].Task != nil:
			results[i].Task.Payload = payload
		}
	}
	return nil
}

func (in *Inbound) payload(ctx context.Context, t *task.Task) ([]byte, error) {
	if !t.PayloadStoredApart() {
		return t.Payload, nil
	}
	return in.Store.Payload(ctx, t.PayloadID())
}

// lookUp finds a row for each id; one with a zero ID where there is none.
func (in *Inbound) lookUp(ctx context.Context, ids []string) ([]task.Task, error) {
	if len(ids) == 0 || len(ids) > IDsMax {
		return nil, refusal.Invalid("a call names 1 to %d ids, this one has %d", IDsMax, len(ids))
	}
	if err := in.catchUpFor(ctx, ids); err != nil {
		return nil, refusal.Wire(err)
	}
	tokens := make([]task.Token, 0, len(ids))
	at := make([]int, 0, len(ids))
	for i, id := range ids {
		if token, err := in.open(id); err == nil {
			tokens, at = append(tokens, token), append(at, i)
		}
	}
	found, err := in.rows(ctx, tokens)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	rows := make([]task.Task, len(ids))
	for k := range found {
		t := found[k].Task
		if t.ID.IsZero() {
			if u, known := in.unstored(tokens[k]); known {
				t = u
			}
		}
		rows[at[k]] = t
	}
	return rows, nil
}

// viewAll shows each task under the id by which it was asked for.
func (in *Inbound) viewAll(ids []string, rows []task.Task) []*kinesinv1.GetResult {
	results := make([]*kinesinv1.GetResult, len(rows))
	for i := range rows {
		if rows[i].ID.IsZero() {
			results[i] = &kinesinv1.GetResult{Problem: noSuchTask()}
		} else {
			results[i] = &kinesinv1.GetResult{Task: in.view(&rows[i])}
			results[i].Task.Id = ids[i]
		}
	}
	return results
}

func noSuchTask() *kinesinv1.Problem {
	return &kinesinv1.Problem{
		Reason: kinesinv1.Reason_REASON_NOT_FOUND,
		Text:   "task not found: the id was not issued here, or the task ended and its retention is over",
	}
}

// rows finds tasks wherever they are. A task row is the truth where there is one. Without one a task waits as
// its first wake-up row; that it was dispatched since the task row was looked for is no matter to a reader,
// and refuses a change. A task moves from there to its task row, never back, so where the wake-up row is
// gone, or is none of a task that waits, a second look at the task row misses nothing.
func (in *Inbound) rows(ctx context.Context, tokens []task.Token) ([]found, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	if err := in.know(ctx, tokens); err != nil {
		return nil, err
	}
	ids := make([]task.ID, len(tokens))
	keys := make([]store.WakeKey, len(tokens))
	for i, t := range tokens {
		ids[i] = t.ID
		keys[i] = store.WakeKey{Partition: t.Partition, Wake: t.Due, ID: t.ID}
	}
	all := make([]found, len(tokens))
	readTasks := func(at []int) ([]task.Task, error) { return in.Store.Tasks(ctx, pick(ids, at)) }
	readWakeups := func(at []int) ([]task.Task, error) { return in.Store.Wakeups(ctx, pick(keys, at)) }
	for _, look := range []struct {
		waiting bool
		read    func(at []int) ([]task.Task, error)
	}{{false, readTasks}, {true, readWakeups}, {false, readTasks}} {
		if err := fill(all, look.waiting, look.read); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// waitsAlone reports whether a wake-up row is that of a task that has no task row before it is dispatched.
func waitsAlone(row *task.Task) bool { return row.Key == "" && !row.ID.IsZero() && !row.IsBare() }

// know sees to it that the lambdas of tasks are known: one that another process created a moment ago may be
// of a mode in which its tasks live otherwise.
func (in *Inbound) know(ctx context.Context, tokens []task.Token) error {
	if !in.Shared {
		return nil
	}
	for i := range tokens {
		if _, err := in.Catalog.FindRef(ctx, tokens[i].Partition.Lambda); err != nil {
			return err
		}
	}
	return nil
}

// fill reads those that were not found yet: task rows, or, waiting, wake-up rows.
func fill(all []found, waiting bool, read func([]int) ([]task.Task, error)) error {
	var at []int
	for i := range all {
		if all[i].ID.IsZero() {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	rows, err := read(at)
	for k := range rows {
		if !waiting || waitsAlone(&rows[k]) {
			all[at[k]] = found{Task: rows[k], waiting: waiting}
		}
	}
	return err
}

func pick[T any](all []T, at []int) []T {
	some := make([]T, len(at))
	for k, i := range at {
		some[k] = all[i]
	}
	return some
}

// Wait answers when all named tasks that exist have ended, or when the wait is over.
func (in *Inbound) Wait(ctx context.Context, request *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	wait := task.Micros(request.WaitMicros)
	if wait < 0 || wait > WaitMax {
		return nil, refusal.Invalid("wait of %v: a call waits 0s to %v", wait, WaitMax)
	}
	over := in.Clock.NewTimer(wait)
	defer over.Stop()
	w := newWatch(in, request.Ids)
	for {
		change := in.ends.wait()
		if err := w.look(ctx); err != nil {
			return nil, err
		}
		if len(w.live) == 0 || wait == 0 {
			return w.response, nil
		}
		last, err := in.untilChange(ctx, change, over)
		if err != nil {
			return nil, fmt.Errorf("wait: %w", err)
		}
		if last {
			wait = 0
		}
	}
}

// untilChange waits until it is worth looking again; last says that it is for the last time.
func (in *Inbound) untilChange(ctx context.Context, change <-chan struct{}, over clock.Timer) (last bool, err error) {
	again := in.Clock.NewTimer(waitLookMax)
	defer again.Stop()
	select {
	case <-change:
		return false, clock.Sleep(ctx, in.Clock, in.WaitLookEvery)
	case <-again.C():
		return false, nil
	case <-over.C():
	case <-in.draining:
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
	return true, nil
}

// watch is what a Wait knows of its tasks. It reads again only those that live.
type watch struct {
	*Inbound
	ids      []string
	live     []int // places in ids
	response *kinesinv1.GetResponse
}

func newWatch(in *Inbound, ids []string) *watch {
	w := &watch{Inbound: in, ids: ids, live: make([]int, len(ids)), response: &kinesinv1.GetResponse{}}
	for i := range ids {
		w.live[i] = i
	}
	w.response.Results = make([]*kinesinv1.GetResult, len(ids))
	return w
}

func (w *watch) look(ctx context.Context) error {
	ids := pick(w.ids, w.live)
	rows, err := w.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	results := w.viewAll(ids, rows)
	live := w.live[:0]
	for k, i := range w.live {
		w.response.Results[i] = results[k]
		if !rows[k].ID.IsZero() && !rows[k].State.IsEnd() {
			live = append(live, i)
		}
	}
	w.live = live
	return nil
}
