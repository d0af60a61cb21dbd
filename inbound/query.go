package inbound

import (
	"context"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// waitLookEvery bounds how often a Wait reads its tasks again, and waitLookMax how long it trusts
// that nothing ended, since a task may end in another process.
const (
	waitLookEvery = 10 * time.Millisecond
	waitLookMax   = time.Second
)

// Get reads tasks by id, with an outcome for each.
func (in *Inbound) Get(ctx context.Context, request *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	response, _, err := in.get(ctx, request.Ids)
	if err != nil || !request.WithPayload {
		return response, err
	}
	for _, r := range response.Results {
		if r.Task != nil {
			if err := in.addPayload(ctx, r.Task); err != nil {
				return nil, err
			}
		}
	}
	return response, nil
}

func (in *Inbound) addPayload(ctx context.Context, v *kinesinv1.Task) error {
	token, err := in.Sealer.Open(v.Id)
	if err != nil || v.PayloadBytes == 0 {
		return nil //nolint:nilerr // the id was sealed a moment ago
	}
	t, err := in.find(ctx, token)
	if err != nil {
		return err
	}
	v.Payload = t.Payload
	if t.PayloadStoredApart() {
		v.Payload, err = in.Store.Payload(ctx, t.ID)
	}
	return wire(err)
}

// get answers for each id and says whether all the tasks that exist have ended.
func (in *Inbound) get(ctx context.Context, ids []string) (*kinesinv1.GetResponse, bool, error) {
	if len(ids) == 0 || len(ids) > IDsMax {
		return nil, false, invalid("a call names 1 to %d ids, this one has %d", IDsMax, len(ids))
	}
	tokens := make([]task.Token, 0, len(ids))
	at := make([]int, 0, len(ids))
	response := &kinesinv1.GetResponse{Results: make([]*kinesinv1.GetResult, len(ids))}
	for i, id := range ids {
		token, err := in.Sealer.Open(id)
		if err != nil {
			response.Results[i] = &kinesinv1.GetResult{Problem: noSuchTask()}
			continue
		}
		tokens, at = append(tokens, token), append(at, i)
	}
	rows, err := in.rows(ctx, tokens)
	if err != nil {
		return nil, false, wire(err)
	}
	ended := true
	for k := range rows {
		r := &kinesinv1.GetResult{Problem: noSuchTask()}
		if !rows[k].ID.IsZero() {
			r = &kinesinv1.GetResult{Task: in.view(&rows[k])}
			ended = ended && rows[k].State.IsEnd()
		}
		response.Results[at[k]] = r
	}
	return response, ended, nil
}

func noSuchTask() *kinesinv1.Problem {
	return &kinesinv1.Problem{
		Reason: kinesinv1.Reason_REASON_NOT_FOUND,
		Text:   "no such task: the id was not issued here, or the task ended and its retention is over",
	}
}

// rows finds tasks wherever they are. A task moves from its waiting row to its task row, never
// back, so looking at the task row first and last misses nothing.
func (in *Inbound) rows(ctx context.Context, tokens []task.Token) ([]task.Task, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	ids := make([]task.ID, len(tokens))
	keys := make([]store.WaitingKey, len(tokens))
	for i, t := range tokens {
		ids[i] = t.ID
		keys[i] = store.WaitingKey{Partition: t.Partition, Due: t.Due, ID: t.ID}
	}
	rows, err := in.Store.Tasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	missing := func() (at []int) {
		for i := range rows {
			if rows[i].ID.IsZero() {
				at = append(at, i)
			}
		}
		return at
	}
	err = fill(rows, missing(), func(at []int) ([]task.Task, error) { return in.Store.Waiting(ctx, pick(keys, at)) })
	if err != nil {
		return nil, err
	}
	err = fill(rows, missing(), func(at []int) ([]task.Task, error) { return in.Store.Tasks(ctx, pick(ids, at)) })
	return rows, err
}

func fill(rows []task.Task, at []int, read func([]int) ([]task.Task, error)) error {
	if len(at) == 0 {
		return nil
	}
	found, err := read(at)
	for k := range found {
		rows[at[k]] = found[k]
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
	wait := time.Duration(request.WaitMicros) * time.Microsecond
	if wait < 0 || wait > waitMax {
		return nil, invalid("a call waits 0 to %v", waitMax)
	}
	over := in.Clock.NewTimer(wait)
	defer over.Stop()
	for {
		change := in.nextEnd()
		response, ended, err := in.get(ctx, request.Ids)
		if err != nil || ended || wait == 0 {
			return response, err
		}
		look := in.Clock.NewTimer(waitLookMax)
		select {
		case <-change:
			err = clock.Sleep(ctx, in.Clock, waitLookEvery)
		case <-look.C():
		case <-over.C():
			wait = 0 // one last look
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		look.Stop()
		if err != nil {
			return nil, fmt.Errorf("wait: %w", err)
		}
	}
}
