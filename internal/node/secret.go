package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	secretKind = "secret"
	secretName = "public-ids"
	secretID   = 1 // its number in the seals of messages, so that there can be another one later
)

// secretOf reads the secret that seals public ids, or creates it at the first start: of several processes one
// wins the conditional write, and all use its secret.
func secretOf(ctx context.Context, s *store.Store) ([]byte, error) {
	row, err := s.Control(ctx, secretKind, secretName)
	if errors.Is(err, store.ErrNotFound) {
		fresh := make([]byte, task.TokenKeyBytes)
		_, _ = rand.Read(fresh) // never fails: crypto/rand
		row = store.Control{Kind: secretKind, Name: secretName, Version: 1, Value: fresh}
		if err = s.PutControl(ctx, row); errors.Is(err, store.ErrConflict) {
			row, err = s.Control(ctx, secretKind, secretName)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the secret of public ids: %w", err)
	}
	if len(row.Value) != task.TokenKeyBytes {
		return nil, fmt.Errorf("%w: secret of public ids has %d bytes, want %d", store.ErrCorrupt, len(row.Value), task.TokenKeyBytes)
	}
	return row.Value, nil
}
