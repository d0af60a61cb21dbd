package node

import (
	"context"
	"encoding/base64"
	"encoding/binary"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Callback names an attempt whose receiver reports later, as its token does.
type Callback struct {
	Task    task.ID
	Attempt uint32
	Worker  string // that has the attempt, and as which it is reported
}

// callbackSubject is what the seals of tokens are about.
const callbackSubject = "callback"

const callbackHeadBytes = len(task.ID{}) + 4

// SealCallback returns the token with which the receiver of a call may report how the attempt ended.
func (n *Node) SealCallback(ctx context.Context, worker, id string, attempt int) (string, error) {
	t, err := n.keyring.IDs().Open(ctx, id)
	if err != nil {
		return "", err
	}
	body := binary.BigEndian.AppendUint32(t.ID[:], uint32(attempt))
	return base64.RawURLEncoding.EncodeToString(n.keyring.Callbacks().Seal(callbackSubject, body, []byte(worker))), nil
}

// OpenCallback returns what a token names; ErrPermissionDenied of package api refuses one that no server has made.
func (n *Node) OpenCallback(ctx context.Context, token string) (c Callback, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		sealed, err = n.keyring.Callbacks().Open(ctx, callbackSubject, sealed)
	}
	if err != nil || len(sealed) < callbackHeadBytes {
		return c, api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "no server has made this token: want the value of kinesin-callback-token as it came")
	}
	copy(c.Task[:], sealed)
	c.Attempt, c.Worker = binary.BigEndian.Uint32(sealed[len(c.Task):]), string(sealed[callbackHeadBytes:])
	return c, nil
}

// Report records how an attempt ended, on behalf of its worker.
func (n *Node) Report(ctx context.Context, c Callback, r *kinesinv1.Result) error {
	if n.hsc == nil {
		return api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "this server has not the role %s: report to another one", RoleHSC)
	}
	r.Task, r.Attempt = c.Task[:], c.Attempt
	answer, err := n.hsc.SetResults(ctx, &kinesinv1.SetResultsRequest{Worker: c.Worker, Results: []*kinesinv1.Result{r}})
	if err != nil {
		return err
	}
	if p := answer.GetAcks()[0].GetProblem(); p != nil {
		return &api.Error{Reason: p.GetReason(), Text: p.GetText(), RetryAfter: task.Micros(p.GetRetryAfter())}
	}
	n.hsc.Reported(c.Worker)
	return nil
}

// Running reports whether an attempt that goes on is to be cancelled; ErrFenced of package api says that it does
// not go on.
func (n *Node) Running(ctx context.Context, c Callback) (cancel bool, err error) {
	row, err := n.store.Task(ctx, c.Task)
	if err != nil {
		return false, err
	}
	if !row.State.IsRunning() || row.Attempt != c.Attempt || row.Worker != c.Worker {
		return false, api.Errorf(kinesinv1.Reason_REASON_FENCED, "the attempt is over: its task is %s, with attempt %d", row.State, row.Attempt)
	}
	return row.CancelRequested, nil
}
