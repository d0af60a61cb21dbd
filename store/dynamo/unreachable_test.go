package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

// unplugged is a service that refuses so many connections.
type unplugged struct {
	dynamo.API

	left, asked atomic.Int64
}

func (u *unplugged) refused() error {
	u.asked.Add(1)
	if u.left.Add(-1) < 0 {
		return nil
	}
	return &smithy.OperationError{ServiceID: "DynamoDB", Err: &smithyhttp.RequestSendError{
		Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
	}}
}

func (u *unplugged) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if err := u.refused(); err != nil {
		return nil, err
	}
	return u.API.GetItem(ctx, in, o...)
}

func (u *unplugged) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if err := u.refused(); err != nil {
		return nil, err
	}
	return u.API.PutItem(ctx, in, o...)
}

func (u *unplugged) BatchExecuteStatement(
	ctx context.Context, in *dynamodb.BatchExecuteStatementInput, o ...func(*dynamodb.Options),
) (*dynamodb.BatchExecuteStatementOutput, error) {
	if err := u.refused(); err != nil {
		return nil, err
	}
	return u.API.BatchExecuteStatement(ctx, in, o...)
}

// unplug runs a test in virtual time with a driver whose service refuses connections, and its log.
func unplug(t *testing.T, test func(t *testing.T, s *store.Store, u *unplugged, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		fake, log := openFake(t, fakedynamo.Config{}, dynamo.Config{}), &bytes.Buffer{}
		u := &unplugged{API: fake.db}
		d := dynamo.New(u, dynamo.Config{Prefix: fakePrefix, Logger: slog.New(slog.NewTextHandler(log, nil))})
		test(t, store.New(d, store.Config{}), u, log)
		if err := errors.Join(d.Close(), fake.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestWritesWithoutAConnection checks that a write without a connection is not read back and may be repeated.
func TestWritesWithoutAConnection(t *testing.T) {
	t.Parallel()
	unplug(t, func(t *testing.T, s *store.Store, u *unplugged, log *bytes.Buffer) {
		t.Helper()
		for _, ops := range [][]store.Op{{wakeupRow(1, hot, 0)}, {wakeupRow(1, hot, 0), wakeupRow(2, hot, 0)}} {
			u.asked.Store(0)
			u.left.Store(1)
			results, err := s.Apply(t.Context(), ops)
			if err != nil || u.asked.Load() != 1 {
				t.Errorf("%v after %d requests, want one", err, u.asked.Load())
			}
			for _, result := range results {
				if !errors.Is(result, store.ErrUnreachable) || errors.Is(result, store.ErrUnknown) {
					t.Errorf("%v, want that the store cannot be reached", result)
				}
			}
		}
		if n := bytes.Count(log.Bytes(), []byte("DynamoDB does not answer")); n != 1 {
			t.Errorf("logged %d times, want once for both:\n%s", n, log)
		}
		results, err := s.Apply(t.Context(), []store.Op{wakeupRow(1, hot, 0)})
		if err != nil || results[0] != nil {
			t.Errorf("%v, %v: want that the row was not there", results, err)
		}
	})
}

// TestReadsWithoutAConnection checks that a read tries a few times before its caller gets an error.
func TestReadsWithoutAConnection(t *testing.T) {
	t.Parallel()
	unplug(t, func(t *testing.T, s *store.Store, u *unplugged, _ *bytes.Buffer) {
		t.Helper()
		u.left.Store(2)
		if _, err := s.Control(t.Context(), "kind", "name"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v, want an answer at the third try", err)
		}
		u.asked.Store(0)
		u.left.Store(1000)
		if _, err := s.Control(t.Context(), "kind", "name"); !errors.Is(err, store.ErrUnreachable) || u.asked.Load() > 3 {
			t.Errorf("%v after %d requests", err, u.asked.Load())
		}
		gone, giveUp := context.WithCancel(t.Context())
		giveUp()
		if _, err := s.Control(gone, "kind", "name"); err == nil || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%v, want that the caller gave up", err)
		}
	})
}

// TestReadsOfAServiceThatFails checks the same with server errors.
func TestReadsOfAServiceThatFails(t *testing.T) {
	t.Parallel()
	unplug(t, func(t *testing.T, s *store.Store, u *unplugged, _ *bytes.Buffer) {
		t.Helper()
		db, ok := u.API.(*fakedynamo.DB)
		if !ok {
			t.Fatal("not the fake")
		}
		db.Faults.Odds(awsfake.Any, awsfake.Refused, 1)
		if _, err := s.Control(t.Context(), "kind", "name"); !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%v, want that the store does not answer", err)
		}
	})
}
