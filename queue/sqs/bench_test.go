package sqs_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

// cpu returns the CPU time of this process, without the emulator.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFlow sends, receives and deletes tasks over ElasticMQ, the SDK included; an operation is one task.
func BenchmarkFlow(b *testing.B) {
	for _, pack := range []int{1, sqs.PackTasksMaxDefault} {
		b.Run(fmt.Sprintf("pack=%d", pack), func(b *testing.B) {
			l := onElasticMQ(b)
			d, c := l.open(func(config *sqs.Config) { config.PackTasksMax = pack })
			l.create(d, task.Lambda{Name: "mail", Ref: 7})
			done := make(chan struct{}, 1<<20)
			for range 2 {
				go func() {
					for {
						got, err := d.Receive(b.Context(), []queue.Name{mail, {Lambda: 7, Class: queue.Suspect}}, 500, 0)
						if err != nil {
							return
						}
						_ = d.Delete(b.Context(), got)
						for range got {
							done <- struct{}{}
						}
					}
				}()
			}
			var sent atomic.Int64
			batch := benchmarkTasks(100)
			before := cpu(b)
			b.ResetTimer()
			const senders = 4
			total := (b.N + 99) / 100 * 100
			for range senders {
				go func() {
					for sent.Add(100) <= int64(total) {
						for _, err := range d.Send(b.Context(), batch) {
							if err != nil {
								b.Error(err)
								return
							}
						}
					}
				}()
			}
			for range total {
				<-done
			}
			b.StopTimer()
			used := cpu(b) - before
			_ = d.Close()
			b.ReportMetric(float64(used.Microseconds())/float64(total), "cpu-µs/op")
			b.ReportMetric(float64(c.total())/float64(total)*1000, "requests/1000")
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkOneAtATime sends, receives and deletes one task after the other through an idle queue.
func BenchmarkOneAtATime(b *testing.B) {
	l := onElasticMQ(b)
	d, _ := l.open(nil)
	l.create(d, task.Lambda{Name: "mail", Ref: 7})
	got := make(chan []queue.Message)
	go func() {
		for {
			messages, err := d.Receive(b.Context(), []queue.Name{mail}, 10, 0)
			if err != nil {
				close(got)
				return
			}
			_ = d.Delete(b.Context(), messages)
			got <- messages
		}
	}()
	for n := 0; b.Loop(); n++ {
		l.send(d, taskOf(7, n, 1))
		<-got
	}
}
