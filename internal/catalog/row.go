package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

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
