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

// meter sums what requests consumed.
type meter struct {
	mu          sync.Mutex // guards both
	read, write float64
}

func (m *meter) consumed(c dynamo.Consumption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read += c.Read
	m.write += c.Write
}

// taken is what was consumed since the last time.
func (m *meter) taken() (read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	read, write = m.read, m.write
	m.read, m.write = 0, 0
	return read, write
}

// TestUnits measures what every kind of call costs; the package comment has the table.
func TestUnits(t *testing.T) {
	t.Parallel()
	var m meter
	local := awslocal.Start(t)
	client, prefix := dynamodb.NewFromConfig(local.Config(t)), local.Prefix(t)
	if err := dynamo.Setup(t.Context(), client, prefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	d := dynamo.New(client, dynamo.Config{Prefix: prefix, Single: true, Observer: dynamo.Observer{Consumed: m.consumed}})
	t.Cleanup(func() { _ = d.Close() })
	now := task.InstantOf(time.Now())
	waiting := benchTask(1)
	waiting.State, waiting.Seq, waiting.Created, waiting.Due, waiting.Wake = task.Scheduled, 1, now, now, now
	waiting.Payload, waiting.PayloadSize = bytes.Repeat([]byte("p"), store.PayloadInlineMaxDefault), store.PayloadInlineMaxDefault
	taken := step(waiting, task.Acquired, waiting.Wake)
	enqueued := step(waiting, task.Enqueued, now.Add(time.Minute))
	claimed := step(enqueued, task.Claimed, enqueued.Wake)
	claimed.Worker, claimed.Attempt, claimed.ClaimedAt = "some-host-7f9c4-1/3141", 1, now
	moved := step(claimed, task.Claimed, now.Add(time.Hour))
	success := over(moved, task.Success, now)
	redriven := step(success, task.Enqueued, now)
	redriven.Ended, redriven.ExpireAt = 0, 0
	dead := over(redriven, task.Dead, now)
	apart := task.Task{ID: waiting.ID, Due: now}
	for _, c := range []struct {
		what  string
		op    store.Op
		write float64
	}{
		{"PutWaiting", store.Op{Kind: store.PutWaiting, Task: waiting}, 1},
		{"ReplaceWaiting", store.Op{Kind: store.ReplaceWaiting, Task: taken}, 1},
		{"DeleteWaiting", store.Op{Kind: store.DeleteWaiting, Task: taken}, 1},
		{"PutTask", store.Op{Kind: store.PutTask, Task: enqueued}, 2},
		{"ReplaceTask that leaves the wake-up", store.Op{Kind: store.ReplaceTask, Task: claimed}, 1},
		{"ReplaceTask that moves the wake-up", store.Op{Kind: store.ReplaceTask, Task: moved}, 3},
		{"ReplaceTask by success", store.Op{Kind: store.ReplaceTask, Task: success}, 2},
		{"ReplaceTask out of an end", store.Op{Kind: store.ReplaceTask, Task: redriven}, 2},
		{"ReplaceTask by death", store.Op{Kind: store.ReplaceTask, Task: dead}, 3},
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
	// DynamoDB Local charges nothing for a scan that finds nothing, DynamoDB does: 1 and 0.5.
	p := waiting.Partition
	other := enqueued
	other.ID[0]++
	other.Wake = now
	if _, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutWaiting, Task: waiting}, {Kind: store.PutTask, Task: other}}); err != nil {
		t.Fatal(err)
	}
	m.taken()
	ctx := t.Context()
	for _, c := range []struct {
		what string
		call func() error
		read float64
	}{
		{"ScanWaiting", func() error { _, err := d.ScanWaiting(ctx, p, store.WaitingKey{}, now, 10); return err }, 1},
		{"ScanWakeups", func() error { _, err := d.ScanWakeups(ctx, p, store.WakeKey{}, now, 10); return err }, 0.5 + 1},
		{"Tasks", func() error { _, err := d.Tasks(ctx, []task.ID{waiting.ID}); return err }, 1},
		{"Control", func() error { _, err := d.Controls(ctx, "k", "n"); return err }, 1},
	} {
		err := c.call()
		read, write := m.taken()
		if err != nil || read != c.read || write != 0 {
			t.Errorf("%s: %v read units and %v write units, %v; want %v and none", c.what, read, write, err, c.read)
		}
	}
}

// step is the row after a change of state.
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
