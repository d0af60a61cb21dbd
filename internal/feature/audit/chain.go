// Package audit keeps a record of who did what: each act of an operator, each change of configuration, and,
// merged, refusals and what programs do often. Records are control rows of kind "audit-YYYYMMDD", kept for a
// set time. Where one process has the store to itself, each record holds the hash of the one before, so that
// one that is changed or removed is noticed.
package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// The head row says where the chain ends, so that records that are missing at its end are noticed. It is
// written after the records: after a crash the chain may go on behind it.

type headObject struct {
	Seq  uint64       `json:"seq"`
	Hash []byte       `json:"hash"`
	At   task.Instant `json:"at_us"` // of the row of the record
}

// chain gives records their places in the chain. It changes nothing else.
func (l *Log) chain(ctx context.Context, records []Record) error {
	if l.headRow.Version == 0 {
		if err := l.readHead(ctx); err != nil {
			return err
		}
	}
	before := l.head
	for i := range records {
		r := &records[i]
		r.Seq = before.Seq + 1
		hash, err := r.link(before.Hash)
		if err != nil {
			return err
		}
		r.Hash = hash
		before = *r
	}
	return nil
}

// readHead finds the end of the chain: where the head row says, or behind it.
func (l *Log) readHead(ctx context.Context) error {
	row, err := l.Rows.Control(ctx, headKind, headName)
	if errors.Is(err, store.ErrNotFound) {
		row, err = store.Control{Kind: headKind, Name: headName}, nil
	}
	if err != nil {
		return fmt.Errorf("read the head of the audit chain: %w", err)
	}
	var head headObject
	if row.Version > 0 {
		if err := json.Unmarshal(row.Value, &head); err != nil {
			return fmt.Errorf("%w: head of the audit chain: %w", store.ErrCorrupt, err)
		}
	}
	l.head, l.rowAt = Record{Seq: head.Seq, Hash: head.Hash}, max(l.rowAt, head.At)
	begin := head.At
	if row.Version == 0 {
		begin = l.oldest()
	}
	for r, err := range l.between(ctx, begin, max(begin, l.Clock.Now()).Add(24*time.Hour)) {
		if err != nil && !errors.Is(err, store.ErrCorrupt) { // Verify tells of what is damaged
			return err
		}
		if r.Seq > l.head.Seq {
			l.head, l.rowAt = r, max(l.rowAt, r.At)
		}
	}
	l.headRow = row
	l.moveHead(ctx)
	return nil
}

// moveHead writes the head row. If that fails the next write does it.
func (l *Log) moveHead(ctx context.Context) {
	value, err := json.Marshal(headObject{l.head.Seq, l.head.Hash, l.rowAt})
	if err != nil {
		return
	}
	row := store.Control{Kind: headKind, Name: headName, Version: l.headRow.Version + 1, Value: value}
	switch err := l.Rows.PutControl(ctx, row); {
	case err == nil:
		l.headRow = row
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrConflict):
		if now, readErr := l.Rows.Control(ctx, headKind, headName); readErr == nil {
			l.headRow = now
		}
	}
}

// Verification is the outcome of Verify.
type Verification struct {
	Records     int64
	First, Last uint64 // places in the chain
	Head        []byte // hash of the last record
	Problem     string // the first place where the chain is broken; empty: none
}

// ErrNotChained says that the records of this store are not linked.
var ErrNotChained = errors.New("the audit records of a store that several processes share are not linked")

// Verify reads all records that are kept and checks that each follows the one before, up to the head. It
// cannot notice that the oldest records are missing, because those are deleted when their time is over.
func (l *Log) Verify(ctx context.Context) (Verification, error) {
	if !l.Chained {
		return Verification{}, ErrNotChained
	}
	l.Flush(ctx)
	head, until, err := l.end(ctx)
	if err != nil {
		return Verification{}, err
	}
	var v Verification
	for r, err := range l.between(ctx, l.oldest(), until) {
		if err == nil && r.Seq > head.Seq && r.Seq == v.Last+1 { // written since
			break
		}
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return v, err
		}
		v.Records++
		if v.Problem = v.next(&r, err); v.Problem != "" {
			return v, nil
		}
	}
	if v.Last != head.Seq || !bytes.Equal(v.Head, head.Hash) {
		v.Problem = fmt.Sprintf("the chain ends with record %d, and %d was written last", v.Last, head.Seq)
	}
	return v, nil
}

