package dynamo_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// clientAttempts is how often the client's own retryer would send a request if the driver let it.
const clientAttempts = 3

var (
	_ dynamo.API      = (*fakedynamo.DB)(nil)
	_ dynamo.AdminAPI = (*fakedynamo.DB)(nil)
)

const fakePrefix = "fake"

// onFake is a driver over the fake. Its Sweep does at once what TTL does later.
type onFake struct {
	*dynamo.Driver

	db *fakedynamo.DB
}

func openFake(tb testing.TB, f fakedynamo.Config, c dynamo.Config) *onFake {
	tb.Helper()
	f.Attempts = clientAttempts
	db := fakedynamo.New(f)
	c.Prefix = fakePrefix
	for _, spec := range dynamo.Tables(fakePrefix) { // Setup would wait for them
		if err := makeTable(db, &spec); err != nil {
			tb.Fatal(err)
		}
	}
	return &onFake{dynamo.New(db, c), db}
}

func makeTable(db *fakedynamo.DB, spec *dynamo.TableSpec) error {
	ctx := context.Background() // a test of random operations has none of its own
	if _, err := db.CreateTable(ctx, dynamo.CreateTableInput(spec)); err != nil || spec.TTL == "" {
		return err
	}
	_, err := db.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &spec.Name, TimeToLiveSpecification: &types.TimeToLiveSpecification{Enabled: aws.Bool(true), AttributeName: &spec.TTL},
	})
	return err
}

func (d *onFake) Sweep(ctx context.Context, now task.Instant, limit int) (int, error) {
	if n, err := d.Driver.Sweep(ctx, now, limit); n != 0 || err != nil {
		return n, errors.Join(err, errors.New("the driver's own sweep is to do nothing"))
	}
	out, err := insist(func() (*dynamodb.ScanOutput, error) {
		return d.db.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String(fakePrefix + "-tasks"), ConsistentRead: aws.Bool(true)})
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, row := range out.Items {
		encoded, _ := row["r"].(*types.AttributeValueMemberB)
		t, err := store.DecodeTask(encoded.Value)
		if err != nil {
			return n, err
		}
		x, expires := row["x"].(*types.AttributeValueMemberN)
		if expires != t.State.IsEnd() || (expires && x.Value != expiry(t.ExpireAt)) {
			return n, errors.New("a row that does not expire when it should")
		}
		if !expires || n == limit || t.ExpireAt > now {
			continue
		}
		if err := d.expire(ctx, &t, row["i"]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// insist repeats a call until no fault strikes it: a call of TTL, which has no faults, or one that the driver
// gave up and its callers repeat.
func insist[Out any](call func() (Out, error)) (out Out, err error) {
	for range 100 {
		if out, err = call(); !isTrouble(err) {
			break
		}
	}
	return out, err
}

func isTrouble(err error) bool {
	api, lost := smithy.APIError(nil), (*smithyhttp.RequestSendError)(nil)
	return errors.As(err, &lost) || (errors.As(err, &api) && (api.ErrorFault() == smithy.FaultServer || api.ErrorCode() == "ProvisionedThroughputExceededException"))
}

// expire deletes a row and, unlike TTL, its payload and its wake-up row.
func (d *onFake) expire(ctx context.Context, t *task.Task, id types.AttributeValue) error {
	key := map[string]types.AttributeValue{"i": id}
	_, err := insist(func() (*dynamodb.DeleteItemOutput, error) {
		return d.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(fakePrefix + "-tasks"), Key: key})
	})
	if err != nil {
		return err
	}
	_, err = d.Apply(ctx, []store.Op{{Kind: store.DeletePayload, Task: task.Task{ID: t.PayloadID()}}, store.Remove(t)})
	return err
}

// inNoHurry lifts the limits per second, for which the suite would have to wait.
func inNoHurry(c fakedynamo.Config) fakedynamo.Config {
	c.WriteUnits, c.ReadUnits = -1, -1
	return c
}

func TestConformanceOnFake(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Driver {
		t.Helper()
		return openFake(t, inNoHurry(fakedynamo.Config{}), dynamo.Config{})
	})
}

// settled is a driver whose writes go through a Store, which reads back unknown outcomes.
type settled struct {
	*onFake

	store *store.Store
}

// Apply divides a call where a key repeats: a Store cannot find out the outcome of the first of two unknown
// writes of one key. An op that follows the last op of a part is skipped here when that one failed.
func (s *settled) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results := make([]error, 0, len(ops))
	for len(ops) > 0 {
		n := distinct(ops)
		part, err := s.store.Apply(ctx, ops[:n])
		if err != nil {
			return nil, err
		}
		for i := range part {
			if errors.Is(part[i], store.ErrMalformed) { // what the suite asks of drivers only
				part[i] = s.quietly(ctx, ops[i])
			}
		}
		results = append(results, part...)
		holds := ops[n-1].Holds(part[n-1])
		for ops = slices.Clone(ops[n:]); len(ops) > 0 && ops[0].Follows; ops = ops[1:] {
			if ops[0].Follows = false; holds {
				break
			}
			results = append(results, store.ErrSkipped)
		}
	}
	return results, nil
}

// Tasks repeats the read until it succeeds, as the other reads do.
func (s *settled) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return insist(func() ([]task.Task, error) { return s.onFake.Tasks(ctx, ids) })
}

