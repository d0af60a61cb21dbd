package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// MemberID returns the id of the task that is a member of a group, also of one that was forgotten.
func MemberID(ctx context.Context, s Store, group task.ID, index uint32) (task.ID, error) {
	g, err := NewBook(s, nil).Find(ctx, group.String()) // a read needs no clock
	switch {
	case errors.Is(err, store.ErrNotFound):
		return task.MemberID(group, index, 0), nil
	case err != nil:
		return task.ID{}, err
	}
	return task.MemberID(group, index, g.TryAt(index)), nil
}

// EachFollowUp calls each with every task that may follow after a group, or may have followed.
func EachFollowUp(ctx context.Context, s Store, each func(item []byte) error) error {
	rows, err := s.Controls(ctx, KindSpec)
	if err != nil {
		return fmt.Errorf("read what follows after groups: %w", err)
	}
	for _, row := range rows {
		spec := &Spec{}
		if err := json.Unmarshal(row.Value, spec); err != nil {
			return fmt.Errorf("%w: what follows after group %s: %w", store.ErrCorrupt, row.Name, err)
		}
		for _, item := range spec.All() {
			if err := each(item.Item); err != nil {
				return err
			}
		}
	}
	return nil
}
