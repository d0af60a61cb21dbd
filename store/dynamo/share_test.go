package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// gate holds write requests until the test lets them go on.
type gate struct {
	*fakedynamo.DB

	arrived chan int      // the number of rows of each request
	pass    chan struct{} // lets one request go on for each value, all when closed
}

func (g *gate) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	g.arrived <- len(in.Statements)
	<-g.pass
	return g.DB.BatchExecuteStatement(ctx, in, o...)
}

func (g *gate) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	g.arrived <- 1
	<-g.pass
	return g.DB.PutItem(ctx, in, o...)
}

func newGate(t *testing.T) *gate {
	t.Helper()
	return &gate{newFakeDB(t, fakedynamo.Config{}), make(chan int, 1000), make(chan struct{}, 1000)}
}

func newFakeDB(t *testing.T, c fakedynamo.Config) *fakedynamo.DB {
	t.Helper()
	db := fakedynamo.New(c)
	if err := dynamo.Setup(t.Context(), db, fakePrefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	return db
}

func openOn(t *testing.T, api dynamo.API, c dynamo.Config) *dynamo.Driver {
	t.Helper()
	c.Prefix = fakePrefix
	d := dynamo.New(api, c)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// wakeupOp returns an op that puts a wake-up row with its task.
func wakeupOp(n int, p task.Partition) store.Op {
	t := benchTask(n + 1)
	t.State, t.Seq, t.Wake, t.Partition = task.Scheduled, 1, t.Due, p
	return store.Op{Kind: store.PutWakeup, Task: t}
}

// TestCallsShareRequests delays the first answer: writes that come meanwhile are sent in full batches, and
// the rest after the answer.
func TestCallsShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		d := openOn(t, g, dynamo.Config{RequestsMax: 3})
		var wg sync.WaitGroup
		apply := func(n int, patient bool) {
			wg.Go(func() {
				op := wakeupOp(n, task.Partition{})
				op.Patient = patient
				if results, err := d.Apply(t.Context(), []store.Op{op}); err != nil || results[0] != nil {
					t.Error(results, err)
				}
			})
		}
		apply(0, false)
		if n := <-g.arrived; n != 1 {
			t.Fatalf("first request of %d rows", n)
		}
		for n := range 60 {
			apply(1+n, n%2 == 0)
		}
		if a, b := <-g.arrived, <-g.arrived; a != 25 || b != 25 {
			t.Fatalf("requests of %d and %d rows, want full ones", a, b)
		}
		synctest.Wait()
		if len(g.arrived) != 0 {
			t.Fatalf("a request of %d rows did not wait for others", <-g.arrived)
		}
		close(g.pass)
		if n := <-g.arrived; n > 10 {
			t.Fatalf("%d rows are left over, want 10 at most", n)
		}
		wg.Wait()
	})
}

// TestStalledRequestsHoldUpNobody leaves as many requests without an answer as may be in flight with less
// than a full batch.
func TestStalledRequestsHoldUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		d := openOn(t, g, dynamo.Config{RequestsMax: 4})
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() {
				if results, err := d.Apply(t.Context(), []store.Op{wakeupOp(n, task.Partition{})}); err != nil || results[0] != nil {
					t.Error(results, err)
				}
			})
			synctest.Wait()
			began := time.Now()
			<-g.arrived
			if waited := time.Since(began); waited > 50*time.Millisecond {
				t.Errorf("request %d began after %v", n, waited)
			}
		}
		close(g.pass)
		wg.Wait()
	})
}

// TestRequestsAreBounded writes more than fits into the requests that may be in flight.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		d := openOn(t, g, dynamo.Config{RequestsMax: 3})
		ops := make([]store.Op, 200)
		for i := range ops {
			ops[i] = wakeupOp(i, task.Partition{})
		}
		done := make(chan error, 1)
		go func() {
			results, err := d.Apply(t.Context(), ops)
			done <- errors.Join(append(results, err)...)
		}()
		for range 8 {
			<-g.arrived
			if n := len(g.arrived); n > 2 {
				t.Errorf("%d requests beside one", n)
			}
			g.pass <- struct{}{}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPatientWritesLinger checks that a patient write waits for others, and no longer than it may.
func TestPatientWritesLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		close(g.pass)
		d := openOn(t, g, dynamo.Config{})
		began := time.Now()
		var wg sync.WaitGroup
		for n := range 3 {
			op := wakeupOp(n, task.Partition{})
			op.Patient = true
			wg.Go(func() {
				results, err := d.Apply(t.Context(), []store.Op{op})
				if waited := time.Since(began); err != nil || results[0] != nil || waited == 0 || waited > store.PatientMax {
					t.Errorf("%v, %v after %v", results, err, waited)
				}
			})
		}
		wg.Wait()
		if n := <-g.arrived; n != 3 {
			t.Errorf("first request of %d rows, want them together", n)
		}
		began = time.Now()
		results, err := d.Apply(t.Context(), []store.Op{wakeupOp(9, task.Partition{})})
		if waited := time.Since(began); err != nil || results[0] != nil || waited != 0 {
			t.Errorf("a write that is not patient: %v, %v after %v", results, err, waited)
		}
	})
}

