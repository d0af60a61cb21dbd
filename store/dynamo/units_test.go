package dynamo_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// meter adds up the capacity that requests consumed.
type meter struct {
	mu          sync.Mutex // guards both
	read, write float64
}

func (m *meter) consumed(c awslocal.Consumption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read += c.Read
	m.write += c.Write
}

// taken returns the capacity consumed since the last call.
func (m *meter) taken() (read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	read, write = m.read, m.write
	m.read, m.write = 0, 0
	return read, write
}

// TestUnits measures the cost of every kind of call; the package comment has the table.
func TestUnits(t *testing.T) {
	t.Parallel()
	var m meter
	local := awslocal.Start(t)
	client, prefix := dynamodb.NewFromConfig(local.Config(t)), local.Prefix(t)
	if err := dynamo.Setup(t.Context(), client, prefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	d := dynamo.New(awslocal.Metered(local.Config(t), m.consumed), dynamo.Config{Prefix: prefix, Single: true})
	t.Cleanup(func() { _ = d.Close() })
	now := task.InstantOf(time.Now())
	wakeup := benchTask(1)
	wakeup.State, wakeup.Seq, wakeup.Created, wakeup.Due, wakeup.Wake = task.Scheduled, 1, now, now, now
	wakeup.WakeRow = task.WakeRow{At: now, Seq: 1}
	wakeup.Payload, wakeup.PayloadSize = bytes.Repeat([]byte("p"), store.PayloadInlineMaxDefault), store.PayloadInlineMaxDefault
	taken := step(wakeup, task.Acquired, wakeup.Wake)
	taken.WakeRow.Seq = taken.Seq
	bare := task.Task{ID: wakeup.ID, Partition: wakeup.Partition, Seq: 3, Wake: now, WakeRow: task.WakeRow{At: now, Seq: 3}}
	enqueued := step(wakeup, task.Enqueued, now.Add(time.Minute))
	claimed := step(enqueued, task.Claimed, enqueued.Wake)
	claimed.Worker, claimed.Attempt, claimed.ClaimedAt = "some-host-7f9c4-1/3141", 1, now
	moved := step(claimed, task.Claimed, now.Add(time.Hour))
	success := over(moved, task.Success, now)
	redriven := step(success, task.Enqueued, now)
	redriven.Ended, redriven.ExpireAt = 0, 0
	dead := over(redriven, task.Dead, now)
	again := step(dead, task.Enqueued, now)
	again.Ended, again.ExpireAt = 0, 0
	apart := task.Task{ID: wakeup.ID, Due: now}
	for _, c := range []struct {
		what  string
		op    store.Op
		write float64
	}{
		{"PutWakeup", store.Op{Kind: store.PutWakeup, Task: wakeup}, 1},
		{"ReplaceWakeup", store.Op{Kind: store.ReplaceWakeup, Task: taken}, 1},
		{"PutWakeup over a lower one", store.Op{Kind: store.PutWakeup, Task: bare}, 1},
		{"DeleteWakeup", store.Op{Kind: store.DeleteWakeup, Task: bare}, 1},
		{"PutTask", store.Op{Kind: store.PutTask, Task: enqueued}, 1},
		{"ReplaceTask", store.Op{Kind: store.ReplaceTask, Task: claimed}, 1},
		{"ReplaceTask that moves", store.Op{Kind: store.ReplaceTask, Task: moved}, 1},
		{"ReplaceTask by success", store.Op{Kind: store.ReplaceTask, Task: success}, 1},
		{"ReplaceTask out of an end", store.Op{Kind: store.ReplaceTask, Task: redriven}, 1},
		{"ReplaceTask by death", store.Op{Kind: store.ReplaceTask, Task: dead}, 2},
		{"ReplaceTask out of death", store.Op{Kind: store.ReplaceTask, Task: again}, 2},
		{"PutPayload of 10 KB", store.Op{Kind: store.PutPayload, Task: apart, Payload: make([]byte, 10_000)}, 10},
		{"DeletePayload of 10 KB", store.Op{Kind: store.DeletePayload, Task: apart}, 10},
		{"PutControl", store.Op{Kind: store.PutControl, Control: store.Control{Kind: "k", Name: "n", Version: 1, Value: make([]byte, 900)}}, 1},
		{"DeleteControl", store.Op{Kind: store.DeleteControl, Control: store.Control{Kind: "k", Name: "n", Version: 1}}, 1},
	} {
		_, err := d.Apply(t.Context(), []store.Op{c.op})
		read, write := m.taken()
		if err != nil || write != c.write || read != 0 {
			t.Errorf("%s: %v write units and %v read units, %v; want %v and none", c.what, write, read, err, c.write)
		}
	}
	// DynamoDB Local charges nothing for a scan that finds nothing, DynamoDB does: 1.
	p := wakeup.Partition
	if _, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutWakeup, Task: wakeup}}); err != nil {
		t.Fatal(err)
	}
	m.taken()
	ctx := t.Context()
	for _, c := range []struct {
		what string
		call func() error
		read float64
	}{
		{"ScanSchedule", func() error { _, err := d.ScanSchedule(ctx, p, store.WakeKey{}, now, 10); return err }, 1},
		{"Wakeups", func() error { _, err := d.Wakeups(ctx, []store.WakeKey{store.KeyOf(&wakeup)}); return err }, 1},
		{"Tasks", func() error { _, err := d.Tasks(ctx, []task.ID{wakeup.ID}); return err }, 1},
		{"Control", func() error { _, err := d.Controls(ctx, "k", "n"); return err }, 1},
	} {
		err := c.call()
		read, write := m.taken()
		if err != nil || read != c.read || write != 0 {
			t.Errorf("%s: %v read units and %v write units, %v; want %v and none", c.what, read, write, err, c.read)
		}
	}
}

// step returns the row after a change of state.
func step(t task.Task, s task.State, wake task.Instant) task.Task {
	t.Seq++
	t.State, t.Wake = s, wake
	return t
}

func over(t task.Task, s task.State, now task.Instant) task.Task {
	t = step(t, s, 0)
	t.Ended, t.ExpireAt = now, now.Add(7*24*time.Hour)
	t.History = []task.Attempt{{Number: 1, Worker: t.Worker, Start: now, End: now, Outcome: task.OutcomeSuccess}}
	return t
}
