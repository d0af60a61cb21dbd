package mem_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/task"
)

func batchOf(n int, due task.Instant) []queue.Message {
	batch := make([]queue.Message, n)
	payload := make([]byte, 200)
	for i := range batch {
		batch[i] = messageDue(due + task.Instant(i*7%n))
		batch[i].Task.Payload = payload
	}
	return batch
}

// BenchmarkSendReceiveDelete sends, receives and deletes a message in each operation, in a queue of
// thousands.
func BenchmarkSendReceiveDelete(b *testing.B) {
	for _, size := range []int{1, 25, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			c := clock.Real()
			d := mem.New(c, mem.Config{})
			names := []queue.Name{one}
			batch := batchOf(size, c.Now()-1000)
			for range 5000 / size {
				d.Send(b.Context(), batch)
			}
			b.ReportAllocs()
			for done := 0; b.Loop(); done++ {
				if done%size != 0 {
					continue
				}
				d.Send(b.Context(), batch)
				got, err := d.Receive(b.Context(), names, size, 0)
				if err != nil || len(got) != size {
					b.Fatal(len(got), err)
				}
				_ = d.Delete(b.Context(), got)
			}
		})
	}
}

// BenchmarkWaitingReceivers has 100 receivers that wait most of the time; an operation is one message.
func BenchmarkWaitingReceivers(b *testing.B) {
	c := clock.Real()
	d := mem.New(c, mem.Config{})
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	var seen atomic.Int64
	for range 100 {
		all.Go(func() {
			for {
				got, err := d.Receive(ctx, []queue.Name{one, {Lambda: 2}, {Lambda: 3}}, 10, 0)
				if err != nil {
					return
				}
				_ = d.Delete(ctx, got)
				seen.Add(int64(len(got)))
			}
		})
	}
	batch := batchOf(100, 0)
	b.ReportAllocs()
	for done := 0; b.Loop(); done++ {
		if done%100 != 0 {
			continue
		}
		for _, err := range d.Send(ctx, batch) {
			if err != nil {
				<-d.Room(one)
			}
		}
	}
	cancel()
	all.Wait()
	b.ReportMetric(float64(seen.Load())/b.Elapsed().Seconds(), "received/s")
}
