package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	rejectedKind = "rejected"      // one control row for each
	bodyKind     = "rejected-body" // its body, in parts: NAME/0, NAME/1 …
	partBytes    = 200 << 10       // below store.ControlBytesMax, and below what a row of DynamoDB takes
	textMax      = 500
)

// rejectedRow is the value of a control row of rejectedKind.
type rejectedRow struct {
	Reason   string       `json:"reason"`
	Text     string       `json:"text"`
	At       task.Instant `json:"at"`
	Accepted task.Instant `json:"accepted,omitempty"`
	ID       string       `json:"id,omitempty"`
	Lambda   string       `json:"lambda,omitempty"`
	Sender   string       `json:"sender,omitempty"` // who issued its id with an inbound key of its own
	Bytes    int          `json:"bytes"`
	Parts    int          `json:"parts"`
	Retries  uint32       `json:"retries,omitempty"`
	Whole    bool         `json:"whole,omitempty"` // the body is a message as it came; otherwise an encoded BufferedTask

	name    string // of its control row, and its version
	version uint64
	body    []byte
}

// brokenMessage returns the row of a message that could not be opened.
func brokenMessage(body string, err error) *rejectedRow {
	reason := ReasonUndecodable
	if errors.Is(err, envelope.ErrVersion) {
		reason = ReasonNewerVersion
	}
	return &rejectedRow{Reason: reason, Text: plainText(err.Error()), Whole: true, body: []byte(body)}
}

// rejectedTask returns the row of a task of a message.
func rejectedTask(t *kinesinv1.BufferedTask, r result) *rejectedRow {
	row := &rejectedRow{Reason: r.reason, Text: plainText(r.err.Error()), Accepted: task.Instant(t.Accepted)}
	row.ID, row.Lambda = plainText(t.Id), plainText(t.Item.Lambda)
	row.body, _ = t.MarshalVT() // cannot fail: it was unmarshalled
	return row
}

// plainText makes a text that others sent fit for a terminal.
func plainText(text string) string {
	if len(text) > textMax {
		text = text[:textMax]
	}
	return api.Visible(strings.ToValidUTF8(text, "\uFFFD"))
}

// nameOf derives the name of a row from its body, so that a message that comes again is kept once.
func nameOf(r *rejectedRow) string {
	h := sha256.New()
	if r.Whole {
		h.Write([]byte{1})
	}
	h.Write(r.body)
	if len(r.body) == 0 {
		h.Write([]byte(r.ID))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func partName(name string, part int) string { return fmt.Sprintf("%s/%d", name, part) }

func control(op store.OpKind, kind, name string, version uint64, value []byte) store.Op {
	return store.Op{Kind: op, Control: store.Control{Kind: kind, Name: name, Version: version, Value: value}}
}

// rowOf decodes a control row; one that it cannot decode is shown as such, so that it can be deleted.
func rowOf(c store.Control) rejectedRow {
	row := rejectedRow{}
	if err := json.Unmarshal(c.Value, &row); err != nil {
		row = rejectedRow{Reason: ReasonUndecodable, Text: "its row cannot be read: " + err.Error(), Whole: true}
	}
	row.name, row.version = c.Name, c.Version
	return row
}
