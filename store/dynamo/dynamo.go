package dynamo

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// API is what the driver asks of DynamoDB while it serves; *dynamodb.Client has it, and so may a fake.
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

// Config sets a driver up. Prefix has to be set; the zero value of every other field means its default.
type Config struct {
	Prefix string // of the tables; see CheckPrefix
	// RequestTimeout is how long one request may take, in all its parts. A write that takes longer has an
	// unknown outcome. 3 s
	RequestTimeout time.Duration
	// RequestsMax bounds the requests that write at once. What comes meanwhile waits here, where heartbeats
	// are first: so many batches keep two cores busy at 10 ms each, and a slow service is not flooded. 8
	RequestsMax int
	// SharedMax is how many requests are under way at most when one is sent that is less than full. 4
	SharedMax int
	// Single makes every write a request of its own, so that Observer.Consumed hears of each; for measuring.
	Single   bool
	Clock    clock.Clock  // the machine's
	Logger   *slog.Logger // discards
	Observer Observer     // none
}

// Defaults of Config.
const (
	RequestTimeoutDefault = 3 * time.Second
	RequestsMaxDefault    = 8
	SharedMaxDefault      = 4
)

// Observer is told what the driver does. A nil field is not called. The functions are called by many
// goroutines at once and must be quick.
type Observer struct {
	// Consumed is told what each request consumed. Setting it makes every request ask for that.
	Consumed func(Consumption)
	// Request is told of every request: DynamoDB's name for it, the rows it named, how long it took, and how
	// it failed.
	Request func(name string, rows int, took time.Duration, err error)
	// Throttled is told of every write or read that DynamoDB put off for want of capacity.
	Throttled func(table string)
	// Unreadable is told of every row that was met and left alone, because a newer version wrote it
	// or because it is damaged.
	Unreadable func(table string, err error)
}

// Consumption is what one request consumed of a table, or of one of its indexes.
type Consumption struct {
	Request string // DynamoDB's name for it
	Table   string
	Index   string // empty for the table itself
	Read    float64
	Write   float64
}

func (c Config) withDefaults() Config {
	c.RequestTimeout = cmp.Or(c.RequestTimeout, RequestTimeoutDefault)
	c.RequestsMax = cmp.Or(c.RequestsMax, RequestsMaxDefault)
	c.SharedMax = min(cmp.Or(c.SharedMax, SharedMaxDefault), c.RequestsMax)
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Driver is a store.Driver on DynamoDB. It keeps nothing that is not in its tables.
type Driver struct {
	cfg       Config
	api       API
	tables    tables
	shapes    shapes
	unread    unreadableRows
	overdue   overdue
	unreached seldom // that DynamoDB does not answer

	life    sync.Mutex      // guards closed
	closed  bool            // no call begins any more
	calls   sync.WaitGroup  // calls under way
	base    context.Context //nolint:containedctx // requests outlive the calls that share them
	end     context.CancelFunc
	running sync.WaitGroup // requests and timers
	idle    chan []*write  // to a goroutine that waits for something to send

	writes writes
}

// New makes a driver on tables that exist: see Check and Setup. It asks DynamoDB for nothing.
func New(api API, c Config) *Driver {
	c = c.withDefaults()
	d := &Driver{cfg: c, api: api, tables: newTables(c.Prefix), idle: make(chan []*write)}
	d.shapes = newShapes(&d.tables)
	d.base, d.end = context.WithCancel(context.Background())
	return d
}

// enter begins a call, which Close then waits for; leave ends it.
func (d *Driver) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed {
		return store.ErrClosed
	}
	d.calls.Add(1)
	return nil
}

func (d *Driver) leave() { d.calls.Done() }

// Capabilities implements store.Driver.
func (d *Driver) Capabilities() store.Capabilities {
	return store.Capabilities{ControlsOmitted: d.controlsOmitted, PayloadsExpire: true, EndedExpire: true, KeyLoads: d.keyLoads}
}

// Close waits for the calls and requests that are under way, and for deferred deletions. It does not close
// the client.
func (d *Driver) Close() error {
	d.life.Lock()
	again := d.closed
	d.closed = true
	d.life.Unlock()
	d.calls.Wait()
	if !again {
		d.drain()
		d.end()
	}
	d.running.Wait()
	return nil
}

// tables are the names of the tables, in the form that requests want.
type tables struct {
	schedule, tasks, payloads, control *string
}

func newTables(prefix string) tables {
	name := func(table string) *string { return aws.String(tableName(prefix, table)) }
	return tables{schedule: name(scheduleTable), tasks: name(tasksTable), payloads: name(payloadsTable), control: name(controlTable)}
}
