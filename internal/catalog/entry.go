package catalog

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows.
const Kind = "lambda"

// Entry is one lambda and the version of its row.
type Entry struct {
	task.Lambda
	Version uint64
	Owner   string // the identity that created it; empty: it is not known
	// Registration is the sum of the Registration that the settings were last taken from; empty when there
	// never was one.
	Registration string
	// Made is the sum of the Registration of which all was made that it declares beside the lambda; empty:
	// none ever declared anything. Crons are those that are there because a registration declares them, and
	// those that were about to be.
	Made  string
	Crons []string
	// Dropping says that a deletion of the lambda drops its tasks. Marked is when the deletion was last
	// written.
	Dropping bool
	Marked   task.Instant

	row     []byte // as it is stored, with fields that a newer version may have written
	learned uint64 // its number among the reads of the store, if this process wrote it; 0: it was read

	// In monotonic time of this process:
	known  time.Duration // since when it knows this version
	marked time.Duration // since when it knows the lambda to be marked as being deleted, without a break
}

// noteRead notes when an entry was read first, and carries over since when it is marked: one write after the
// known version that leaves the lambda marked is no break.
func (e *Entry) noteRead(now time.Duration, before *Entry) {
	e.known, e.marked = now, now
	if before != nil && before.Ref == e.Ref && before.Deleting && e.Deleting && e.Version == before.Version+1 {
		e.marked = before.marked
	}
}

func partitionsOf(l *task.Lambda) int { return len(l.Priorities) * int(l.Shards) }
