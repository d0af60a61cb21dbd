package inbound_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// doubtfulTasks are wake-up rows of tasks that were due long ago, one for each payload.
func (b *buffered) doubtfulTasks(payloads ...string) (rows []task.Task) {
	b.t.Helper()
	for n, payload := range payloads {
		t := task.Task{
			ID: task.NewID(start, uint64(n), 1), Partition: task.Partition{Lambda: b.lambda.Ref, Shard: 1}, State: task.Scheduled, Seq: 1,
			Created: start, Due: start.Add(time.Hour), Collection: "c", PayloadSize: uint32(len(payload)),
			Overrides: task.Overrides{MaxAttempts: 3, Timeout: 2 * time.Second},
		}
		if len(payload) > b.store.PayloadInlineMax() {
			b.apply(store.Op{Kind: store.PutPayload, Payload: []byte(payload), Task: task.Task{ID: t.PayloadID(), Partition: t.Partition, Due: t.Due}})
		} else {
			t.Payload = []byte(payload)
		}
		first := store.First(t)
		b.apply(first...)
		rows = append(rows, first[0].Task)
	}
	b.time.Advance(500 * time.Hour)
	return rows
}

func TestATaskThatMayHaveRunIsSetAsideAndRetried(t *testing.T) {
	for _, payload := range []string{"short", strings.Repeat("long ", 100)} {
		runBuffered(t, nil, func(b *buffered) {
			rows := b.doubtfulTasks(payload)
			id := b.Sealer.Seal(task.TokenOf(&rows[0]))
			for range 2 { // as if the first time had not come to the delete
				if n, err := b.rejects.SetAside(b.ctx, rows); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			all := b.rejected()
			if len(all) != 1 || all[0].Reason != ingest.ReasonStale || all[0].Id != id || all[0].Lambda != "mail" || all[0].Accepted != int64(start) {
				t.Fatalf("set aside: %v", all)
			}
			if !strings.Contains(all[0].Text, "it may have run") || len(b.aside) != 2 {
				t.Errorf("told %d times: %s", len(b.aside), all[0].Text)
			}
			if r := b.retry(all[0].Name)[0]; r.Problem != nil || r.Id != id || b.messages() != 1 || len(b.rejected()) != 0 {
				t.Fatalf("%v, %d messages", r, b.messages())
			}
			// The row that was set aside is deleted only now. The row of the retried task stays.
			b.wantNotRemoved(&rows[0])
			got, err := b.store.Task(b.ctx, rows[0].ID)
			if err != nil || got.State != task.Enqueued || got.Due != rows[0].Due || got.Collection != "c" || got.Partition != rows[0].Partition || got.Overrides != rows[0].Overrides {
				t.Errorf("%+v, %v", got, err)
			}
			if kept, err := b.payloadOf(&got); string(kept) != payload || err != nil {
				t.Errorf("payload %q, %v", kept, err)
			}
		})
	}
}

func (b *buffered) wantNotRemoved(row *task.Task) {
	b.t.Helper()
	results, err := b.store.Apply(b.ctx, []store.Op{store.Remove(row)})
	if err != nil || !errors.Is(results[0], store.ErrConflict) {
		b.t.Errorf("the delete of a row as it was before: %v, %v", results, err)
	}
}

func (b *buffered) payloadOf(t *task.Task) ([]byte, error) {
	if !t.PayloadStoredApart() {
		return t.Payload, nil
	}
	return b.store.Payload(b.ctx, t.PayloadID())
}

// A retry that finds the queue full waits in the schedule, as a row that no gap makes doubtful again.
func TestARetryThatWaitsIsNew(t *testing.T) {
	runBuffered(t, func(c *settings) { c.Start.NearDepthMax = -1 }, func(b *buffered) {
		rows := b.doubtfulTasks("p")
		if _, err := b.rejects.SetAside(b.ctx, rows); err != nil {
			t.Fatal(err)
		}
		now := b.clock.Now()
		b.retry(b.rejected()[0].Name)
		b.wantNotRemoved(&rows[0])
		left, err := b.store.Wakeups(b.ctx, []store.WakeKey{store.KeyOf(&rows[0])})
		if err != nil || left[0].ID != rows[0].ID || left[0].Created != now || left[0].State != task.Scheduled {
			t.Errorf("%+v, %v", left, err)
		}
	})
}

func TestWhatCannotBeSetAside(t *testing.T) {
	runBuffered(t, func(c *settings) { c.Rejecting.Max = 2 }, func(b *buffered) {
		rows := b.doubtfulTasks("1", "2", "3")
		if n, err := b.rejects.SetAside(b.ctx, rows); n != 2 || err == nil || !strings.Contains(err.Error(), "no room") || len(b.rejected()) != 2 {
			t.Errorf("without room: %d, %v", n, err)
		}
	})
	runBuffered(t, nil, func(b *buffered) {
		rows := b.doubtfulTasks("1", "2")
		b.driver.Fail(store.PutControl, 1, 100, storetest.NotApplied)
		b.during(time.Minute, func() {
			if n, err := b.rejects.SetAside(b.ctx, rows); n != 0 || err == nil {
				t.Errorf("while the store fails: %d, %v", n, err)
			}
		})
		rows[0].Partition.Lambda = 999
		if n, err := b.rejects.SetAside(b.ctx, rows); n != 0 || err == nil {
			t.Errorf("of an unknown lambda: %d, %v", n, err)
		}
	})
	runBuffered(t, nil, func(b *buffered) {
		rows := b.doubtfulTasks(strings.Repeat("long ", 100), strings.Repeat("gone ", 100))
		for i := range rows {
			b.apply(store.Op{Kind: store.DeletePayload, Task: task.Task{ID: rows[i].PayloadID(), Partition: rows[i].Partition}})
		}
		if n, err := b.rejects.SetAside(b.ctx, rows); n != 2 || err != nil || len(b.rejected()) != 2 {
			t.Fatalf("whose payloads are gone: %d, %v", n, err)
		}
		wantRefusal(t, "retry", b.retry(b.rejected()[0].Name)[0].Problem, kinesinv1.Reason_REASON_NOT_FOUND, "delete it")
	})
}
