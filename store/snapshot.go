package store

import (
	"context"
	"io"
)

// Snapshot is the files of a store as they are at one point in the order of its commits. What was
// acknowledged before it was taken is in them.
type Snapshot interface {
	Files() []SnapshotFile
	// Open opens one of them for reading, from its begin to its size.
	Open(name string) (io.ReadCloser, error)
	// Close gives back the space that the files hold.
	Close() error
}

// SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Name  string
	Bytes int64
	// Immutable files have the same content in each snapshot that this process takes of the store.
	Immutable bool
}

// Snapshot takes a snapshot; nil when the driver takes none. The caller closes it.
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	take := s.d.Capabilities().Snapshot
	if take == nil {
		return nil, nil //nolint:nilnil // there is none, which is no failure
	}
	return take(ctx)
}
