package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// record is the value of a lambda's row. An absent field means what its zero value means in task.Lambda.
type record struct {
	Ref          uint32        `json:"ref"`
	Mode         string        `json:"mode"`
	Priorities   []string      `json:"priorities"`
	Shards       uint16        `json:"shards"`
	MaxAttempts  uint32        `json:"max_attempts"`
	Timeout      time.Duration `json:"timeout_ns"`
	BackoffMin   time.Duration `json:"backoff_min_ns"`
	BackoffMax   time.Duration `json:"backoff_max_ns"`
	Retention    time.Duration `json:"retention_ns"`
	KeyRetention time.Duration `json:"key_retention_ns,omitempty"`
	PoisonBound  uint32        `json:"poison_bound,omitempty"`
	StartWithin  time.Duration `json:"start_within_ns,omitempty"`
	KeysAtOnce   int32         `json:"limit_key_concurrency,omitempty"`
	KeyRate      float64       `json:"limit_key_rate,omitempty"`
	KeyLimitsSet task.Instant  `json:"limit_key_set_us,omitempty"`
	Weights      []uint16      `json:"priority_weights,omitempty"` // in the order of the priorities
	RetryShare   float64       `json:"retry_share,omitempty"`
	Breaker      *breaker      `json:"breaker,omitempty"`
	Created      task.Instant  `json:"created_us"`
	Owner        string        `json:"owner,omitempty"`
	Deleting     bool          `json:"deleting,omitempty"`

	ShardHistory []shardCount `json:"shard_history,omitempty"` // of a lambda whose shards have grown

	Registration string   `json:"registration,omitempty"`
	Meaning      []string `json:"registration_meaning,omitempty"` // behind the Registration that has it, which an older program changes alone
	Made         string   `json:"registration_made,omitempty"`
	Crons        []string `json:"registered_crons,omitempty"`

	// Of a lambda that is being deleted. DroppingAt is the version of the row that set it: an older program
	// that writes over the row keeps the field and means nothing by it.
	DroppingAt uint64       `json:"dropping_at_version,omitempty"`
	Marked     task.Instant `json:"marked_us,omitempty"`
}

type breaker struct {
	Failures float64       `json:"failures"`
	Window   time.Duration `json:"window_ns"`
}

func breakerRow(b task.Breaker) *breaker {
	if !b.IsSet() {
		return nil
	}
	row := breaker(b)
	return &row
}

func (b *breaker) setting() task.Breaker {
	if b == nil {
		return task.Breaker{}
	}
	return task.Breaker(*b)
}

type shardCount struct {
	Count uint16       `json:"count"`
	From  task.Instant `json:"from_us"`
}

func encode(e *Entry) (store.Control, error) {
	var droppingAt uint64
	if e.Deleting && e.Dropping {
		droppingAt = e.Version
	}
	var meaning []string
	if e.Meaning != e.Registration {
		meaning = []string{e.Registration, e.Meaning}
	}
	value, err := json.Marshal(record{
		Ref: e.Ref, Mode: e.Mode.String(), Priorities: e.Priorities, Shards: e.Shards, MaxAttempts: e.MaxAttempts,
		Timeout: e.Timeout, BackoffMin: e.BackoffMin, BackoffMax: e.BackoffMax, Retention: e.Retention,
		KeyRetention: e.KeyRetention, PoisonBound: e.PoisonBound, StartWithin: e.StartWithin, Weights: e.PriorityWeights,
		KeysAtOnce: e.LimitKeyConcurrency, KeyRate: e.LimitKeyRate, KeyLimitsSet: e.LimitKeySet,
		RetryShare: e.RetryShare, Breaker: breakerRow(e.Breaker),
		Created: e.Created, Owner: e.Owner, Deleting: e.Deleting, Registration: e.Registration, Meaning: meaning, Made: e.Made, Crons: e.Crons, DroppingAt: droppingAt, Marked: e.Marked,
		ShardHistory: convert(e.ShardHistory, func(s task.ShardCount) shardCount { return shardCount(s) }),
	})
	if err == nil && e.row != nil {
		value, err = withUnknown(value, e.row)
	}
	return store.Control{Kind: Kind, Name: e.Name, Version: e.Version, Value: value}, err
}

// withUnknown adds to an encoded record the fields of an older one that this version does not know: what a
// newer version wrote is kept when the row is changed here.
func withUnknown(value, older []byte) ([]byte, error) {
	kept, all := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(older, &kept), json.Unmarshal(value, &all)); err != nil {
		return nil, err
	}
	for field := range reflect.TypeFor[record]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(kept, name)
	}
	if len(kept) == 0 {
		return value, nil
	}
	maps.Copy(all, kept)
	return json.Marshal(all)
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
	mode, err := task.ParseMode(r.Mode)
	if err != nil {
		return nil, err
	}
	l := task.Lambda{
		Name: row.Name, Ref: r.Ref, Mode: mode, Priorities: r.Priorities, Shards: r.Shards, MaxAttempts: r.MaxAttempts,
		Timeout: r.Timeout, BackoffMin: r.BackoffMin, BackoffMax: r.BackoffMax, Retention: r.Retention,
		KeyRetention: r.KeyRetention, PoisonBound: r.PoisonBound, StartWithin: r.StartWithin, PriorityWeights: r.Weights,
		LimitKeyConcurrency: r.KeysAtOnce, LimitKeyRate: r.KeyRate, LimitKeySet: r.KeyLimitsSet,
		RetryShare: r.RetryShare, Breaker: r.Breaker.setting(),
		Created: r.Created, Deleting: r.Deleting,
		ShardHistory: convert(r.ShardHistory, func(s shardCount) task.ShardCount { return task.ShardCount(s) }),
	}
	meaning := r.Registration
	if len(r.Meaning) == 2 && r.Meaning[0] == r.Registration {
		meaning = r.Meaning[1]
	}
	return &Entry{
		Lambda: l, Version: row.Version, Owner: r.Owner, Registration: r.Registration, Meaning: meaning, Made: r.Made, Crons: r.Crons,
		Dropping: r.Deleting && r.DroppingAt == row.Version, Marked: r.Marked, row: row.Value,
	}, l.Validate()
}

func convert[From, To any](all []From, one func(From) To) []To {
	var converted []To
	for _, v := range all {
		converted = append(converted, one(v))
	}
	return converted
}
