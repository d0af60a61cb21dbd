package inbound

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// What the consumer will never take as it is, and what the scheduler must not fire, is set aside: control
// rows with the reason and all that was in the message, so that a person can look at it, retry it after a
// remedy, or delete it.

// Limits of what is set aside. Every process counts for itself, and again every asideCountEvery, so that
// several may be some beyond them together.
const (
	RejectedMaxDefault      = 10_000
	RejectedBytesMaxDefault = 256 << 20
	// RejectedNamesMax is how many one call retries or deletes at most.
	RejectedNamesMax = 100

	asideKind       = "rejected"      // one row for each
	asideBodyKind   = "rejected-body" // what is kept, in parts: NAME/0, NAME/1 …
	asidePartBytes  = 200 << 10       // below store.ControlBytesMax, and below what a row of DynamoDB takes
	asideTextMax    = 500
	asideCountEvery = time.Minute
)

// Why something is set aside.
const (
	ReasonUndecodable   = "undecodable"
	ReasonNewerVersion  = "newer_version"
	ReasonNotOurs       = "not_ours"
	ReasonUnknownLambda = "unknown_lambda"
	ReasonInvalid       = "invalid"
	ReasonTooLarge      = "too_large"
	ReasonStale         = "stale"
)

// Reasons lists them.
func Reasons() []string {
	return []string{
		ReasonUndecodable, ReasonNewerVersion, ReasonNotOurs, ReasonUnknownLambda, ReasonInvalid, ReasonTooLarge, ReasonStale,
	}
}

var errAsideFull = errors.New("no room to set more aside: retry or delete what is there with `kinesin inbound rejected`")

// asideRow is the value of a row of asideKind.
type asideRow struct {
	Reason   string       `json:"reason"`
	Text     string       `json:"text"`
	At       task.Instant `json:"at"`
	Accepted task.Instant `json:"accepted,omitempty"`
	ID       string       `json:"id,omitempty"`
	Lambda   string       `json:"lambda,omitempty"`
	Bytes    int          `json:"bytes"`
	Parts    int          `json:"parts"`
	Retries  uint32       `json:"retries,omitempty"`
	Whole    bool         `json:"whole,omitempty"` // a message as it came; otherwise an encoded BufferedTask

	name    string // of its control row, and its version
	version uint64
	body    []byte
}

// brokenMessage is a message that could not be opened, to be set aside.
func brokenMessage(body string, err error) *asideRow {
	reason := ReasonUndecodable
	switch {
	case errors.Is(err, envelope.ErrVersion):
		reason = ReasonNewerVersion
	case errors.Is(err, envelope.ErrSeal):
		reason = ReasonNotOurs
	}
	return &asideRow{Reason: reason, Text: shortText(err), Whole: true, body: []byte(body)}
}

// refusedTask is a task of a message, to be set aside.
func refusedTask(t *kinesinv1.BufferedTask, f fate) *asideRow {
	row := &asideRow{Reason: f.reason, Text: shortText(f.err), Accepted: task.Instant(t.AcceptedMicros)}
	row.ID, row.Lambda = plainText(t.Id), plainText(t.Item.Lambda)
	row.body, _ = t.MarshalVT() // cannot fail: it was unmarshalled
	return row
}

func shortText(err error) string { return plainText(err.Error()) }

// plainText is what others sent, made fit for a terminal.
func plainText(text string) string {
	if len(text) > asideTextMax {
		text = text[:asideTextMax]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, text)
}

// nameOf is made of the contents, so that a message that comes again is set aside once.
func nameOf(r *asideRow) string {
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

// setAside stores a row, so that the message need not come again; left says that it must. The error is
// trouble with the store.
func (c *consumer) setAside(ctx context.Context, d *delivery, row *asideRow, why error) (left bool, err error) {
	err = c.aside.put(ctx, row)
	switch {
	case errors.Is(err, errAsideFull):
		c.leave(d, LeftFull, fullRetryAfter)
		return true, nil
	case err != nil:
		c.leave(d, LeftStore, c.retryAfter(d.tries))
		return true, err
	}
	if c.Hooks.SetAside != nil {
		c.Hooks.SetAside(ctx, row.Reason, why)
	}
	return false, nil
}

// aside is all that is set aside.
type aside struct {
	*Inbound

	mu    sync.Mutex // guards all below
	known task.Instant
	count int
	bytes int64
}

// put stores a row and what is kept with it. One of that name that is there already is the same.
func (a *aside) put(ctx context.Context, row *asideRow) error {
	_, err := a.putAll(ctx, []*asideRow{row})
	return err
}

// putAll puts rows until there is no room for one more, and says how many.
func (a *aside) putAll(ctx context.Context, rows []*asideRow) (n int, err error) {
	var bodies, heads []store.Op
	var full error
	for _, row := range rows {
		if full = a.reserve(ctx, len(row.body)); full != nil {
			break
		}
		row.At, row.Bytes = a.Clock.Now(), len(row.body)
		name := nameOf(row)
		for body := row.body; len(body) > 0; row.Parts++ {
			n := min(len(body), asidePartBytes)
			bodies = append(bodies, store.Op{Kind: store.PutControl, Control: store.Control{Kind: asideBodyKind, Name: partName(name, row.Parts), Version: 1, Value: body[:n]}})
			body = body[n:]
		}
		value, err := json.Marshal(row)
		if err != nil {
			return 0, fmt.Errorf("encode what is set aside: %w", err)
		}
		heads = append(heads, store.Op{Kind: store.PutControl, Control: store.Control{Kind: asideKind, Name: name, Version: 1, Value: value}})
	}
	if err := a.applyAll(ctx, bodies); err != nil {
		return 0, err
	}
	if err := a.applyAll(ctx, heads); err != nil {
		return 0, err
	}
	return len(heads), full
}

func partName(name string, part int) string { return fmt.Sprintf("%s/%d", name, part) }

// applyAll makes writes of which each may have been made before.
func (a *aside) applyAll(ctx context.Context, ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	outcomes, err := a.Store.Apply(ctx, ops)
	for k := range ops {
		if outcome := outcomeOf(outcomes, k, err); outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			return fmt.Errorf("%s %q: %w", ops[k].Control.Kind, ops[k].Control.Name, outcome)
		}
	}
	return nil
}

