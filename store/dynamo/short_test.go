package dynamo_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// short is a service that leaves out the last answers of a batch.
type short struct {
	*fakedynamo.DB

	leave int  // answers that are left out
	twice bool // a key came twice in one request
}

func (s *short) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	keys := map[string]bool{}
	for _, one := range in.Statements {
		key := ""
		for _, v := range one.Parameters {
			if text, is := v.(*types.AttributeValueMemberS); is {
				key += text.Value + "/"
			}
		}
		s.twice = s.twice || keys[key]
		keys[key] = true
	}
	out, err := s.DB.BatchExecuteStatement(ctx, in, o...)
	if err == nil {
		out.Responses = out.Responses[:len(out.Responses)-s.leave]
	}
	return out, err
}

// TestABatchWithFewerAnswersIsUnknown leaves out an answer: it is unknown which write that was of.
func TestABatchWithFewerAnswersIsUnknown(t *testing.T) {
	t.Parallel()
	s := &short{DB: newFakeDB(t, fakedynamo.Config{}), leave: 1}
	d := openOn(t, s, dynamo.Config{})
	results, err := d.Apply(t.Context(), []store.Op{wakeupOp(0, task.Partition{}), wakeupOp(1, task.Partition{}), wakeupOp(2, task.Partition{})})
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if !errors.Is(result, store.ErrUnknown) {
			t.Errorf("write %d: %v, want ErrUnknown", i, result)
		}
	}
}

// TestARequestHasEachKeyOnce sends writes of one row by several calls at once: DynamoDB refuses a request
// with two of them.
func TestARequestHasEachKeyOnce(t *testing.T) {
	t.Parallel()
	s := &short{DB: newFakeDB(t, fakedynamo.Config{})}
	d := openOn(t, s, dynamo.Config{})
	patient := func(op store.Op) store.Op { op.Patient = true; return op }
	done := make(chan []error, 4)
	for range cap(done) {
		go func() {
			results, err := d.Apply(t.Context(), []store.Op{patient(taskRow(1, hot, epoch)), patient(taskRow(2, hot, epoch))})
			done <- append(results, err)
		}()
	}
	won := 0
	for range cap(done) {
		for _, result := range (<-done)[:2] {
			if result == nil {
				won++
			} else if !errors.Is(result, store.ErrConflict) {
				t.Errorf("%v", result)
			}
		}
	}
	if s.twice || won != 2 {
		t.Errorf("a key twice in a request: %v; %d writes came through, want 2", s.twice, won)
	}
}

// TestALowerWakeupRowIsReplacedInABatch puts a wake-up row over a lower one together with others.
func TestALowerWakeupRowIsReplacedInABatch(t *testing.T) {
	t.Parallel()
	d := openOn(t, newFakeDB(t, fakedynamo.Config{}), dynamo.Config{})
	low, high := bareRow(hot, 3), bareRow(hot, 7)
	put(t, d, beside(true, low)...)
	others := []store.Op{wakeupRow(910, cold, 0), wakeupRow(911, cold, 0)}
	results, err := d.Apply(t.Context(), slices.Concat([]store.Op{high}, others))
	if err != nil || results[0] != nil {
		t.Fatalf("%v, %v: want that the higher row replaces the lower one", results, err)
	}
	rows, err := d.Wakeups(t.Context(), []store.WakeKey{store.KeyOf(&high.Task)})
	if err != nil || rows[0].WakeRow.Seq != 7 {
		t.Errorf("%+v, %v", rows, err)
	}
}
