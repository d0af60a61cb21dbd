package store

import (
	"context"
	"fmt"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Control reads one control row; ErrNotFound when there is none.
func (s *Store) Control(ctx context.Context, kind, name string) (row Control, err error) {
	defer s.observe(ctx, "control", 1, clock.Steady(s.cfg.Clock), &err)
	if err := checkControlKey(kind, name); err != nil {
		return Control{}, err
	}
	rows, err := s.d.Controls(ctx, kind, name)
	if err != nil {
		return Control{}, err
	}
	if len(rows) == 0 {
		return Control{}, fmt.Errorf("%s %q: %w", kind, name, ErrNotFound)
	}
	return rows[0], nil
}

// Controls reads all control rows of a kind, in order of their names.
func (s *Store) Controls(ctx context.Context, kind string) (rows []Control, err error) {
	defer s.observe(ctx, "controls", 1, clock.Steady(s.cfg.Clock), &err)
	if err := checkControlKey(kind, "any"); err != nil {
		return nil, err
	}
	return s.d.Controls(ctx, kind, "")
}

// ControlsOmitted is Controls that leaves out rows it cannot read, and returns the reason for each by name:
// ErrVersion or ErrCorrupt.
func (s *Store) ControlsOmitted(ctx context.Context, kind string) (rows []Control, omitted map[string]error, err error) {
	read := s.can.ControlsOmitted
	if read == nil { // the driver leaves out none
		rows, err = s.Controls(ctx, kind)
		return rows, nil, err
	}
	defer s.observe(ctx, "controls", 1, clock.Steady(s.cfg.Clock), &err)
	if err := checkControlKey(kind, "any"); err != nil {
		return nil, nil, err
	}
	return read(ctx, kind)
}

// PutControl stores a control row: Version 1 adds it, Version n+1 replaces version n.
func (s *Store) PutControl(ctx context.Context, c Control) error {
	return s.applyOne(ctx, Op{Kind: PutControl, Control: c})
}

// DeleteControl removes a control row that is still at c.Version.
func (s *Store) DeleteControl(ctx context.Context, c Control) error {
	return s.applyOne(ctx, Op{Kind: DeleteControl, Control: c})
}

func (s *Store) applyOne(ctx context.Context, op Op) error {
	results, err := s.Apply(ctx, []Op{op})
	if err != nil {
		return fmt.Errorf("%w: %w", results[0], err)
	}
	return results[0]
}
