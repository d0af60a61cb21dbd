package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
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

// record is the value of a lambda's row. An absent field means what its zero value means in task.Lambda.
type record struct {
	task.Lambda

	Owner string `json:"owner,omitempty"`

	Registration string   `json:"registration,omitempty"`
	Made         string   `json:"registration_made,omitempty"`
	Crons        []string `json:"registered_crons,omitempty"`

	// Of a lambda that is being deleted.
	Dropping bool         `json:"dropping,omitempty"`
	Marked   task.Instant `json:"marked_us,omitempty"`
}

func encode(e *Entry) (store.Control, error) {
	r := record{Lambda: e.Lambda, Owner: e.Owner, Registration: e.Registration, Made: e.Made, Crons: e.Crons, Dropping: e.Deleting && e.Dropping, Marked: e.Marked}
	value, err := json.Marshal(r)
	if err == nil && e.row != nil {
		value, err = control.WithUnknown[record](value, e.row)
	}
	return store.Control{Kind: Kind, Name: e.Name, Version: e.Version, Value: value}, err
}

// decodeUnless decodes a row unless it is known.
func decodeUnless(known *Entry, row store.Control) (*Entry, error) {
	if known != nil && known.Version == row.Version && bytes.Equal(known.row, row.Value) {
		return known, nil
	}
	return decode(row)
}

func decode(row store.Control) (*Entry, error) {
	var r record
	if err := json.Unmarshal(row.Value, &r); err != nil {
		return nil, fmt.Errorf("%w: lambda %s: %w", store.ErrCorrupt, row.Name, err)
	}
	r.Name = row.Name
	return &Entry{
		Lambda: r.Lambda, Version: row.Version, Owner: r.Owner, Registration: r.Registration, Made: r.Made, Crons: r.Crons,
		Dropping: r.Deleting && r.Dropping, Marked: r.Marked, row: row.Value,
	}, r.Validate()
}
