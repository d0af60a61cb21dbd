package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// batch is how many tasks or rows are written at a time.
const batch = 1000

// Node is a server in this process, for tests of what it does with its drivers, and a client of it.
type Node struct {
	Served *node.Node
	Client *sdk.Client
	URL    string

	tb       testing.TB
	listener net.Listener
	stop     func()
}

// RunNode runs a node of NewNode.
func RunNode(tb testing.TB, c node.Config, options ...sdk.ClientOption) *Node {
	tb.Helper()
	n := NewNode(tb, c, options...)
	n.Start()
	return n
}

// NewNode makes a node with a port of its own, for drivers that have to know it before it runs. It is in real
// time and owns all partitions. Without a log of its own it writes what is wrong to the test's.
func NewNode(tb testing.TB, c node.Config, options ...sdk.ClientOption) *Node {
	tb.Helper()
	c.Clock, c.Membership, c.Log = clock.Real(), partition.Static("one"), cmp.Or(c.Log, Log(tb))
	served, err := node.New(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	n := &Node{Served: served, URL: "http://" + listener.Addr().String(), tb: tb, listener: listener}
	if n.Client, err = sdk.NewClient(n.URL, options...); err != nil {
		tb.Fatal(err)
	}
	return n
}

// Start runs the node until Stop, or until the test is over.
func (n *Node) Start() {
	n.tb.Helper()
	http := api.NewServer(node.Trusting(n.Served.Handler()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.tb.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		if err := n.Served.Run(ctx); err != nil {
			n.tb.Errorf("run: %v", err)
		}
	})
	group.Go(func() { _ = http.Serve(n.listener) })
	n.stop = sync.OnceFunc(func() {
		n.Client.Close()
		cancel()
		_ = http.Close()
		group.Wait()
		if err := n.Served.Close(); err != nil {
			n.tb.Error(err)
		}
	})
	n.tb.Cleanup(n.stop)
}

// Stop ends the node, and closes its drivers.
func (n *Node) Stop() { n.stop() }

// Log is the log of a test; only what is wrong gets there.
func Log(tb testing.TB) *slog.Logger {
	tb.Helper()
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Lambda creates a lambda of one priority.
func (n *Node) Lambda(l admin.Lambda) {
	n.tb.Helper()
	l.Priorities = []string{"normal"}
	if _, _, err := admin.New(n.Client).Lambdas.Create(n.tb.Context(), l); err != nil {
		n.tb.Fatal(err)
	}
}

// Work runs a worker for a lambda until the test is over.
func Work[T any](n *Node, lambda string, h func(ctx context.Context, t *sdk.Task[T]) error, options ...sdk.WorkerOption) {
	n.tb.Helper()
	w := sdk.NewWorker(n.Client, options...)
	sdk.NewLambda[T](lambda).Handle(w, h)
	runtest.Start(n.tb, w.Run)
}

// Schedule accepts tasks and returns their ids.
func (n *Node) Schedule(items ...sdk.Item) []sdk.ID {
	n.tb.Helper()
	results, err := n.Client.ScheduleMany(n.tb.Context(), items)
	if err != nil {
		n.tb.Fatal(err)
	}
	ids := make([]sdk.ID, len(results))
	for i := range results {
		ids[i] = results[i].ID
	}
	return ids
}

// Succeed waits until all tasks have.
func (n *Node) Succeed(ids []sdk.ID) []sdk.TaskInfo {
	n.tb.Helper()
	ctx, cancel := context.WithTimeout(n.tb.Context(), SettleMax)
	defer cancel()
	results, err := n.Client.Wait(ctx, ids...)
	if err != nil {
		n.tb.Fatal(err, unended(results))
	}
	infos := make([]sdk.TaskInfo, len(results))
	for i := range results {
		if results[i].Err != nil || results[i].Task.State != sdk.StateSuccess {
			n.tb.Fatalf("task %s: %v %v", ids[i], results[i].Task.State, results[i].Err)
		}
		infos[i] = results[i].Task
	}
	return infos
}

// unended says how many tasks have not ended, and what is known of the first few.
func unended(results []sdk.GetResult) string {
	const shownMax = 3
	count, shown := 0, ""
	for i := range results {
		if t := &results[i].Task; !t.State.IsEnd() {
			if count++; count <= shownMax {
				shown += fmt.Sprintf("\n%+v %v", *t, results[i].Err)
			}
		}
	}
	return fmt.Sprintf("; %d of %d tasks have not ended, such as:%s", count, len(results), shown)
}

// Leftovers stores leftover rows: wake-up rows of an hour ago whose tasks have ended, each with a payload.
func Leftovers(tb testing.TB, d store.Driver, p task.Partition, n int, payload []byte) {
	tb.Helper()
	rows, first := store.New(d, store.Config{}), task.InstantOf(time.Now().Add(-time.Hour)).CeilMillis()
	for begin := 0; begin < n; begin += batch {
		var ops []store.Op
		for i := begin; i < min(begin+batch, n); i++ {
			due := first.Add(time.Duration(i) * time.Millisecond)
			one := task.Task{
				ID: task.NewID(first, 0, uint64(i)), Partition: p, State: task.Scheduled, Seq: 1, Created: first,
				Due: due, Wake: due, WakeRow: task.WakeRow{At: due, Seq: 1}, Payload: payload, PayloadSize: uint32(len(payload)),
			}
			ended := one
			ended.State, ended.Seq, ended.Wake, ended.Ended, ended.ExpireAt = task.Success, 4, 0, due, due.Add(24*time.Hour)
			ops = append(ops, store.Op{Kind: store.PutWakeup, Task: one}, store.Op{Kind: store.PutTask, Task: ended})
		}
		results, err := rows.Apply(tb.Context(), ops)
		if err = errors.Join(append(results, err)...); err != nil {
			tb.Fatal(err)
		}
	}
}