// TestEndsLinger checks that a patient end waits longer for others while ends are frequent, and that a lone
// one and one that is not patient do not.
func TestEndsLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		close(g.pass)
		d := openOn(t, g, dynamo.Config{})
		const lone, ends = 9, 13
		for n := range ends {
			put(t, d, store.Op{Kind: store.PutTask, Task: taskRow(n, hot, epoch).Task})
			<-g.arrived
		}
		end := func(n int, patient bool) (waited time.Duration) {
			began := time.Now()
			put(t, d, store.Change(over(taskRow(n, hot, epoch).Task, task.Success, epoch), false, patient)[0])
			return time.Since(began)
		}
		for n := range lone - 1 {
			if waited := end(n, true); waited > store.PatientMax {
				t.Errorf("lone end %d waited %v", n, waited)
			}
			<-g.arrived
		}
		var wg sync.WaitGroup
		for n := lone - 1; n < ends-1; n++ {
			time.Sleep(10 * time.Millisecond)
			wg.Go(func() {
				if waited := end(n, true); waited <= store.PatientMax || waited > store.PatientEndMax {
					t.Errorf("an end waited %v", waited)
				}
			})
		}
		wg.Wait()
		if n := <-g.arrived; n != ends-lone {
			t.Errorf("a request of %d rows, want the ends together", n)
		}
		if waited := end(ends-1, false); waited != 0 {
			t.Errorf("an end that somebody waits for took %v", waited)
		}
	})
}

const base = task.Instant(1_800_000_000_000_000)

// TestWritesOfWhoGaveUpAreNotSent gives up a call whose writes wait behind another.
func TestWritesOfWhoGaveUpAreNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		d := openOn(t, g, dynamo.Config{RequestsMax: 3})
		done := make(chan error, 2)
		go func() {
			results, err := d.Apply(t.Context(), []store.Op{wakeupOp(0, task.Partition{})})
			done <- errors.Join(append(results, err)...)
		}()
		<-g.arrived
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("no patience")
		go func() {
			_, err := d.Apply(ctx, []store.Op{wakeupOp(1, task.Partition{}), wakeupOp(2, task.Partition{})})
			done <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-done; !errors.Is(err, why) {
			t.Fatalf("got %v, want the cause of the end", err)
		}
		close(g.pass)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		rows, err := d.ScanSchedule(t.Context(), task.Partition{}, store.WakeKey{}, 1<<62, 10)
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v; want only that of the caller who waited", len(rows), err)
		}
	})
}

// hotKey is a service without capacity for one partition key.
type hotKey struct {
	*fakedynamo.DB

	key   string
	until time.Time    // it has capacity again
	tries atomic.Int64 // of writes of the key
}

func (h *hotKey) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	kept := *in
	kept.Statements = nil
	answers := make([]types.BatchStatementResponse, len(in.Statements))
	var at []int
	for i, s := range in.Statements {
		if h.throttles(fmt.Sprint(texts(s.Parameters))) {
			answers[i].Error = &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumThrottlingError}
			continue
		}
		kept.Statements, at = append(kept.Statements, s), append(at, i)
	}
	if len(at) == 0 {
		return &dynamodb.BatchExecuteStatementOutput{Responses: answers}, nil
	}
	out, err := h.DB.BatchExecuteStatement(ctx, &kept, o...)
	if err == nil {
		for n, i := range at {
			answers[i] = out.Responses[n]
		}
		out.Responses = answers
	}
	return out, err
}

func (h *hotKey) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if p, ok := in.Item["p"].(*types.AttributeValueMemberS); ok && h.throttles(p.Value) {
		return nil, &types.ProvisionedThroughputExceededException{}
	}
	return h.DB.PutItem(ctx, in, o...)
}

