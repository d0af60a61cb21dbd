package dynamo_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// ordered notes which requests have a control row in them.
type ordered struct {
	*fakedynamo.DB

	mu       sync.Mutex
	pass     chan struct{}
	controls []bool // by request
}

func (o *ordered) note(control bool) {
	o.mu.Lock()
	o.controls = append(o.controls, control)
	o.mu.Unlock()
	<-o.pass
}

func (o *ordered) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	control := false
	for i := range in.Statements {
		control = control || strings.Contains(*in.Statements[i].Statement, "control")
	}
	o.note(control)
	return o.DB.BatchExecuteStatement(ctx, in, opts...)
}

func (o *ordered) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	o.note(strings.Contains(*in.TableName, "control"))
	return o.DB.PutItem(ctx, in, opts...)
}

// TestAHeartbeatIsFirstInLine writes a lease while hundreds of tasks' writes wait for the service.
func TestAHeartbeatIsFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &ordered{DB: newFakeDB(t, fakedynamo.Config{}), pass: make(chan struct{}, 1000)}
		d := openOn(t, o, dynamo.Config{RequestsMax: 1})
		var wg sync.WaitGroup
		apply := func(op store.Op) {
			wg.Go(func() {
				if results, err := d.Apply(t.Context(), []store.Op{op}); err != nil || results[0] != nil {
					t.Error(results, err)
				}
			})
		}
		for n := range 300 {
			apply(wakeupOp(n, task.Partition{}))
		}
		synctest.Wait()
		apply(store.Op{Kind: store.PutControl, Control: store.Control{Kind: "worker", Name: "w", Version: 1, Value: []byte("lease")}})
		synctest.Wait()
		before := len(o.controls)
		close(o.pass)
		wg.Wait()
		if len(o.controls) < before+5 || !o.controls[before] {
			t.Errorf("%d requests, the one after the lease was written has it: %v", len(o.controls), o.controls)
		}
	})
}