func (s *settled) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	return insist(func() ([]task.Task, error) { return s.onFake.Wakeups(ctx, keys) })
}

func (s *settled) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	return insist(func() ([]byte, error) { return s.onFake.Payload(ctx, id) })
}

func (s *settled) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	return insist(func() ([]task.Task, error) { return s.onFake.ScanSchedule(ctx, p, after, through, limit) })
}

func (s *settled) ScanEnded(ctx context.Context, p *task.Partition, state task.State, cursor []byte, limit int) (rows []task.Task, next []byte, err error) {
	rows, err = insist(func() (page []task.Task, err error) {
		page, next, err = s.onFake.ScanEnded(ctx, p, state, cursor, limit)
		return page, err
	})
	return rows, next, err
}

func (s *settled) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	return insist(func() ([]store.Control, error) { return s.onFake.Controls(ctx, kind, name) })
}

// quietly turns all faults off and applies one write.
func (s *settled) quietly(ctx context.Context, op store.Op) error {
	s.db.Faults.Off()
	results, err := s.onFake.Apply(ctx, []store.Op{op})
	if err != nil {
		return err
	}
	return results[0]
}

// distinct returns how many of the first ops have different keys.
func distinct(ops []store.Op) int {
	type key struct {
		wakeup     store.WakeKey
		payload    bool
		id         task.ID
		kind, name string
	}
	seen := map[key]bool{}
	for i := range ops {
		k := key{kind: ops[i].Control.Kind, name: ops[i].Control.Name, id: ops[i].Task.ID}
		switch ops[i].Kind {
		case store.PutWakeup, store.ReplaceWakeup, store.DeleteWakeup:
			k.wakeup = store.KeyOf(&ops[i].Task)
		case store.PutPayload, store.DeletePayload:
			k.payload = true
		case store.PutTask, store.ReplaceTask, store.PutControl, store.DeleteControl:
		}
		if seen[k] {
			return i
		}
		seen[k] = true
	}
	return len(ops)
}

// troubles are the faults that a driver must hide, each frequent enough to strike every test.
var troubles = map[string]func(*awsfake.Faults){
	"throttled and slow": func(f *awsfake.Faults) {
		f.Odds(awsfake.Any, awsfake.Throttled, 0.05)
		f.Odds("Statement", awsfake.Throttled, 0.05)
		f.Odds("BatchGetItem", awsfake.Partial, 0.1)
		f.Odds(awsfake.Any, awsfake.Stalled, 0.1)
		f.StallFor(2 * time.Millisecond)
	},
	// Not deletions: when one of two callers deleted a row, neither can find out which.
	"writes that are lost, or not": func(f *awsfake.Faults) {
		for _, call := range []string{"PutItem", "BatchExecuteStatement"} {
			for _, fault := range []awsfake.Fault{awsfake.LostRequest, awsfake.LostAnswer, awsfake.Refused, awsfake.BrokenAfter} {
				f.Odds(call, fault, 0.01)
			}
		}
		f.Odds("BatchExecuteStatement", awsfake.Partial, 0.03)
		f.Odds("BatchExecuteStatement", awsfake.PartialDone, 0.03)
	},
	"reads that fail": func(f *awsfake.Faults) {
		for _, call := range []string{"GetItem", "BatchGetItem", "Query", "Scan"} {
			f.Odds(call, awsfake.Refused, 0.1)
			f.Odds(call, awsfake.LostAnswer, 0.1)
		}
	},
}

func TestConformanceOnFaultyFake(t *testing.T) {
	t.Parallel()
	for name, begin := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) store.Driver {
				t.Helper()
				d := openFake(t, inNoHurry(fakedynamo.Config{Seed: 1, BaseLag: time.Hour}), dynamo.Config{})
				begin(d.db.Faults)
				if strings.HasSuffix(t.Name(), "/ConcurrentQueue") {
					// A row that was written, taken and deleted before its writer reads it back is written
					// again: no task row shows that. Deliveries may come twice, but the suite does not know.
					d.db.Faults.Odds("BatchExecuteStatement", awsfake.PartialDone, 0)
					for _, call := range []string{"PutItem", "BatchExecuteStatement"} {
						d.db.Faults.Odds(call, awsfake.LostAnswer, 0)
						d.db.Faults.Odds(call, awsfake.BrokenAfter, 0)
					}
				}
				return &settled{d, store.New(d.Driver, store.Config{})}
			})
		})
	}
}

// unlimited is the machine's clock without time limits of a second or more. When a busy machine stands still
// for that long, no request times out and Close leaves no deletion behind, which the model would not have.
type unlimited struct{ clock.Clock }

// NewTimer implements clock.Clock.
func (u unlimited) NewTimer(d time.Duration) clock.Timer {
	if d >= time.Second {
		d = time.Hour
	}
	return u.Clock.NewTimer(d)
}

func TestDifferentialOnFake(t *testing.T) {
	t.Parallel()
	c := dynamo.Config{Prefix: fakePrefix, RequestTimeout: time.Hour, Clock: unlimited{clock.Real()}}
	storetest.Differential(t,
		func() store.Driver { return mem.New() },
		func() store.Driver { return openFake(t, inNoHurry(fakedynamo.Config{BaseLag: time.Hour}), c) },
		func(d store.Driver) store.Driver {
			old, _ := d.(*onFake)
			_ = old.Close()
			return &onFake{dynamo.New(old.db, c), old.db}
		})
}