func (h *hotKey) throttles(text string) bool {
	if !strings.Contains(text, h.key) {
		return false
	}
	h.tries.Add(1)
	return time.Now().Before(h.until)
}

func texts(values []types.AttributeValue) (found []string) {
	for _, v := range values {
		if s, ok := v.(*types.AttributeValueMemberS); ok {
			found = append(found, s.Value)
		}
	}
	return found
}

// TestHotPartitionHoldsUpNobodyElse throttles one partition for good: its writes end with ErrThrottled after
// a bounded number of attempts, and those of others are not delayed.
func TestHotPartitionHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy, quiet := task.Partition{Lambda: 0xb}, task.Partition{Lambda: 0xa}
		h := &hotKey{DB: newFakeDB(t, fakedynamo.Config{WriteUnits: -1}), key: busy.String()}
		h.until = time.Now().Add(time.Hour)
		var told atomic.Int64
		d := openOn(t, h, dynamo.Config{Observer: dynamo.Observer{Throttled: func(string) { told.Add(1) }}})
		const rows = 200
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() {
			results := applyMany(t, d, 0, rows, busy)
			for _, err := range results {
				if !errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrUnknown) {
					t.Fatalf("got %v, want ErrThrottled", err)
				}
			}
		})
		synctest.Wait()
		now := time.Now()
		for n := range 50 {
			if err := errors.Join(applyMany(t, d, 1000+2*n, 2, quiet)...); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(now); waited != 0 {
			t.Errorf("writes of another partition waited %v", waited)
		}
		wg.Wait()
		if tries := h.tries.Load(); tries > 5*rows || told.Load() != tries {
			t.Errorf("%d rows were tried %d times, told of %d", rows, tries, told.Load())
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v to say so", took)
		}
	})
}

// slowAPI answers batches after 50 ms, and throttles one of them.
type slowAPI struct {
	dynamo.API
	throttle atomic.Bool
}

func (s *slowAPI) BatchExecuteStatement(
	ctx context.Context, in *dynamodb.BatchExecuteStatementInput, o ...func(*dynamodb.Options),
) (*dynamodb.BatchExecuteStatementOutput, error) {
	time.Sleep(50 * time.Millisecond)
	if s.throttle.CompareAndSwap(true, false) {
		return nil, &types.ProvisionedThroughputExceededException{}
	}
	return s.API.BatchExecuteStatement(ctx, in, o...)
}

// TestOneThrottledRequestLimitsNothingForLong writes 1,000 rows a second to a partition, 40 batches of them,
// and has one of them throttled.
func TestOneThrottledRequestLimitsNothingForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{API: newFakeDB(t, fakedynamo.Config{WriteUnits: -1})}
		d := openOn(t, api, dynamo.Config{})
		var calls sync.WaitGroup
		const perSecond, seconds = 100, 20
		for n := range perSecond * seconds {
			if n == perSecond {
				api.throttle.Store(true)
			}
			calls.Go(func() {
				began := time.Now()
				if err := errors.Join(applyMany(t, d, 10*n, 10, task.Partition{Lambda: 0xb})...); err != nil {
					t.Errorf("call %d: %v", n, err)
				}
				if took := time.Since(began); n > 5*perSecond && took > 300*time.Millisecond {
					t.Errorf("call %d took %v, %d s after the throttled request", n, took, n/perSecond-1)
				}
			})
			time.Sleep(time.Second / perSecond)
		}
		calls.Wait()
	})
}

// TestThrottledWritesComeThrough throttles a partition wholly for a second, and then to DynamoDB's limit.
func TestThrottledWritesComeThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := task.Partition{Lambda: 0xb}
		h := &hotKey{DB: newFakeDB(t, fakedynamo.Config{}), key: busy.String()}
		h.until = time.Now().Add(time.Second)
		d := openOn(t, h, dynamo.Config{})
		began := time.Now()
		var wg sync.WaitGroup
		for call := range 20 {
			wg.Go(func() {
				if err := errors.Join(applyMany(t, d, call*200, 200, busy)...); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		if took > 8*time.Second { // 4,000 units of 1,000/s
			t.Errorf("4,000 rows took %v", took)
		}
	})
}

