package hsc

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// obedientStore takes every write, so that the time measured is the HSC's own.
type obedientStore struct{ Store }

func (obedientStore) Apply(_ context.Context, ops []store.Op) ([]error, error) {
	return make([]error, len(ops)), nil
}

// obedientScheduler ignores what it is told.
type obedientScheduler struct{ Scheduler }

func (obedientScheduler) Awake(*task.Task) {}
func (obedientScheduler) Done([]task.Task) {}

// endlessQueue returns messages until left is used up.
type endlessQueue struct {
	Queue

	model task.Task
	left  int
}

func (q *endlessQueue) Receive(ctx context.Context, _ []queue.Name, limit int, _ time.Duration) ([]queue.Message, error) {
	if q.left == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n := min(limit, q.left)
	messages := make([]queue.Message, n)
	for i := range messages {
		messages[i].Task = q.model
		binary.BigEndian.PutUint64(messages[i].Task.ID[8:], uint64(q.left-i))
	}
	q.left -= n
	return messages, nil
}

func (*endlessQueue) Delete(context.Context, []queue.Message) error { return nil }

// echo is a worker that succeeds at once, and ends the stream after left tasks.
type echo struct {
	hello    *kinesinv1.WorkRequest
	requests chan *kinesinv1.WorkRequest
	left     int
}

func (e *echo) Receive() (*kinesinv1.WorkRequest, error) {
	if h := e.hello; h != nil {
		e.hello = nil
		return h, nil
	}
	if r, open := <-e.requests; open {
		return r, nil
	}
	return nil, io.EOF
}

func (e *echo) Send(r *kinesinv1.WorkResponse) error {
	e.left -= len(r.GetAcks())
	if len(r.GetTasks()) > 0 {
		results := make([]*kinesinv1.Result, len(r.GetTasks()))
		for i, c := range r.GetTasks() {
			results[i] = &kinesinv1.Result{Task: c.GetTask(), Attempt: c.GetAttempt(), Outcome: "success", Started: r.GetNow()}
		}
		e.requests <- &kinesinv1.WorkRequest{Results: results}
	}
	if e.left == 0 {
		close(e.requests)
		e.left = -1
	}
	return nil
}

// BenchmarkDrain moves tasks from their queue to their end, through one stream with 100 slots and no network;
// an operation is one task.
func BenchmarkDrain(b *testing.B) {
	b.Run("drivers=none", func(b *testing.B) {
		f := newFixture(b, false)
		f.svc.Store = obedientStore{f.store}
		f.svc.Queue = &endlessQueue{Queue: f.queue, model: f.task("mail"), left: b.N}
		f.drain(b)
	})
	b.Run("drivers=memory", func(b *testing.B) {
		f := newFixture(b, false)
		for left := b.N; left > 0; left -= 1000 {
			f.enqueueMany("mail", min(left, 1000))
		}
		f.drain(b)
	})
}

func (f *fixture) drain(b *testing.B) {
	b.Helper()
	f.svc.Scheduler = obedientScheduler{f}
	e := &echo{left: b.N, requests: make(chan *kinesinv1.WorkRequest, 4096)}
	e.hello = &kinesinv1.WorkRequest{Hello: &kinesinv1.Hello{Worker: f.register(), Groups: []*kinesinv1.SlotGroup{slots(100, "mail")}}}
	b.ReportAllocs()
	b.ResetTimer()
	if err := f.svc.serveStream(f.ctx, e); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	f.stop()
}
