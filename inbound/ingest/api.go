package ingest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
)

// How many rejected messages and tasks a page of a list has: at most, and if the request does not say.
const (
	listMax     = 1000
	listDefault = 100
)

var errNotKept = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "its contents are gone: delete it")

// ListRejected returns a page of the rejected messages and tasks, in the order of their names.
func (in *Ingest) ListRejected(ctx context.Context, request *kinesinv1.ListRejectedRequest) (*kinesinv1.ListRejectedResponse, error) {
	limit := cmp.Or(int(request.Limit), listDefault)
	if limit < 1 || limit > listMax {
		return nil, refusal.Invalid("limit %d: want 1 to %d", request.Limit, listMax)
	}
	rows, err := in.Rejected.all(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	from, found := slices.BinarySearchFunc(rows, request.After, func(r rejectedRow, name string) int { return strings.Compare(r.name, name) })
	if found {
		from++
	}
	rows = rows[from:]
	response := &kinesinv1.ListRejectedResponse{More: len(rows) > limit}
	for i := range rows[:min(limit, len(rows))] {
		response.Rejected = append(response.Rejected, rows[i].view())
	}
	return response, nil
}

func (r *rejectedRow) view() *kinesinv1.Rejected {
	return &kinesinv1.Rejected{
		Name: r.name, Reason: r.Reason, Text: r.Text, Rejected: int64(r.At), Accepted: int64(r.Accepted),
		Id: r.ID, Lambda: r.Lambda, Bytes: int64(r.Bytes), Retries: r.Retries,
	}
}

// GetRejected returns a rejected message or task with its contents.
func (in *Ingest) GetRejected(ctx context.Context, request *kinesinv1.GetRejectedRequest) (*kinesinv1.GetRejectedResponse, error) {
	row, err := in.Rejected.read(ctx, request.Name)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	v := row.view()
	var t kinesinv1.BufferedTask
	if !row.Whole && proto.Unmarshal(row.body, &t) == nil { // which refuses texts that are no UTF-8, and could not be sent
		v.Item = t.Item
	} else {
		v.Body = row.body
	}
	return &kinesinv1.GetRejectedResponse{Rejected: v}, nil
}

// RetryRejected takes in rejected messages and tasks once more. A person who retries a stale task knows that it may run twice.
func (in *Ingest) RetryRejected(ctx context.Context, request *kinesinv1.RetryRejectedRequest) (*kinesinv1.RetryRejectedResponse, error) {
	if err := checkNames(request.Names); err != nil {
		return nil, err
	}
	response := &kinesinv1.RetryRejectedResponse{}
	for _, name := range request.Names {
		id, p := in.retryRejected(ctx, name)
		response.Results = append(response.Results, &kinesinv1.RetryRejectedResult{Id: id, Problem: p})
	}
	return response, nil
}

func checkNames(names []string) error {
	if n := len(names); n == 0 || n > RejectedNamesMax {
		return refusal.Invalid("a call has 1 to %d names, this one has %d", RejectedNamesMax, n)
	}
	return nil
}

func (in *Ingest) retryRejected(ctx context.Context, name string) (id string, p *kinesinv1.Problem) {
	row, err := in.Rejected.read(ctx, name)
	if err == nil && len(row.body) == 0 {
		err = errNotKept
	}
	if err != nil {
		return "", refusal.Problem(err)
	}
	tasks, err := in.tasksOf(ctx, &row)
	if err != nil {
		r := result{rejected, brokenMessage("", err).Reason, err}
		in.Rejected.noteRetry(ctx, &row, r)
		return "", r.problem()
	}
	arrivals := make([]arrival, len(tasks))
	for i, t := range tasks {
		arrivals[i] = arrival{BufferedTask: t, tries: math.MaxInt32, manual: true}
	}
	lasting := context.WithoutCancel(ctx)
	for i, r := range in.takeIn(lasting, arrivals) {
		switch {
		case r.outcome == stored:
		case r.outcome == rejected && row.Whole:
			// The other tasks of that message are stored; this one is kept by itself.
			if err := in.Rejected.put(lasting, in.rejectedOf(lasting, arrivals[i].BufferedTask, r)); err != nil {
				return "", refusal.Problem(err)
			}
		default:
			in.Rejected.noteRetry(lasting, &row, r)
			return "", r.problem()
		}
	}
	if !row.Whole {
		id = arrivals[0].Id
	}
	return id, refusal.Problem(in.Rejected.delete(lasting, &row))
}

// tasksOf returns the tasks of a rejected message, or the rejected task.
func (in *Ingest) tasksOf(ctx context.Context, row *rejectedRow) ([]*kinesinv1.BufferedTask, error) {
	if !row.Whole {
		t := &kinesinv1.BufferedTask{}
		if err := t.UnmarshalVT(row.body); err != nil || t.Item == nil {
			return nil, errors.Join(envelope.ErrUndecodable, err)
		}
		return []*kinesinv1.BufferedTask{t}, nil
	}
	if in.InboundSealer == nil {
		return nil, errNoInboundKey
	}
	e, err := envelope.Open(ctx, in.InboundSealer, string(row.body))
	return e.GetTasks(), err
}

// DeleteRejected deletes rejected messages and tasks for good.
func (in *Ingest) DeleteRejected(ctx context.Context, request *kinesinv1.DeleteRejectedRequest) (*kinesinv1.DeleteRejectedResponse, error) {
	if err := checkNames(request.Names); err != nil {
		return nil, err
	}
	response := &kinesinv1.DeleteRejectedResponse{}
	for _, name := range request.Names {
		row, err := in.Rejected.read(ctx, name)
		if err == nil {
			err = in.Rejected.delete(ctx, &row)
		}
		response.Results = append(response.Results, &kinesinv1.DeleteRejectedResult{Problem: refusal.Problem(err)})
	}
	return response, nil
}

var errNoInboundKey = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
	"this server has no inbound buffer: tasks are scheduled through its API only; with `--inbound-queue` it has one")

// Key returns the key with which a client can send tasks of all lambdas to the buffer.
func (in *Ingest) Key(context.Context, *kinesinv1.KeyRequest) (*kinesinv1.KeyResponse, error) {
	if in.Buffer == nil || in.InboundSealer == nil {
		return nil, errNoInboundKey
	}
	return &kinesinv1.KeyResponse{Key: in.InboundSealer.KeyText()}, nil
}
