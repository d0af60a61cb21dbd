package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Changed is what became of a task of a set: the text of an outcome, such as the state in which it ended, or
// why it was refused.
type Changed struct {
	Outcome string
	Err     error
}

// RowsOf reads tasks by their public ids, for the calls that change them. A row has a zero ID where there is
// no such task.
func (in *Inbound) RowsOf(ctx context.Context, ids []string) ([]Row, error) {
	tokens, at := make([]task.Token, 0, len(ids)), make([]int, 0, len(ids))
	for i, id := range ids {
		if token, err := in.open(ctx, id); err == nil {
			tokens, at = append(tokens, token), append(at, i)
		}
	}
	some, err := in.rows(ctx, tokens)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(ids))
	for k, i := range at {
		rows[i] = some[k]
	}
	return rows, nil
}

// NoSuchTask is why a task that is not there cannot be changed.
func NoSuchTask() error { return api.ErrorOf(noSuchTask()) }

// PublicID returns the id of a task of a set as users know it.
func (in *Inbound) PublicID(row *Row) string { return in.Sealer.SealTask(&row.Task) }

// View returns a task of a set as users see it.
func (in *Inbound) View(row *Row) *kinesinv1.Task { return in.view(&row.Task) }

// Names returns the names of the lambda and the priority of a task of a set.
func (in *Inbound) Names(row *Row) (lambda, priority string) {
	return namesOf(in.Catalog, row.Partition)
}

// ReasonOf returns the name of the reason of a refusal, such as too_late, for counts and people.
func ReasonOf(err error) kinesinv1.Reason { return refusal.Problem(err).GetReason() }
