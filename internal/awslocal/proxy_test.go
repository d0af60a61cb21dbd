package awslocal

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
)

// patience is how long a client waits that is to see nothing.
const patience = 300 * time.Millisecond

func TestProxy(t *testing.T) {
	t.Parallel()
	local := Start(t)
	p := NewProxy(t, local.DynamoDB)
	direct := dynamodb.NewFromConfig(local.Config(t))
	through := dynamodb.NewFromConfig(Endpoints{DynamoDB: p.URL()}.Config(t), func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
	table := aws.String(local.Prefix(t))
	createTable(t, direct, table)
	write := func(id string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return tryPut(ctx, through, table, id)
	}
	check := func(id string, want func(error) bool, wantRow bool) {
		t.Helper()
		if err := write(id); !want(err) {
			t.Errorf("%s: unexpected result: %v", id, err)
		}
		p.Heal()
		if has(t, direct, table, id) != wantRow {
			t.Errorf("%s: row is there: %v, want %v", id, !wantRow, wantRow)
		}
		if err := write("after " + id); err != nil {
			t.Errorf("after %s was healed: %v", id, err)
		}
	}

	check("sound", done, true)
	p.BlackHole(Requests)
	check("swallowed request", late, false)
	p.BlackHole(Replies)
	check("swallowed reply", late, true)
	p.Latency(2 * patience)
	check("late reply", late, true)
	p.Reset(Requests)
	check("cut request", broken, false)
	p.Reset(Replies)
	check("cut reply", broken, true)
	p.Refuse()
	check("refused", broken, false)
}

func done(err error) bool { return err == nil }

func late(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// broken is a connection's error, and no answer of the service.
func broken(err error) bool {
	var answer smithy.APIError
	return err != nil && !late(err) && !errors.As(err, &answer)
}
