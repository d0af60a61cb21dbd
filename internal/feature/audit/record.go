// Package audit keeps a record of who did what: each act of an operator, each change of configuration, and,
// merged, refusals and what programs do often. Records are control rows of kind "audit-YYYYMMDD", kept for a
// set time. Where one process has the store to itself, each record holds the hash of the one before, so that
// one that is changed or removed is noticed.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

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
