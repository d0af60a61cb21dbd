package dynamo

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// API is the part of DynamoDB that a Driver calls; *dynamodb.Client implements it.
type API interface {
	BatchExecuteStatement(context.Context, *dynamodb.BatchExecuteStatementInput, ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Config configures a Driver. Only Prefix is required; the zero value of every other field means its default.
type Config struct {
	Prefix string // of the table names; see CheckPrefix
	// RequestTimeout bounds one request. A write that takes longer has an unknown outcome. 3 s
	RequestTimeout time.Duration
	// RequestsMax bounds the write requests in flight. Half of them may be less than full. 8, because so many
	// keep two cores busy at 10 ms each and do not flood a slow service.
	RequestsMax int
	// Single sends every write in a request of its own, so that tests can measure each.
	Single   bool
	Clock    clock.Clock  // the machine's
	Logger   *slog.Logger // discards
	Observer Observer     // none
}

// Defaults of Config.
const (
	RequestTimeoutDefault = 3 * time.Second
	RequestsMaxDefault    = 8
)

// Observer receives events of a Driver. A nil field is not called. Many goroutines call the functions at
// once, so they must be quick.
type Observer struct {
	// Request receives every request: DynamoDB's name for it, how many rows it named, how long it took, and
	// its error.
	Request func(name string, rows int, took time.Duration, err error)
	// Throttled is called for every write and read that DynamoDB throttled.
	Throttled func(table string)
	// Unreadable is called for every row that the driver skipped because a newer version wrote it or it is
	// damaged.
	Unreadable func(table string, err error)
}

func (c Config) withDefaults() Config {
	c.RequestTimeout = cmp.Or(c.RequestTimeout, RequestTimeoutDefault)
	c.RequestsMax = cmp.Or(c.RequestsMax, RequestsMaxDefault)
	c.Clock = cmp.Or(c.Clock, clock.Real())
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
