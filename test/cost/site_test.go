package cost

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

// near is less than the default, so that a task due in two seconds goes through the schedule table.
const near = 500 * time.Millisecond

// site is a whole Kinesin on the emulators whose units and requests are counted.
type site struct {
	*meter
	*harness.Node
}

// meter counts what is used.
type meter struct {
	mu       sync.Mutex
	writes   map[string]float64 // units by table, indexes included
	reads    map[string]float64
	requests map[string]int // SQS requests by queue and action
}

// used is a copy of a meter.
type used struct {
	writes, reads map[string]float64
	requests      map[string]int
}

func (m *meter) consumed(c awslocal.Consumption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes[c.Table] += c.Write
	m.reads[c.Table] += max(c.Read, leastRead(c))
}

// leastRead is what DynamoDB charges for a query that finds nothing, which DynamoDB Local does not: one unit
// where it reads strongly, half a unit of an index.
func leastRead(c awslocal.Consumption) float64 {
	switch {
	case c.Request != "Query":
		return 0
	case c.Index != "":
		return 0.5
	case strings.HasSuffix(c.Table, "-schedule"):
		return 1
	}
	return 0
}

func (m *meter) requested(r sqsclient.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[r.Queue+" "+string(r.Action)]++
}

func (m *meter) now() used {
	m.mu.Lock()
	defer m.mu.Unlock()
	return used{maps.Clone(m.writes), maps.Clone(m.reads), maps.Clone(m.requests)}
}

// tasks sums the units of all tables but control, whose rows cost by process and not by task.
func tasks(units map[string]float64) (sum float64) {
	for table, n := range units {
		if !strings.HasSuffix(table, "-control") {
			sum += n
		}
	}
	return sum
}

func control(units map[string]float64) (sum float64) {
	for table, n := range units {
		if strings.HasSuffix(table, "-control") {
			sum += n
		}
	}
	return sum
}

func total(requests map[string]int) (sum int) {
	for _, n := range requests {
		sum += n
	}
	return sum
}

func (u used) since(before used) used {
	d := used{map[string]float64{}, map[string]float64{}, map[string]int{}}
	for k, n := range u.writes {
		d.writes[k] = n - before.writes[k]
	}
	for k, n := range u.reads {
		d.reads[k] = n - before.reads[k]
	}
	for k, n := range u.requests {
		d.requests[k] = n - before.requests[k]
	}
	return d
}

// options are how a node is set up otherwise than by default.
type options struct {
	// single makes each write a request of its own, which tells what it consumed; requests of many rows,
	// which a server makes in production, do not on DynamoDB Local.
	single  bool
	inbound bool // with an inbound queue, requests to which count too
	queued  bool // no task is matched with a waiting worker: all go through their queue
	depth   int  // messages that a queue is fed up to; 0: as by default

	// before fills the tables before the node starts; what it writes does not count. nil: they are empty.
	before func(rows store.Driver, lambdas *catalog.Catalog)
}

// newSite starts a node with all roles.
func newSite(t *testing.T, o options) *site {
	t.Helper()
	aws := awslocal.Start(t)
	prefix := aws.Prefix(t)
	s := &site{meter: &meter{writes: map[string]float64{}, reads: map[string]float64{}, requests: map[string]int{}}}
	db := dynamodb.NewFromConfig(aws.Config(t))
	if err := dynamo.Setup(t.Context(), db, prefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	config := dynamo.Config{Prefix: prefix, Single: o.single, Clock: clock.Real()}
	counted := db
	if o.single {
		counted = awslocal.Metered(aws.Config(t), s.consumed)
	}
	rows := dynamo.New(counted, config)
	uncounted := dynamo.New(db, dynamo.Config{Prefix: prefix, Clock: clock.Real()})
	lambdas := catalog.New(store.New(uncounted, store.Config{}), clock.Real(), harness.Log(t), catalog.Limits{})
	if o.before != nil {
		o.before(uncounted, lambdas)
	}
	api, observer := awssqs.NewFromConfig(aws.Config(t)), &sqsclient.Observer{Request: s.requested}
	queues := sqs.New(api, sqs.Config{
		Codec:  sqs.Codec{Append: store.AppendTask, Decode: store.DecodeTask, Newer: store.ErrVersion},
		Prefix: prefix, Clock: clock.Real(), Log: harness.Log(t), Observer: observer,
		Lambda: func(ref uint32) (task.Lambda, bool) {
			if l := lambdas.ByRef(ref); l != nil {
				return l.Lambda, true
			}
			if lambdas.Refresh(context.WithoutCancel(t.Context())) != nil || lambdas.ByRef(ref) == nil {
				return task.Lambda{}, false
			}
			return lambdas.ByRef(ref).Lambda, true
		},
		Lambdas: func() (all []task.Lambda) { return nil },
	})
	c := node.Config{Store: rows, Queue: queues, Window: 16 * time.Second, NoMatch: o.queued, QueueDepthMax: o.depth}
	if o.inbound {
		if _, err := sqsclient.Create(t.Context(), api, sqsbuffer.Queues(prefix)); err != nil {
			t.Fatal(err)
		}
		c.Buffer = sqsbuffer.New(api, sqsbuffer.Config{Prefix: prefix, Clock: clock.Real(), Observer: observer})
	} else {
		c.Near, c.DeliverDirect = near, -1
	}
	// An emulator beside other work takes long for many rows. A call that is given up and made again writes
	// them all once more, and may never get done.
	s.Node = harness.RunNode(t, c, sdk.WithCallTimeout(2*time.Minute))
	return s
}

func atOnce(context.Context, *sdk.Task[[]byte]) error { return nil }

// quiet waits until nothing more is written: a lazy delete may follow the end of a task.
func (s *site) quiet(t *testing.T) used {
	t.Helper()
	last := s.now()
	for calm := 0; calm < 5; {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		now := s.now()
		if tasks(now.writes) == tasks(last.writes) {
			calm++
		} else {
			calm = 0
		}
		last = now
	}
	return last
}

func items(n int, item sdk.Item) []sdk.Item { return slices.Repeat([]sdk.Item{item}, n) }

func perTask(t *testing.T, what string, got float64, n int, most float64) {
	t.Helper()
	each := got / float64(n)
	t.Logf("%s: %.2f", what, each)
	if each > most {
		t.Errorf("%s: %.2f per task, want at most %.2f", what, each, most)
	}
	if each <= 0 {
		t.Errorf("%s: %.2f per task, so nothing was counted", what, each)
	}
}
