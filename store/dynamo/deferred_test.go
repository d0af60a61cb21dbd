package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// deferMax is a little longer than a deferred deletion waits for other writes.
const deferMax = 110 * time.Millisecond

// counted counts the write requests, and can leave them without an answer.
type counted struct {
	*fakedynamo.DB

	requests, rows atomic.Int64
	hangs          atomic.Bool
}

func (c *counted) count(ctx context.Context, rows int) error {
	c.requests.Add(1)
	c.rows.Add(int64(rows))
	if c.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c *counted) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	if err := c.count(ctx, len(in.Statements)); err != nil {
		return nil, err
	}
	return c.DB.BatchExecuteStatement(ctx, in, o...)
}

func (c *counted) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if err := c.count(ctx, 1); err != nil {
		return nil, err
	}
	return c.DB.PutItem(ctx, in, o...)
}

func (c *counted) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	if err := c.count(ctx, 1); err != nil {
		return nil, err
	}
	return c.DB.DeleteItem(ctx, in, o...)
}

// deferring has two drivers on one service. The second does not know which rows the first is about to delete.
type deferring struct {
	*testing.T

	api    *counted
	d      *dynamo.Driver
	others *dynamo.Driver
	log    *bytes.Buffer
}

func onDeferring(t *testing.T, test func(s *deferring)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, log := newFakeDB(t, fakedynamo.Config{WriteUnits: -1, ReadUnits: -1}), &bytes.Buffer{}
		s := &deferring{T: t, api: &counted{DB: db}, others: openOn(t, db, dynamo.Config{}), log: log}
		s.d = dynamo.New(s.api, dynamo.Config{Prefix: fakePrefix, Logger: slog.New(slog.NewTextHandler(log, nil))})
		test(s)
		if err := s.d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// rows puts wake-up rows, and returns the ops that delete them.
func (s *deferring) rows(n int) (deletions []store.Op) {
	s.Helper()
	for i := range n {
		op := wakeupRow(i, hot, 0)
		put(s.T, s.d, op)
		deletions = append(deletions, store.Remove(&op.Task))
	}
	s.api.requests.Store(0)
	s.api.rows.Store(0)
	return deletions
}

// left returns how many rows a driver sees.
func (s *deferring) left(d *dynamo.Driver) int {
	s.Helper()
	found, err := d.ScanSchedule(s.Context(), hot, store.WakeKey{}, 1<<62, store.ScanMax)
	if err != nil {
		s.Fatal(err)
	}
	return len(found)
}

// TestDeletionsOfWakeupRowsAreDeferred checks that no caller waits for them, that they share requests, and
// that the driver that answered one no longer shows the row.
func TestDeletionsOfWakeupRowsAreDeferred(t *testing.T) {
	onDeferring(t, func(s *deferring) {
		deletions := s.rows(40)
		began := time.Now()
		for i := range deletions[:20] {
			put(s.T, s.d, deletions[i])
		}
		if waited := time.Since(began); waited != 0 || s.api.requests.Load() != 0 {
			s.Errorf("they took %v and %d requests", waited, s.api.requests.Load())
		}
		if mine, all := s.left(s.d), s.left(s.others); mine != 20 || all != 40 {
			s.Errorf("%d rows of %d are left for who deleted 20 of 40", mine, all)
		}
		key := store.KeyOf(&deletions[0].Task)
		if found, err := s.d.Wakeups(s.Context(), []store.WakeKey{key, store.KeyOf(&deletions[30].Task)}); err != nil || !found[0].ID.IsZero() || found[1].ID.IsZero() {
			s.Errorf("%v, %v", found, err)
		}
		put(s.T, s.d, taskRow(99, hot, epoch)) // has room for them
		if n, rows := s.api.requests.Load(), s.api.rows.Load(); n != 1 || rows != 21 || s.left(s.others) != 20 {
			s.Errorf("%d requests of %d rows, %d left", n, rows, s.left(s.others))
		}
		put(s.T, s.d, deletions[20:]...)
		time.Sleep(deferMax)
		if n := s.api.requests.Load(); n != 2 || s.left(s.others) != 0 || s.log.Len() != 0 {
			s.Errorf("%d requests, %d left: %s", n, s.left(s.others), s.log)
		}
	})
}

// TestDeferredDeletionsFollow makes the writes fail that deletions follow.
func TestDeferredDeletionsFollow(t *testing.T) {
	onDeferring(t, func(s *deferring) {
		live := taskRow(1, hot, epoch).Task
		put(s.T, s.d, store.FirstWithRow(live)...)
		wrong := over(step(live, task.Claimed, epoch), task.Success, epoch) // of a seq that the row does not have
		results, err := s.d.Apply(s.Context(), store.Change(wrong, false, false))
		if err != nil || !errors.Is(results[0], store.ErrConflict) || !errors.Is(results[1], store.ErrSkipped) {
			s.Errorf("%v, %v", results, err)
		}
		s.api.Faults.Next("PutItem", awsfake.LostAnswer, 1)
		live.WakeRow = task.WakeRow{At: live.Due, Seq: 1}
		results, err = s.d.Apply(s.Context(), store.Change(over(live, task.Success, epoch), false, false))
		if err != nil || !errors.Is(results[0], store.ErrUnknown) || !errors.Is(results[1], store.ErrUnknown) {
			s.Errorf("%v, %v", results, err)
		}
		time.Sleep(deferMax)
		if n := s.left(s.others); n != 1 {
			s.Errorf("%d rows are left, want the one of a task that may not have ended", n)
		}
	})
}

// TestARowIsPutAgainAfterItsDeferredDeletion checks that the order of the callers' results holds.
func TestARowIsPutAgainAfterItsDeferredDeletion(t *testing.T) {
	onDeferring(t, func(s *deferring) {
		deletions := s.rows(2)
		put(s.T, s.d, deletions...)
		put(s.T, s.d, deletions[0]) // once more
		again, higher := wakeupRow(0, hot, 0), bareRow(hot, 7)
		put(s.T, s.d, again, higher)
		time.Sleep(deferMax)
		if mine, all := s.left(s.d), s.left(s.others); mine != 2 || all != 2 {
			s.Errorf("%d and %d rows are left, want the two that were put again", mine, all)
		}
		put(s.T, s.d, deletions[1]) // of a row that has a higher seq by now
		if n := s.left(s.d); n != 2 {
			s.Errorf("%d rows are left, want 2", n)
		}
		time.Sleep(deferMax)
		if n := s.left(s.d); n != 2 || s.log.Len() != 0 {
			s.Errorf("%d rows are left, want 2: %s", n, s.log)
		}
	})
}

// TestAPutWaitsForTheDeletionInFlight puts a row again while the request that deletes it has no answer.
func TestAPutWaitsForTheDeletionInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		d := openOn(t, g, dynamo.Config{})
		rows := []store.Op{wakeupRow(0, hot, 0), wakeupRow(1, hot, 0)}
		g.pass <- struct{}{}
		put(t, d, rows...)
		<-g.arrived
		put(t, d, store.Remove(&rows[0].Task), store.Remove(&rows[1].Task))
		<-g.arrived
		done := make(chan error, 1)
		go func() {
			results, err := d.Apply(t.Context(), rows[:1])
			done <- errors.Join(append(results, err)...)
		}()
		time.Sleep(deferMax)
		if n := len(g.arrived); n != 0 {
			t.Errorf("%d requests were sent during the deletion, want none", n)
		}
		close(g.pass)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if found, err := d.ScanSchedule(t.Context(), hot, store.WakeKey{}, 1<<62, 10); err != nil || len(found) != 1 {
			t.Errorf("%d rows, %v; want the one that was put again", len(found), err)
		}
	})
}