// reserve makes room for one more.
func (a *aside) reserve(ctx context.Context, size int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := clock.Steady(a.Clock); a.known.IsZero() || now >= a.known.Add(asideCountEvery) {
		rows, err := a.all(ctx)
		if err != nil {
			return err
		}
		a.known, a.count, a.bytes = now, len(rows), 0
		for i := range rows {
			a.bytes += int64(rows[i].Bytes)
		}
	}
	if a.count >= a.Buffering.RejectedMax || a.bytes+int64(size) > a.Buffering.RejectedBytesMax {
		return errAsideFull
	}
	a.count++
	a.bytes += int64(size)
	return nil
}

// all reads every row, in order of the names, without what is kept with them.
func (a *aside) all(ctx context.Context) ([]asideRow, error) {
	controls, err := a.Store.Controls(ctx, asideKind)
	if err != nil {
		return nil, fmt.Errorf("list what is set aside: %w", err)
	}
	rows := make([]asideRow, len(controls))
	for i, c := range controls {
		rows[i] = rowOf(c)
	}
	return rows, nil
}

// rowOf reads a row; one that it cannot read is shown as such, so that it can be deleted.
func rowOf(c store.Control) asideRow {
	row := asideRow{}
	if err := json.Unmarshal(c.Value, &row); err != nil {
		row = asideRow{Reason: ReasonUndecodable, Text: "its row cannot be read: " + err.Error(), Whole: true}
	}
	row.name, row.version = c.Name, c.Version
	return row
}

// read finds a row with what is kept with it.
func (a *aside) read(ctx context.Context, name string) (asideRow, error) {
	if name == "" {
		return asideRow{}, errNoSuchRejected
	}
	control, err := a.Store.Control(ctx, asideKind, name)
	if errors.Is(err, store.ErrNotFound) {
		return asideRow{}, errNoSuchRejected
	}
	if err != nil {
		return asideRow{}, err
	}
	row := rowOf(control)
	for n := range row.Parts {
		part, err := a.Store.Control(ctx, asideBodyKind, partName(name, n))
		if errors.Is(err, store.ErrNotFound) {
			row.body = nil
			break // it is being deleted
		}
		if err != nil {
			return row, err
		}
		row.body = append(row.body, part.Value...)
	}
	return row, nil
}

// forget deletes a row. What is kept with it goes first, so that nothing is left that no row names.
func (a *aside) forget(ctx context.Context, row *asideRow) error {
	var ops []store.Op
	for n := range row.Parts {
		ops = append(ops, store.Op{Kind: store.DeleteControl, Control: store.Control{Kind: asideBodyKind, Name: partName(row.name, n), Version: 1}})
	}
	if err := a.applyAll(ctx, ops); err != nil {
		return err
	}
	err := a.applyAll(ctx, []store.Op{{Kind: store.DeleteControl, Control: store.Control{Kind: asideKind, Name: row.name, Version: row.version}}})
	if err == nil {
		a.mu.Lock()
		a.count, a.bytes = max(0, a.count-1), max(0, a.bytes-int64(row.Bytes))
		a.mu.Unlock()
	}
	return err
}

// retried notes that a retry failed, and why; that it cannot be noted is no harm.
func (a *aside) retried(ctx context.Context, row *asideRow, f fate) {
	next := *row
	next.Retries++
	if f.verdict == rejected {
		next.Reason, next.Text = f.reason, shortText(f.err)
	}
	if value, err := json.Marshal(next); err == nil {
		_ = a.applyAll(ctx, []store.Op{{Kind: store.PutControl, Control: store.Control{Kind: asideKind, Name: row.name, Version: row.version + 1, Value: value}}})
	}
}

// forcedTries stands for a person's retry: whatever waits and looks again has done so long ago.
const forcedTries = math.MaxInt32
