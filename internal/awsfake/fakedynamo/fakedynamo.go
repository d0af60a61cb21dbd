// Package fakedynamo is a fake of DynamoDB for tests and simulations: it has the methods of the client of
// aws-sdk-go-v2 that store/dynamo calls, keeps everything in memory, and enforces what emulators do not:
// pages of 1 MB counted before filters, 16 MB and unprocessed keys in batches, 1,000 write and 3,000 read
// units a second for each partition key of a table or an index, replicas and indexes that lag, rows that TTL
// deletes late, and consumed capacity by the real rules, in batches of statements too.
//
// It models the statements, expressions and fields that store/dynamo sends, values that are texts, bytes or
// whole numbers that are not negative, and nothing else; awsfake.ErrNotModelled refuses the rest. A partition
// key has no burst capacity beyond a second, and hot partitions are not split. Tables and indexes are ready
// as soon as they are created.
package fakedynamo

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Config configures a DB. The zero value has the real limits, no lag, and the machine's clock.
type Config struct {
	Clock clock.Clock
	Seed  uint64
	// BaseLag and IndexLag bound the lag of eventually consistent reads and of indexes.
	BaseLag, IndexLag time.Duration
	// TTLLag bounds how long a row outlives its TTL attribute. AWS says typically within a few days.
	TTLLag time.Duration
	// WriteUnits and ReadUnits are the units per second of one partition key, 1,000 and 3,000 unless set;
	// negative: no limit.
	WriteUnits, ReadUnits float64
	// Attempts is how often the client's retryer tries; see awsfake.Service.
	Attempts int
}

// DB is one region's DynamoDB. All methods are safe for concurrent use.
type DB struct {
	// Faults decides which calls fail.
	Faults *awsfake.Faults

	cfg     Config
	service *awsfake.Service

	mu     sync.Mutex // guards all below; never held while waiting
	tables map[string]*table
	spent  Spent
}

// Spent is the capacity that all calls have consumed, in units.
type Spent struct{ Read, Write float64 }

// New returns an empty DynamoDB.
func New(cfg Config) *DB {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real()
	}
	cfg.WriteUnits = orDefault(cfg.WriteUnits, writeUnitsMax)
	cfg.ReadUnits = orDefault(cfg.ReadUnits, readUnitsMax)
	f := awsfake.NewFaults(cfg.Seed)
	return &DB{
		Faults: f, cfg: cfg, tables: map[string]*table{},
		service: &awsfake.Service{ID: "DynamoDB", Clock: cfg.Clock, Faults: f, Attempts: cfg.Attempts, Throttle: tooFast, Broken: broken, Denied: denied},
	}
}

func orDefault(v, standard float64) float64 {
	if v == 0 {
		return standard
	}
	return v
}

// Spent returns the capacity that all calls have consumed since New.
func (db *DB) Spent() Spent {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.spent
}

// do runs one call under the lock.
func do[Out any](ctx context.Context, db *DB, call string, options []func(*dynamodb.Options), run func(now task.Instant) (*Out, error)) (*Out, error) {
	return awsfake.Do(ctx, db.service, call, retryer(options), func() (*Out, error) {
		db.mu.Lock()
		defer db.mu.Unlock()
		now := db.cfg.Clock.Now()
		for _, t := range db.tables {
			t.expire(now)
		}
		return run(now)
	})
}

// retryer returns the retryer that the options of a call set; nil for none.
func retryer(options []func(*dynamodb.Options)) aws.Retryer {
	var o dynamodb.Options
	for _, set := range options {
		set(&o)
	}
	return o.Retryer
}

func (db *DB) table(name *string) (*table, error) {
	if name == nil {
		return nil, invalid("1 validation error detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null")
	}
	t := db.tables[*name]
	if t == nil {
		return nil, noTable()
	}
	return t, nil
}
