package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// spy is a driver that records its calls; the methods that it lacks are not called.
type spy struct {
	queue.Driver

	sends []int
	limit int
	ahead time.Duration
}

func (s *spy) Send(_ context.Context, messages []queue.Message) []error {
	s.sends = append(s.sends, len(messages))
	results := make([]error, len(messages))
	for i := range messages {
		if messages[i].Task.Seq%1000 == 0 {
			results[i] = queue.ErrFull
		}
	}
	return results
}

func (s *spy) Receive(_ context.Context, _ []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	s.limit, s.ahead = limit, ahead
	return nil, nil
}

func TestSendKeepsTheOrderOfOutcomesOverSeveralCalls(t *testing.T) {
	d := &spy{}
	messages := make([]queue.Message, 2*queue.SendMax+5)
	for i := range messages {
		messages[i].Task.Seq = uint64(i)
	}
	results := queue.New(d, queue.Config{}).Send(t.Context(), messages)
	if len(results) != len(messages) || len(d.sends) != 3 || d.sends[2] != 5 {
		t.Fatalf("%d outcomes of %d messages in calls of %v", len(results), len(messages), d.sends)
	}
	for i, err := range results {
		if errors.Is(err, queue.ErrFull) != (i%1000 == 0) {
			t.Errorf("outcome %d: %v", i, err)
		}
	}
	if results := queue.New(d, queue.Config{}).Send(t.Context(), nil); len(results) != 0 || len(d.sends) != 3 {
		t.Error("sent nothing, but the driver was asked")
	}
}

func TestReceiveIsBounded(t *testing.T) {
	for _, c := range []struct {
		limit, wantLimit int
		ahead, wantAhead time.Duration
	}{
		{1, 1, 0, 0},
		{queue.ReceiveMax + 1, queue.ReceiveMax, time.Hour, queue.AheadMax},
		{7, 7, -time.Second, 0},
	} {
		d := &spy{}
		if _, err := queue.New(d, queue.Config{}).Receive(t.Context(), nil, c.limit, c.ahead); err != nil || d.limit != c.wantLimit || d.ahead != c.wantAhead {
			t.Errorf("limit %d and ahead %v reach the driver as %d and %v (%v)", c.limit, c.ahead, d.limit, d.ahead, err)
		}
	}
	for _, limit := range []int{0, -1} {
		if _, err := queue.New(&spy{}, queue.Config{}).Receive(t.Context(), nil, limit, 0); err == nil {
			t.Errorf("limit %d was accepted", limit)
		}
	}
}

func TestDropWhereADriverCannot(t *testing.T) {
	if err := queue.New(&spy{}, queue.Config{}).Drop(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

func TestNameForATask(t *testing.T) {
	p := task.Partition{Lambda: 3, Priority: 2, Shard: 9}
	for _, c := range []struct {
		t    task.Task
		want queue.Class
	}{
		{task.Task{Partition: p}, queue.Normal},
		{task.Task{Partition: p, Suspect: true}, queue.Suspect},
		{task.Task{Partition: p, Suspect: true, Blamed: 1}, queue.Blamed},
		{task.Task{Partition: p, Lost: 3}, queue.Normal},
	} {
		if got := queue.NameFor(&c.t); got != (queue.Name{Lambda: 3, Priority: 2, Class: c.want}) {
			t.Errorf("task goes to %v, want class %d", got, c.want)
		}
	}
}
