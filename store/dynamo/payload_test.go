package dynamo_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

const day = 24 * time.Hour

// payloads is a driver with access to its payload rows.
type payloads struct {
	*testing.T

	db *fakedynamo.DB
	d  *dynamo.Driver
}

func onPayloads(t *testing.T, test func(p *payloads)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newFakeDB(t, fakedynamo.Config{})
		test(&payloads{t, db, openOn(t, db, dynamo.Config{})})
	})
}

func (p *payloads) apply(ops ...store.Op) {
	p.Helper()
	results, err := p.d.Apply(p.Context(), ops)
	if err := errors.Join(append(results, err)...); err != nil {
		p.Fatal(err)
	}
}

// left returns the time until a payload row expires; ok is false when it is gone.
func (p *payloads) left(id task.ID) (left time.Duration, ok bool) {
	p.Helper()
	key := map[string]types.AttributeValue{"i": &types.AttributeValueMemberS{Value: id.String()}}
	out, err := p.db.GetItem(p.Context(), &dynamodb.GetItemInput{TableName: aws.String(fakePrefix + "-payloads"), Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		p.Fatal(err)
	}
	x, ok := out.Item["x"].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	seconds, err := strconv.ParseInt(x.Value, 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	return time.Until(time.Unix(seconds, 0)), true
}

// wantLeft checks the time until a payload expires, to the day.
func (p *payloads) wantLeft(what string, id task.ID, days int) {
	p.Helper()
	left, ok := p.left(id)
	if got := int((left + day/2) / day); !ok || got != days {
		p.Errorf("%s: the payload is there %v, for %d more days; want %d", what, ok, got, days)
	}
}

// apart returns a task that is due after some time and has a payload row.
func apart(due time.Duration) task.Task {
	t := benchTask(7)
	now := task.InstantOf(time.Now())
	t.State, t.Seq, t.Created, t.Due = task.Scheduled, 1, now, now.Add(due)
	t.Wake, t.WakeRow.At, t.Payload, t.PayloadSize = t.Due, t.Due, nil, 5000
	return t
}

func payloadOp(t *task.Task) store.Op {
	return store.Op{
		Kind: store.PutPayload, Payload: make([]byte, t.PayloadSize),
		Task: task.Task{ID: t.PayloadID(), Partition: t.Partition, Due: t.Due, ExpireAt: t.Due.Add(7 * day)},
	}
}

// TestPayloadOfAnUsualTaskIsWrittenOnce counts the units of a task with a payload row.
func TestPayloadOfAnUsualTaskIsWrittenOnce(t *testing.T) {
	onPayloads(t, func(p *payloads) {
		row := apart(400 * day)
		p.apply(payloadOp(&row))
		p.wantLeft("written", row.ID, 446)
		before := p.db.Spent()
		p.apply(store.Op{Kind: store.PutWakeup, Task: row})
		time.Sleep(400 * day)
		live := step(row, task.Enqueued, row.Due.Add(time.Minute))
		p.apply(store.Op{Kind: store.PutTask, Task: live})
		claimed := step(live, task.Claimed, live.Wake)
		p.apply(store.Change(claimed, false, false)...)
		p.apply(store.Change(over(claimed, task.Success, row.Due), false, false)...)
		time.Sleep(time.Second) // until the wake-up row is deleted
		after := p.db.Spent()
		if write, read := after.Write-before.Write, after.Read-before.Read; write != 5 || read != 0 {
			t.Errorf("%v write units and %v read units besides the payload, want 5 and none", write, read)
		}
		p.wantLeft("at the end", row.ID, 46)
	})
}

// TestPayloadLastsAsLongAsItsTask makes tasks last longer than the first expiry of their payload.
func TestPayloadLastsAsLongAsItsTask(t *testing.T) {
	onPayloads(t, func(p *payloads) {
		row := apart(0)
		p.apply(payloadOp(&row))
		p.wantLeft("written", row.ID, 46)
		row = step(row, task.Enqueued, row.Due.Add(time.Minute))
		p.apply(store.Op{Kind: store.PutTask, Task: row})
		for n := range 20 { // of 40 days each
			row = step(row, task.RetriableFailure, task.InstantOf(time.Now()).Add(40*day))
			p.apply(store.Op{Kind: store.ReplaceTask, Task: row})
			time.Sleep(40 * day)
			if left, ok := p.left(row.ID); !ok || left < 10*day {
				t.Fatalf("backoff %d: the payload is there %v, for %v", n, ok, left)
			}
		}
		dead := over(row, task.Dead, task.InstantOf(time.Now()))
		dead.ExpireAt = dead.Ended.Add(task.DeadRetention)
		p.apply(store.Op{Kind: store.ReplaceTask, Task: dead})
		if left, ok := p.left(row.ID); !ok || left < task.DeadRetention {
			t.Errorf("of a dead letter: there %v, for %v", ok, left)
		}
		moved := step(dead, task.Scheduled, task.InstantOf(time.Now()).Add(300*day))
		moved.Ended, moved.ExpireAt, moved.Due = 0, 0, moved.Wake
		p.apply(store.Op{Kind: store.ReplaceTask, Task: moved})
		if left, ok := p.left(row.ID); !ok || left < 345*day {
			t.Errorf("of a task that is due in 300 days: there %v, for %v", ok, left)
		}
	})
}

// TestPayloadOfWhatIsNotDispatchedIsKept scans a wake-up row for a year and never dispatches it.
func TestPayloadOfWhatIsNotDispatchedIsKept(t *testing.T) {
	onPayloads(t, func(p *payloads) {
		row := apart(0)
		p.apply(payloadOp(&row), store.Op{Kind: store.PutWakeup, Task: row})
		for range 365 {
			time.Sleep(day)
			for range 3 {
				before := p.db.Spent()
				rows, err := p.d.ScanSchedule(p.Context(), row.Partition, store.WakeKey{}, 1<<62, 10)
				if err != nil || len(rows) != 1 {
					t.Fatal(len(rows), err)
				}
				synctest.Wait()
				if p.db.Spent().Read-before.Read > 1 {
					break // looked after, once a day
				}
			}
			if left, ok := p.left(row.ID); !ok || left < 10*day {
				t.Fatalf("there %v, for %v", ok, left)
			}
		}
	})
}

// TestPayloadThatIsThereAlreadyIsKept puts a payload that a call left behind which failed half-way.
func TestPayloadThatIsThereAlreadyIsKept(t *testing.T) {
	onPayloads(t, func(p *payloads) {
		row := apart(0)
		p.apply(payloadOp(&row))
		time.Sleep(44 * day)
		again := apart(30 * day)
		for _, ops := range [][]store.Op{{payloadOp(&again)}, {payloadOp(&again), wakeupOp(1, task.Partition{})}} {
			results, err := p.d.Apply(p.Context(), ops)
			if err != nil || !errors.Is(results[0], store.ErrConflict) {
				t.Fatalf("%v, %v; want a conflict", results, err)
			}
		}
		if left, ok := p.left(row.ID); !ok || left < 70*day {
			t.Errorf("there %v, for %v", ok, left)
		}
	})
}

// TestRowThatNeedsItsPayloadIsNotWrittenWithoutIt makes the read of the payload's expiry fail.
func TestRowThatNeedsItsPayloadIsNotWrittenWithoutIt(t *testing.T) {
	onPayloads(t, func(p *payloads) {
		row := apart(0)
		p.apply(payloadOp(&row), store.Op{Kind: store.PutTask, Task: row})
		p.db.Faults.Next("GetItem", awsfake.Denied, 1)
		late := step(row, task.RetriableFailure, row.Due.Add(60*day))
		after := store.Remove(&late)
		after.Follows = true
		results, err := p.d.Apply(p.Context(), []store.Op{{Kind: store.ReplaceTask, Task: late}, after})
		if err != nil || results[0] == nil || errors.Is(results[0], store.ErrUnknown) || errors.Is(results[0], store.ErrConflict) {
			t.Errorf("%v, %v; want a refusal", results, err)
		}
		if !errors.Is(results[1], store.ErrSkipped) {
			t.Errorf("what follows: %v, want that it was skipped", results[1])
		}
		p.apply(store.Op{Kind: store.ReplaceTask, Task: late})
		gone := apart(0)
		gone.ID[0]++
		gone.Wake = gone.Due.Add(60 * day)
		p.apply(store.Op{Kind: store.PutTask, Task: gone}) // without a payload row it is as good as it can be
	})
}

// slowReads is a database with slow reads.
type slowReads struct {
	*fakedynamo.DB

	takes time.Duration

	mu            sync.Mutex // guards all below
	reading, most int
}

func (s *slowReads) GetItem(ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	s.mu.Lock()
	s.reading++
	s.most = max(s.most, s.reading)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.reading--
		s.mu.Unlock()
	}()
	time.Sleep(s.takes)
	return s.DB.GetItem(ctx, in, options...)
}

// TestPayloadsAreLookedAfterTogether writes many rows whose payloads have to be extended.
func TestPayloadsAreLookedAfterTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, takes, together = 64, 100 * time.Millisecond, 16
		slow := &slowReads{DB: newFakeDB(t, fakedynamo.Config{}), takes: takes}
		p := &payloads{t, slow.DB, openOn(t, slow, dynamo.Config{})}
		var ops []store.Op
		for n := range rows {
			row := apart(0)
			row.ID[0] = byte(n)
			p.apply(payloadOp(&row), store.Op{Kind: store.PutTask, Task: row})
			ops = append(ops, store.Op{Kind: store.ReplaceTask, Task: step(row, task.RetriableFailure, row.Due.Add(60*day))})
		}
		began := time.Now()
		p.apply(ops...)
		if took := time.Since(began); took > (rows/together+1)*takes || slow.most > together {
			t.Errorf("%v, %d at a time; want up to %d", took, slow.most, together)
		}
		for i := range ops {
			if left, ok := p.left(ops[i].Task.ID); !ok || left < 70*day {
				t.Errorf("payload %d is there %v, for %v", i, ok, left)
			}
		}
	})
}