func applyMany(t *testing.T, d *dynamo.Driver, from, n int, p task.Partition) []error {
	t.Helper()
	ops := make([]store.Op, n)
	for i := range ops {
		ops[i] = wakeupOp(from+i, p)
	}
	results, err := d.Apply(t.Context(), ops)
	return append(results, err)[:max(n, 1)]
}

// TestOutcomesOfWrites checks the results of writes that fail, alone and in a batch.
func TestOutcomesOfWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault   awsfake.Fault
		unknown bool
		applied bool
	}{
		{awsfake.Denied, false, false},
		{awsfake.Refused, true, false},
		{awsfake.BrokenAfter, true, true},
		{awsfake.LostRequest, true, false},
		{awsfake.LostAnswer, true, true},
	} {
		for _, call := range []string{"PutItem", "BatchExecuteStatement"} {
			db := newFakeDB(t, fakedynamo.Config{})
			d := openOn(t, db, dynamo.Config{})
			ops := []store.Op{wakeupOp(0, task.Partition{})}
			if call != "PutItem" {
				ops = append(ops, wakeupOp(1, task.Partition{}))
			}
			db.Faults.Next(call, c.fault, 1)
			results, err := d.Apply(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				if result == nil || errors.Is(result, store.ErrUnknown) != c.unknown || errors.Is(result, store.ErrConflict) {
					t.Errorf("%s %s: got %v, want unknown %v", call, c.fault, result, c.unknown)
				}
			}
			var api smithy.APIError
			if c.fault == awsfake.Denied && !errors.As(results[0], &api) {
				t.Errorf("%v hides what the service said", results[0])
			}
			rows, err := d.ScanSchedule(t.Context(), task.Partition{}, store.WakeKey{}, 1<<62, 10)
			if err != nil || (len(rows) > 0) != c.applied {
				t.Errorf("%s %s: %d rows, %v; want some %v", call, c.fault, len(rows), err, c.applied)
			}
		}
	}
}

// TestTooLargeRowsHarmNoOther writes a row above the service's limit beside good ones.
func TestTooLargeRowsHarmNoOther(t *testing.T) {
	t.Parallel()
	d := openOn(t, newFakeDB(t, fakedynamo.Config{}), dynamo.Config{})
	large := store.Op{Kind: store.PutPayload, Task: task.Task{ID: task.ID{1}}, Payload: make([]byte, 500<<10)}
	for _, ops := range [][]store.Op{{large}, {wakeupOp(0, task.Partition{}), large, wakeupOp(1, task.Partition{})}} {
		results, err := d.Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		for i, result := range results {
			if tooLarge := ops[i].Kind == store.PutPayload; errors.Is(result, store.ErrTooLarge) != tooLarge || (result != nil) != tooLarge {
				t.Errorf("op %d of %d: %v", i, len(ops), result)
			}
		}
	}
	far := wakeupOp(2, task.Partition{})
	far.Task.WakeRow.At = 1 << 62
	bad := store.Op{Kind: store.PutControl, Control: store.Control{Kind: "k", Name: "\xff", Version: 1}}
	results, err := d.Apply(t.Context(), []store.Op{far, bad, wakeupOp(3, task.Partition{})})
	if err != nil || !errors.Is(results[0], store.ErrMalformed) || !errors.Is(results[1], store.ErrMalformed) || results[2] != nil {
		t.Errorf("%v, %v", results, err)
	}
}