// TestCloseSendsWhatIsDeferred closes the driver before the deletions are sent.
func TestCloseSendsWhatIsDeferred(t *testing.T) {
	onDeferring(t, func(s *deferring) {
		put(s.T, s.d, s.rows(60)...)
		if err := s.d.Close(); err != nil {
			s.Fatal(err)
		}
		if n := s.left(s.others); n != 0 {
			s.Errorf("%d rows are left", n)
		}
	})
}

// TestCloseDoesNotWaitForGood closes the driver while the service does not answer.
func TestCloseDoesNotWaitForGood(t *testing.T) {
	onDeferring(t, func(s *deferring) {
		put(s.T, s.d, s.rows(2000)...)
		s.api.hangs.Store(true)
		began := time.Now()
		if err := s.d.Close(); err != nil {
			s.Fatal(err)
		}
		if waited := time.Since(began); waited > 4*time.Second {
			s.Errorf("it waited %v", waited)
		}
		if !strings.Contains(s.log.String(), "left behind") {
			s.Errorf("the log says %q", s.log)
		}
	})
}

// TestDeferredDeletionsAreBounded defers more deletions than are kept, while the service does not answer.
// Those that fail are forgotten.
func TestDeferredDeletionsAreBounded(t *testing.T) {
	onDeferring(t, func(s *deferring) {
		s.rows(1)
		s.api.hangs.Store(true)
		const many = 12_000
		for from := 0; from < many; from += 3000 {
			var ops []store.Op
			for n := range 3000 {
				op := wakeupRow(from+n, hot, 0)
				ops = append(ops, store.Remove(&op.Task))
			}
			put(s.T, s.d, ops...)
		}
		if n := s.left(s.d); n != 0 {
			s.Errorf("%d rows are left for who deleted it", n)
		}
		time.Sleep(time.Hour)
		s.api.hangs.Store(false)
		if n := s.left(s.d); n != 1 {
			s.Errorf("%d rows are left, want the one whose deletion failed", n)
		}
		if lines := strings.Count(s.log.String(), "left behind"); lines == 0 || lines > 60 {
			s.Errorf("logged %d times:\n%s", lines, s.log)
		}
	})
}
