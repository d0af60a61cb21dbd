package store

import (
	"context"

	"github.com/kinesin-io/kinesin/task"
)

// WakeKey is the key of a wake-up row. To read a row takes all of it; a scan is of one partition and needs no
// more than the place there (see Driver.ScanSchedule).
type WakeKey struct {
	Partition task.Partition
	Wake      task.Instant
	ID        task.ID
}

// KeyOf returns the key of the wake-up row that a task row names, or of a wake-up row itself.
func KeyOf(t *task.Task) WakeKey {
	return WakeKey{Partition: t.Partition, Wake: t.WakeRow.At, ID: t.ID}
}

// Control is a row of settings or leases, changed by compare-and-set on Version.
type Control struct {
	Kind    string
	Name    string
	Version uint64 // starts at 1
	Value   []byte
}

// ControlRows are the control rows of a store, for those who keep something in them.
type ControlRows interface {
	Control(ctx context.Context, kind, name string) (Control, error)
	Controls(ctx context.Context, kind string) ([]Control, error)
	PutControl(ctx context.Context, c Control) error
	DeleteControl(ctx context.Context, c Control) error
}
