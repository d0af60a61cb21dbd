package inbound

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
)

var (
	errNoSuchRejected = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "nothing of that name is set aside: `kinesin inbound rejected list` has the names")
	errNotKept        = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "what was set aside is gone but for its name: delete it")
)

// ListRejected pages over what was set aside, in order of the names.
func (in *Inbound) ListRejected(ctx context.Context, request *kinesinv1.ListRejectedRequest) (*kinesinv1.ListRejectedResponse, error) {
	limit := int(request.Limit)
	if limit == 0 {
		limit = listDefault
	}
	if limit < 1 || limit > ListMax {
		return nil, refusal.Invalid("limit %d: want 1 to %d", request.Limit, ListMax)
	}
	rows, err := in.aside.all(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	from, found := slices.BinarySearchFunc(rows, request.After, func(r asideRow, name string) int { return strings.Compare(r.name, name) })
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

func (r *asideRow) view() *kinesinv1.Rejected {
	return &kinesinv1.Rejected{
		Name: r.name, Reason: r.Reason, Text: r.Text, RejectedMicros: int64(r.At), AcceptedMicros: int64(r.Accepted),
		Id: r.ID, Lambda: r.Lambda, Bytes: int64(r.Bytes), Retries: r.Retries,
	}
}

// GetRejected reads one, with what is kept of it.
func (in *Inbound) GetRejected(ctx context.Context, request *kinesinv1.GetRejectedRequest) (*kinesinv1.GetRejectedResponse, error) {
	row, err := in.aside.read(ctx, request.Name)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	v := row.view()
	var t kinesinv1.BufferedTask
	if !row.Whole && t.UnmarshalVT(row.body) == nil {
		v.Item = t.Item
	} else {
		v.Body = row.body
	}
	return &kinesinv1.GetRejectedResponse{Rejected: v}, nil
}

// RetryRejected takes some in once more. A person who retries what is stale knows that it may run twice.
func (in *Inbound) RetryRejected(ctx context.Context, request *kinesinv1.RetryRejectedRequest) (*kinesinv1.RetryRejectedResponse, error) {
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

func (in *Inbound) retryRejected(ctx context.Context, name string) (id string, p *kinesinv1.Problem) {
	row, err := in.aside.read(ctx, name)
	if err == nil && len(row.body) == 0 {
		err = errNotKept
	}
	if err != nil {
		return "", refusal.Problem(err)
	}
	tasks, err := in.tasksOf(&row)
	if err != nil {
		f := fate{rejected, brokenMessage("", err).Reason, err}
		in.aside.retried(ctx, &row, f)
		return "", f.problem()
	}
	arrivals := make([]arrival, len(tasks))
	for i, t := range tasks {
		arrivals[i] = arrival{BufferedTask: t, tries: forcedTries, forced: true}
	}
	lasting := context.WithoutCancel(ctx)
	for i, f := range in.takeIn(lasting, arrivals) {
		switch {
		case f.verdict == taken:
		case f.verdict == rejected && row.Whole:
			// The others of that message are taken in, this one is set aside by itself.
			if err := in.aside.put(lasting, refusedTask(arrivals[i].BufferedTask, f)); err != nil {
				return "", refusal.Problem(err)
			}
		default:
			in.aside.retried(lasting, &row, f)
			return "", f.problem()
		}
	}
	if !row.Whole {
		id = arrivals[0].Id
	}
	return id, refusal.Problem(in.aside.forget(lasting, &row))
}

// tasksOf are the tasks of what was set aside.
func (in *Inbound) tasksOf(row *asideRow) ([]*kinesinv1.BufferedTask, error) {
	if !row.Whole {
		t := &kinesinv1.BufferedTask{}
		if err := t.UnmarshalVT(row.body); err != nil || t.Item == nil {
			return nil, errors.Join(envelope.ErrUndecodable, err)
		}
		return []*kinesinv1.BufferedTask{t}, nil
	}
	if in.inboundSealer == nil {
		return nil, errNoInboundKey
	}
	e, err := envelope.Open(in.inboundSealer, string(row.body))
	return e.GetTasks(), err
}

// DeleteRejected forgets some for good.
func (in *Inbound) DeleteRejected(ctx context.Context, request *kinesinv1.DeleteRejectedRequest) (*kinesinv1.DeleteRejectedResponse, error) {
	if err := checkNames(request.Names); err != nil {
		return nil, err
	}
	response := &kinesinv1.DeleteRejectedResponse{}
	for _, name := range request.Names {
		row, err := in.aside.read(ctx, name)
		if err == nil {
			err = in.aside.forget(ctx, &row)
		}
		response.Results = append(response.Results, &kinesinv1.DeleteRejectedResult{Problem: refusal.Problem(err)})
	}
	return response, nil
}

var errNoInboundKey = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
	"this server has no inbound buffer: tasks are scheduled through its API only; with `--inbound-queue` it has one")

// Key answers the key of those who send to the buffer themselves.
func (in *Inbound) Key(context.Context, *kinesinv1.KeyRequest) (*kinesinv1.KeyResponse, error) {
	if in.Buffering.Buffer == nil || in.InboundKey == nil {
		return nil, errNoInboundKey
	}
	return &kinesinv1.KeyResponse{Key: base64.RawURLEncoding.EncodeToString(in.InboundKey)}, nil
}
