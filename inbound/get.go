package inbound

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Get reads tasks by id or by key, with an outcome for each. A key that is used again while Get reads names the newer task:
// such a key has a task at any time, so the answer is never that there is none.
func (in *Inbound) Get(ctx context.Context, request *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	for tries := 0; ; tries++ {
		response, moved, err := in.get(ctx, request)
		if err != nil || !moved || tries == casTriesMax {
			return response, err
		}
	}
}

// get reads tasks once. moved reports that a key named a task which is not there any more.
func (in *Inbound) get(ctx context.Context, request *kinesinv1.GetRequest) (response *kinesinv1.GetResponse, moved bool, err error) {
	ids, err := in.withKeys(ctx, request.Ids, request.Keys)
	if err != nil {
		return nil, false, err
	}
	rows, err := in.lookUp(ctx, ids)
	if err != nil {
		return nil, false, err
	}
	response = &kinesinv1.GetResponse{Results: in.viewAll(ids, rows)}
	if request.WithPayload {
		if err := in.addPayloads(ctx, ids, rows, response.Results); err != nil {
			return nil, false, err
		}
	}
	for i := len(request.Ids); i < len(ids); i++ {
		moved = moved || ids[i] != "" && response.Results[i].Problem != nil
	}
	return response, moved, nil
}

func (in *Inbound) addPayloads(ctx context.Context, ids []string, rows []task.Task, results []*kinesinv1.GetResult) error {
	size := 0
	for i := range rows {
		size += int(rows[i].PayloadSize)
	}
	if size > PayloadsBytesMax {
		return refusal.Invalid("the payloads of these tasks have %d bytes: an answer has at most %d; name fewer ids", size, PayloadsBytesMax)
	}
	for i := range rows {
		payload, err := in.Payload(ctx, &rows[i])
		for tries := 0; errors.Is(err, store.ErrNotFound) && tries < casTriesMax && in.isReplaced(ctx, ids[i], &rows[i]); tries++ {
			room := 0 // for a result, which a task whose payload was replaced does not have
			results[i] = in.viewOf(ids[i], &rows[i], &room)
			payload, err = in.Payload(ctx, &rows[i])
		}
		switch {
		case errors.Is(err, store.ErrNotFound):
			results[i] = &kinesinv1.GetResult{Problem: noSuchTask()} // it was deleted in between
		case err != nil:
			return refusal.Wire(err)
		case results[i].Task != nil:
			results[i].Task.Payload, results[i].Task.Blob = payload, api.WireBlob(rows[i].Blob)
		}
	}
	return nil
}

// isReplaced reads a task again whose payload is gone, and reports whether it has another payload now.
func (in *Inbound) isReplaced(ctx context.Context, id string, row *task.Task) bool {
	now, err := in.lookUp(ctx, []string{id})
	if err != nil || now[0].ID.IsZero() || now[0].PayloadID() == row.PayloadID() {
		return false
	}
	*row = now[0]
	return true
}

// lookUp finds a task for each id; one with a zero ID where there is none.
func (in *Inbound) lookUp(ctx context.Context, ids []string) ([]task.Task, error) {
	if err := in.refreshFor(ctx, ids); err != nil {
		return nil, refusal.Wire(err)
	}
	tokens := make([]task.Token, 0, len(ids))
	at := make([]int, 0, len(ids))
	for i, id := range ids {
		if token, err := in.Open(ctx, id); err == nil {
			tokens, at = append(tokens, token), append(at, i)
		}
	}
	found, err := in.rows(ctx, tokens)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	tasks := make([]task.Task, len(ids))
	for k := range found {
		t := found[k].Task
		if t.ID.IsZero() {
			if unstored, known := in.unstored(tokens[k]); known {
				t = unstored
			}
		}
		tasks[at[k]] = t
	}
	return tasks, nil
}

// viewAll shows each task under the id by which it was asked for.
func (in *Inbound) viewAll(ids []string, rows []task.Task) []*kinesinv1.GetResult {
	results, room := make([]*kinesinv1.GetResult, len(rows)), ResultsBytesMax
	for i := range rows {
		results[i] = in.viewOf(ids[i], &rows[i], &room)
	}
	return results
}

// viewOf shows a task with its result, as far as there is room in the answer.
func (in *Inbound) viewOf(id string, row *task.Task, room *int) *kinesinv1.GetResult {
	if row.ID.IsZero() {
		return &kinesinv1.GetResult{Problem: noSuchTask()}
	}
	v := in.view(row)
	v.Id = id
	if n := len(row.Result); n <= *room {
		v.Result = row.Result
		*room -= n
	}
	return &kinesinv1.GetResult{Task: v}
}
