package chain

import (
	"context"
	"fmt"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Payloads reads payload rows.
type Payloads interface {
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	PayloadInlineMax() int
	PayloadsExpire() bool
}

// encodedOf returns what follows a task, encoded.
func encodedOf(ctx context.Context, s Payloads, t *task.Task) ([]byte, error) {
	switch {
	case !t.HasFollowups():
		return nil, nil
	case !t.Chain.FollowApart():
		return t.Chain.Follow, nil
	}
	b, err := s.Payload(ctx, t.Chain.FollowID)
	if err != nil {
		return nil, fmt.Errorf("read what follows task %s: %w", t.ID, err)
	}
	return b, nil
}

func read(ctx context.Context, s Payloads, t *task.Task) (*kinesinv1.Followups, error) {
	b, err := encodedOf(ctx, s, t)
	if err != nil {
		return nil, err
	}
	return decode(b)
}

// Read returns what follows a task.
func (k *Keeper) Read(ctx context.Context, t *task.Task) (*kinesinv1.Followups, error) {
	return read(ctx, k.Store, t)
}