// TestRowsOfAnotherVersionStandBeforeNobody puts rows that this program cannot read among others.
func TestRowsOfAnotherVersionStandBeforeNobody(t *testing.T) {
	t.Parallel()
	db := newFakeDB(t, fakedynamo.Config{})
	var met atomic.Int64
	d := openOn(t, db, dynamo.Config{Observer: dynamo.Observer{Unreadable: func(_ string, err error) {
		met.Add(1)
		if !errors.Is(err, store.ErrVersion) {
			t.Error(err)
		}
	}}})
	ctx, p := t.Context(), task.Partition{}
	var ops []store.Op
	for n := range 30 {
		w := wakeupOp(n, p)
		w.Task.WakeRow.At += task.Instant(n) * 1000
		live := w.Task
		live.State = task.Enqueued
		dead := over(live, task.Dead, base)
		dead.ID[15]++
		ops = append(ops, w, store.Op{Kind: store.PutTask, Task: live}, store.Op{Kind: store.PutTask, Task: dead},
			store.Op{Kind: store.PutControl, Control: store.Control{Kind: "k", Name: fmt.Sprintf("%02d", n), Version: 1}})
	}
	if results, err := d.Apply(ctx, ops); errors.Join(append(results, err)...) != nil {
		t.Fatal(results, err)
	}
	for _, table := range []string{"schedule", "tasks", "control"} {
		spoil(t, db, fakePrefix+"-"+table)
	}
	wakes, err1 := d.ScanSchedule(ctx, p, store.WakeKey{}, 1<<62, 10)
	dead, _, err2 := d.ScanEnded(ctx, &p, task.Dead, nil, 100)
	controls, err3 := d.Controls(ctx, "k", "")
	if err := errors.Join(err1, err2, err3); err != nil || len(wakes) != 10 || len(dead) == 0 || len(controls) != 15 {
		t.Errorf("%d wake-ups, %d dead, %d controls, %v", len(wakes), len(dead), len(controls), err)
	}
	readable, omitted, err := d.Capabilities().ControlsOmitted(ctx, "k")
	if err != nil || len(readable) != 15 || len(omitted) != 15 || slices.ContainsFunc(readable, func(c store.Control) bool { return omitted[c.Name] != nil }) {
		t.Errorf("%d controls, omitted %v, %v", len(readable), omitted, err)
	}
	for name, why := range omitted {
		if _, err := d.Controls(ctx, "k", name); !errors.Is(why, store.ErrVersion) || !errors.Is(err, store.ErrVersion) {
			t.Errorf("%s: omitted for %v, read alone %v", name, why, err)
		}
	}
	if met.Load() == 0 {
		t.Error("nobody was told")
	}
	var bad, good task.ID
	for _, op := range ops {
		if op.Kind == store.PutTask {
			if _, err := d.Tasks(ctx, []task.ID{op.Task.ID}); errors.Is(err, store.ErrVersion) {
				bad = op.Task.ID
			} else if err == nil {
				good = op.Task.ID
			}
		}
	}
	rows, err := d.Tasks(ctx, []task.ID{bad, good})
	if bad.IsZero() || err != nil || rows[0].ID != bad || !rows[0].IsBare() || rows[1].ID != good {
		t.Errorf("bad %s: %v, %v", bad, rows, err)
	}
	again := ops[1].Task
	again.ID = bad
	results, err := d.Apply(ctx, []store.Op{{Kind: store.PutTask, Task: again}})
	if err != nil || !errors.Is(results[0], store.ErrConflict) {
		t.Errorf("put over a row of another version: %v, %v", results, err)
	}
}

// spoil gives every second row of a table an unknown format.
func spoil(t *testing.T, db *fakedynamo.DB, table string) {
	t.Helper()
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range out.Items {
		r, ok := row["r"].(*types.AttributeValueMemberB)
		if i%2 == 0 || !ok {
			continue
		}
		row["r"] = &types.AttributeValueMemberB{Value: append([]byte{99}, r.Value[1:]...)}
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: row}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnUnreadableTaskRowIsNotAbsent reads a task row that cannot be decoded, whose wake-up row has to stay.
func TestAnUnreadableTaskRowIsNotAbsent(t *testing.T) {
	t.Parallel()
	db := newFakeDB(t, fakedynamo.Config{})
	d := openOn(t, db, dynamo.Config{})
	ctx := t.Context()
	wakeup := bareRow(task.Partition{}, 4)
	live := wakeup.Task
	live.State, live.Seq = task.Processing, 9
	other := live
	other.ID[15]++
	ops := []store.Op{wakeup, {Kind: store.PutTask, Task: live}, {Kind: store.PutTask, Task: other}}
	if results, err := d.Apply(ctx, ops); errors.Join(append(results, err)...) != nil {
		t.Fatal(results, err)
	}
	spoil(t, db, fakePrefix+"-tasks") // one of two
	rows, err := d.Tasks(ctx, []task.ID{live.ID, other.ID, {1}})
	if err != nil || rows[0].ID != live.ID || rows[1].ID != other.ID || rows[0].IsBare() == rows[1].IsBare() || !rows[2].ID.IsZero() {
		t.Fatalf("%+v, %v", rows, err)
	}
	if !rows[0].IsBare() {
		rows[0] = rows[1]
	}
	if c := store.Conclude(&wakeup.Task, &rows[0], base); c != store.Unclear {
		t.Errorf("concludes %d, want that it is unclear", c)
	}
}