// end returns the last record that was written, and the day of its row.
func (l *Log) end(ctx context.Context) (head Record, at task.Instant, err error) {
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return head, 0, context.Cause(ctx)
	}
	if l.headRow.Version == 0 {
		if err := l.readHead(ctx); err != nil {
			return head, 0, err
		}
	}
	return l.head, max(l.Clock.Now(), l.rowAt), nil
}

// next checks that a record follows.
func (v *Verification) next(r *Record, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("after record %d: %v", v.Last, err)
	case v.Last != 0 && r.Seq != v.Last+1:
		return fmt.Sprintf("record %d is followed by record %d", v.Last, r.Seq)
	}
	if v.Last == 0 && r.Seq != 1 { // the records before it are no longer kept
		v.First, v.Last, v.Head = r.Seq, r.Seq, slices.Clone(r.Hash)
		return ""
	}
	want, err := r.link(v.Head)
	if err != nil || !bytes.Equal(want, r.Hash) {
		return fmt.Sprintf("record %d is not the one that was written: %s by %s at %s", r.Seq, r.Action, r.Identity, r.At.Time().UTC().Format(time.RFC3339))
	}
	if v.First == 0 {
		v.First = r.Seq
	}
	v.Last, v.Head = r.Seq, slices.Clone(r.Hash)
	return ""
}

// Outcomes of what a record is about. A failure has its reason after Failed.
const (
	OK              = "ok"
	Denied          = "denied"
	Unauthenticated = "unauthenticated"
	Failed          = "failed: "
)

// Record says who did what.
type Record struct {
	At       task.Instant
	Identity string
	From     string // network address
	Action   string // such as lambda.update
	Target   string // the name of what was acted on
	Outcome  string
	Before   string // of a change, in JSON; empty: does not apply
	After    string
	Count    uint32 // how many such acts the record stands for

	Seq  uint64 // in the chain, from 1; 0: not chained
	Hash []byte // SHA-256 of the record before and this one
}

// object is the stored form of a record, and the one that is printed. Its field names and their order are
// part of the chain.
type object struct {
	At       string          `json:"at"`
	Identity string          `json:"identity"`
	From     string          `json:"from"`
	Action   string          `json:"action"`
	Target   string          `json:"target"`
	Outcome  string          `json:"outcome"`
	Before   json.RawMessage `json:"before,omitempty"`
	After    json.RawMessage `json:"after,omitempty"`
	Count    uint32          `json:"count"`
	Seq      uint64          `json:"seq,omitempty"`
	Hash     string          `json:"hash,omitempty"`
}

const timeForm = "2006-01-02T15:04:05.000000Z"

// MarshalJSON returns the record as one object.
func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal(object{
		At: r.At.Time().UTC().Format(timeForm), Identity: r.Identity, From: r.From, Action: r.Action, Target: r.Target, Outcome: r.Outcome,
		Before: raw(r.Before), After: raw(r.After), Count: r.Count, Seq: r.Seq, Hash: hex.EncodeToString(r.Hash),
	})
}

// MarshalText returns what MarshalJSON does, so that a log in text has it too.
func (r Record) MarshalText() ([]byte, error) { return r.MarshalJSON() }

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Record) UnmarshalJSON(text []byte) error {
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	at, err := time.Parse(timeForm, o.At)
	if err != nil {
		return err
	}
	hash, err := hex.DecodeString(o.Hash)
	if err != nil {
		return err
	}
	if len(hash) == 0 {
		hash = nil
	}
	*r = Record{
		At: task.InstantOf(at), Identity: o.Identity, From: o.From, Action: o.Action, Target: o.Target, Outcome: o.Outcome,
		Before: string(o.Before), After: string(o.After), Count: o.Count, Seq: o.Seq, Hash: hash,
	}
	return nil
}

// link returns the hash of a record in the chain after the one with the hash before.
func (r Record) link(before []byte) ([]byte, error) {
	r.Hash = nil
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(before)
	h.Write(text)
	return h.Sum(nil), nil
}
