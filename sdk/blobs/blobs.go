// Package blobs keeps large payloads outside of Kinesin, in a directory that programs share: see
// sdk.WithBlobs. Package s3blobs keeps them in a bucket. A name is a path of parts with slashes between them.
// Nothing here knows tasks.
package blobs

import (
	"errors"
	"time"
)

// Errors of stores of blobs.
var (
	// ErrNotFound means that there is no blob with a name.
	ErrNotFound = errors.New("no such blob")
	// ErrTooLarge means that a blob is larger than the caller takes.
	ErrTooLarge = errors.New("blob too large")
)

// TempPrefix begins the names of files that a Put writes. One that is old was left by a crash.
const TempPrefix = ".tmp/"

// Entry is a blob in a list.
type Entry struct {
	Name  string
	Bytes int64
	Put   time.Time // by the clock of the store
}
