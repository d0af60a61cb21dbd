package store

import (
	"io"
)

// Snapshot holds the files of a store as of one point in the order of its commits. They contain everything
// that was acknowledged before the snapshot was taken.
type Snapshot interface {
	Files() []SnapshotFile
	// Open opens a file for reading, up to its size in Files.
	Open(name string) (io.ReadCloser, error)
	// Close releases the space of the files.
	Close() error
}

// SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Name  string
	Bytes int64
	// Immutable files have the same content in each snapshot that this process takes.
	Immutable bool
}
