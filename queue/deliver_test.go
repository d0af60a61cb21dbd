package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/task"
)

func TestDeliverWhereADriverCannot(t *testing.T) {
	q := queue.New(&spy{}, queue.Config{})
	if q.Delivers() {
		t.Error("a driver without that capability delivers")
	}
	for _, err := range q.Deliver(t.Context(), make([]queue.Delivery, 2)) {
		if !errors.Is(err, queue.ErrCannotDeliver) {
			t.Errorf("deliver: %v", err)
		}
	}
	if err := q.CheckPayload(nil); !errors.Is(err, queue.ErrCannotDeliver) {
		t.Errorf("check of a payload: %v", err)
	}
	err := q.CheckLambda(task.Lambda{Name: "mail", Mode: task.Deliver})
	if !errors.Is(err, task.ErrInvalid) || !errors.Is(err, queue.ErrCannotDeliver) || !strings.Contains(err.Error(), "mail") {
		t.Errorf("a lambda in deliver mode: %v", err)
	}
	if err := q.Provision(t.Context(), task.Lambda{Name: "mail", Mode: task.Deliver}); !errors.Is(err, queue.ErrCannotDeliver) {
		t.Errorf("provision of a lambda in deliver mode: %v", err)
	}
	if err := q.Provision(t.Context(), task.Lambda{Name: "mail"}); err != nil {
		t.Errorf("provision of a managed lambda: %v", err)
	}
}

func TestDeliverRefusesDelaysThatNoQueueKeeps(t *testing.T) {
	d := queuetest.NewDelivering(&spy{}, func() task.Instant { return 7 })
	_, more := d.Delivered()
	q := queue.New(d, queue.Config{})
	results := q.Deliver(t.Context(), []queue.Delivery{
		{ID: "early", Delay: -1}, {ID: "good", Delay: queue.DelayMax}, {ID: "late", Delay: queue.DelayMax + 1}, {ID: "now"},
	})
	for i, refused := range []bool{true, false, true, false} {
		if errors.Is(results[i], task.ErrInvalid) != refused {
			t.Errorf("outcome %d: %v", i, results[i])
		}
	}
	got, _ := d.Delivered()
	if len(got) != 2 || got[0].ID != "good" || got[1].ID != "now" || got[0].VisibleAt() != task.Instant(7).Add(15*time.Minute) {
		t.Errorf("delivered %+v", got)
	}
	select {
	case <-more:
	default:
		t.Error("nobody was told of the arrivals")
	}
	if err := q.CheckPayload(make([]byte, queuetest.DeliveringBytesMax)); err != nil {
		t.Error(err)
	}
	if err := q.CheckPayload(make([]byte, queuetest.DeliveringBytesMax+1)); !errors.Is(err, queue.ErrUndeliverable) {
		t.Errorf("too large a payload: %v", err)
	}
	if err := q.Provision(t.Context(), task.Lambda{Name: "mail", Mode: task.Deliver}); err != nil || len(d.Provisioned()) != 1 {
		t.Errorf("provision: %v, %d lambdas", err, len(d.Provisioned()))
	}
}
