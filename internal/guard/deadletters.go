package guard

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

// Actions on dead letters, as they are in the audit log.
const (
	actReadDeadLetters    = "deadletter.read"
	actPayloadDeadLetters = "deadletter.read_payload"
)

type deadLetters service[kinesinv1connect.DeadLetterServiceHandler]

// DeadLetters guards a DeadLetterService. A message does not tell its collection, so its verbs are needed on
// all of the lambda.
func (g *Guard) DeadLetters(next kinesinv1connect.DeadLetterServiceHandler) kinesinv1connect.DeadLetterServiceHandler {
	return deadLetters{Guard: g, next: next}
}

// ListDeadLetters needs read on the lambda, and read-payload for payloads, which is recorded.
func (s deadLetters) ListDeadLetters(ctx context.Context, r *kinesinv1.ListDeadLettersRequest) (*kinesinv1.ListDeadLettersResponse, error) {
	if err := s.allow(ctx, actReadDeadLetters, access.Read, r.GetLambda()); err != nil {
		return nil, err
	}
	if !r.GetPayload() {
		return s.next.ListDeadLetters(ctx, r)
	}
	if err := s.allow(ctx, actPayloadDeadLetters, access.ReadPayload, r.GetLambda()); err != nil {
		return nil, err
	}
	response, err := s.next.ListDeadLetters(ctx, r)
	if n := len(response.GetMessages()); n > 0 {
		s.noteOften(access.From(ctx), audit.Record{Action: actPayloadDeadLetters, Target: r.GetLambda(), Outcome: audit.OK, Count: uint32(n)})
	}
	return response, err
}

func (s deadLetters) CountDeadLetters(ctx context.Context, r *kinesinv1.CountDeadLettersRequest) (*kinesinv1.CountDeadLettersResponse, error) {
	return invoke(ctx, s.allow(ctx, actReadDeadLetters, access.Read, r.GetLambda()), s.next.CountDeadLetters, r)
}

// ChangeDeadLetters needs operate on the lambda. Each call is recorded that began a change, changed something
// or failed.
func (s deadLetters) ChangeDeadLetters(ctx context.Context, r *kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error) {
	action := "deadletter.change" // there is no such change
	switch r.GetAction() {
	case "redrive", "delete":
		action = "deadletter." + r.GetAction()
	}
	a := s.onLambda(ctx, action, access.Operate, r.GetLambda())
	response, err := invoke(ctx, a.refused, s.next.ChangeDeadLetters, r)
	if n := count(response.GetOutcomes()); a.refused == nil && (err != nil || n > 0 || r.GetBegan() == 0) {
		a.Count, a.After = uint32(n), s.settings(response)
		s.note(ctx, a.Record, err)
	}
	return response, err
}

func count(outcomes map[string]int64) (n int64) {
	for _, k := range outcomes {
		n += k
	}
	return n
}
