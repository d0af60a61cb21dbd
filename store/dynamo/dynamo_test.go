package dynamo_test

import (
	"context"
	"errors"
	"flag"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// TestMain ignores goroutines of awslocal's proxy whose connections it cut.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(awslocal.Main(m))
}

// swept is a driver whose Sweep deletes expired rows, as TTL does some time later. It deletes the payload and
// a leftover wake-up row of the task too, unlike TTL.
type swept struct {
	*dynamo.Driver

	client *dynamodb.Client
	prefix string
}

func (s *swept) Sweep(ctx context.Context, now task.Instant, limit int) (int, error) {
	n, err := s.Driver.Sweep(ctx, now, limit)
	if n != 0 || err != nil {
		return n, errors.Join(err, errors.New("the driver's own sweep is to do nothing"))
	}
	var cursor []byte
	for n < limit {
		rows, next, err := s.ScanEnded(ctx, nil, task.Unknown, cursor, store.ScanMax)
		if err != nil {
			return n, err
		}
		for i := range rows {
			if rows[i].ExpireAt > now || n == limit {
				continue
			}
			if err := s.expire(ctx, &rows[i]); err != nil {
				return n, err
			}
			n++
		}
		if cursor = next; len(next) == 0 {
			break
		}
	}
	return n, nil
}

func (s *swept) expire(ctx context.Context, t *task.Task) error {
	key := map[string]types.AttributeValue{"i": &types.AttributeValueMemberS{Value: t.ID.String()}}
	row, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(s.prefix + "-tasks"), Key: key})
	if err != nil {
		return err
	}
	if ttl, ok := row.Item["x"].(*types.AttributeValueMemberN); !ok || ttl.Value != expiry(t.ExpireAt) {
		return errors.New("an ended row that will not expire when it should")
	}
	_, err = s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(s.prefix + "-tasks"), Key: key})
	if err != nil {
		return err
	}
	_, err = s.Apply(ctx, []store.Op{{Kind: store.DeletePayload, Task: task.Task{ID: t.PayloadID()}}, store.Remove(t)})
	return err
}

func expiry(at task.Instant) string {
	return strconv.FormatInt(int64(math.Ceil(float64(at)/1e6)), 10)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Driver {
		t.Helper()
		return openSwept(t, dynamo.Config{})
	})
}

// patience is long enough for a busy machine, so that no outcome of the suite is unknown.
const patience = 30 * time.Second

func openSwept(t *testing.T, c dynamo.Config) store.Driver {
	t.Helper()
	local := awslocal.Start(t)
	client := dynamodb.NewFromConfig(local.Config(t))
	c.Prefix, c.RequestTimeout = local.Prefix(t), patience
	if err := dynamo.Setup(t.Context(), client, c.Prefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	return &swept{dynamo.New(client, c), client, c.Prefix}
}

// differentialChecks is how many random sequences are compared on DynamoDB Local, where each takes a fifth of
// a second. The fake runs more.
const differentialChecks = "30"

// TestDifferential compares the driver with the memory driver over random operations. It is not parallel,
// since it sets a flag.
func TestDifferential(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	t.Cleanup(func() { _ = checks.Value.Set(before) })
	if err := checks.Value.Set(differentialChecks); err != nil {
		t.Fatal(err)
	}
	storetest.Differential(t,
		func() store.Driver { return mem.New() },
		func() store.Driver { return openSwept(t, dynamo.Config{}) },
		nil,
	)
}
