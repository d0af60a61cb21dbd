package sqs_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

// bubble is a driver over the fake in virtual time.
type bubble struct {
	*testing.T

	*virtual
	driver *sqs.Driver
	counts *counts
}

// virtual is the clock and the service that several drivers share.
type virtual struct {
	time    *clock.Virtual
	clock   clock.Clock
	service *fakesqs.SQS
	lambdas *lambdas
}

func newBubble(t *testing.T, change func(*sqs.Config)) *bubble {
	t.Helper()
	v := &virtual{time: clock.NewVirtual(start, 1), lambdas: suiteLambdas()}
	v.lambdas.add(deliverLambda("out", out.Lambda))
	v.time.Settle(synctest.Wait)
	v.clock = v.time.Process(0)
	v.service = fakesqs.New(fakesqs.Config{Clock: v.clock})
	b := v.open(t, change)
	provision(t, b.driver, v.lambdas)
	return b
}

// open adds another process.
func (v *virtual) open(t *testing.T, change func(*sqs.Config)) *bubble {
	t.Helper()
	c := &counts{}
	config := sqs.Config{
		Prefix: "test", Codec: sqs.StoreCodec, Lambda: v.lambdas.get, Lambdas: v.lambdas.list, Clock: v.clock, Observer: c.observer(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), CloseGrace: -1,
	}
	if change != nil {
		change(&config)
	}
	b := &bubble{T: t, virtual: v, driver: sqs.New(v.service, config), counts: c}
	b.driver.UseSealer(sqs.TestSealer)
	t.Cleanup(func() { _ = b.driver.Close() })
	return b
}

func (b *bubble) advance(d time.Duration) {
	synctest.Wait()
	b.time.Advance(d)
	synctest.Wait()
}

// work receives and deletes until the driver is closed, as an HSC with so many free slots does. It counts
// tasks.
func (b *bubble) work(slots int, names ...queue.Name) (late *atomic.Int64, done *atomic.Int64) {
	done, late = &atomic.Int64{}, &atomic.Int64{}
	go func() {
		for {
			got, err := b.driver.Receive(context.Background(), names, slots, 40*time.Millisecond)
			if err != nil {
				return
			}
			for i := range got {
				if wait := b.clock.Now().Sub(got[i].Task.Due); wait > time.Duration(late.Load()) {
					late.Store(int64(wait))
				}
			}
			_ = b.driver.Delete(context.Background(), got)
			done.Add(int64(len(got)))
		}
	}()
	return late, done
}

func batchOf(from, n int, due task.Instant) []queue.Message {
	batch := make([]queue.Message, n)
	for i := range batch {
		batch[i] = taskOf(mail.Lambda, from+i, due)
	}
	return batch
}

// TestRequestsForTasks counts requests for 1,000 tasks that are sent, received and deleted. 650 (200 under
// load) are promised; the inbound buffer needs the others.
func TestRequestsForTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		batch int           // tasks in one Send
		every time.Duration // between Sends
		ahead time.Duration // of the due time
		pack  int           // 0: the default
		most  float64       // requests
		late  time.Duration // at most
	}{
		{name: "under load", batch: 100, every: 20 * time.Millisecond, most: 60},
		{name: "under load, without packing", batch: 100, every: 20 * time.Millisecond, pack: 1, most: 330},
		{name: "drained at once", batch: 1000, every: time.Second, most: 40},
		{name: "1,000 a second, one by one", batch: 1, every: time.Millisecond, most: 400, late: 20 * time.Millisecond},
		{name: "100 a second, scheduled", batch: 1, every: 10 * time.Millisecond, ahead: 90 * time.Millisecond, most: 600},
		{name: "20 a second, scheduled in fives", batch: 5, every: 250 * time.Millisecond, ahead: 90 * time.Millisecond, most: 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, func(config *sqs.Config) { config.PackTasksMax = c.pack })
				late, done := b.work(200, queue.Name{Lambda: 7}, queue.Name{Lambda: 7, Class: queue.Suspect})
				const tasks = 2000
				for from := 0; from < tasks; from += c.batch {
					batch := batchOf(from, c.batch, b.clock.Now().Add(c.ahead))
					go b.driver.Send(b.Context(), batch)
					b.advance(c.every)
				}
				b.advance(time.Second)
				if done.Load() != tasks {
					t.Errorf("%d of %d tasks arrived", done.Load(), tasks)
				}
				_ = b.driver.Close()
				per1000 := float64(b.counts.total()) / tasks * 1000
				t.Logf("%.0f requests per 1,000 tasks, at most %v late: %v", per1000, time.Duration(late.Load()), b.counts)
				if per1000 > c.most {
					t.Errorf("%.0f requests per 1,000 tasks, want at most %.0f", per1000, c.most)
				}
				if late := time.Duration(late.Load()); late > max(c.late, 20*time.Millisecond) {
					t.Errorf("a task was %v late", late)
				}
			})
		})
	}
}

func TestRequestsForDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		const jobs = 1000
		slowest := &atomic.Int64{}
		for i := range jobs {
			go func() {
				began := b.clock.Now()
				m := taskOf(out.Lambda, i, began)
				if err := b.driver.Deliver(b.Context(), []queue.Delivery{{Task: m.Task, ID: "id", Payload: []byte("hello")}})[0]; err != nil {
					t.Error(err)
				}
				if took := b.clock.Now().Sub(began); took > time.Duration(slowest.Load()) {
					slowest.Store(int64(took))
				}
			}()
			b.advance(10 * time.Millisecond)
		}
		b.advance(time.Second)
		t.Logf("%v; slowest %v", b.counts, time.Duration(slowest.Load()))
		if b.counts.total() > jobs/2 {
			t.Errorf("%d requests for %d deliveries at 100/s, want at most half as many", b.counts.total(), jobs)
		}
		if took := time.Duration(slowest.Load()); took > sqs.DeliverLingerDefault {
			t.Errorf("a delivery waited for %v", took)
		}
	})
}

// TestRequestsOfSlowTasks has a backlog and two processes with few slots: they must not fetch and return
// the tasks that they cannot run over and over.
func TestRequestsOfSlowTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		slots int
		takes time.Duration
		most  float64
	}{
		{name: "of 100 ms", slots: 10, takes: 100 * time.Millisecond, most: 150},
		{name: "of a second", slots: 10, takes: time.Second, most: 700},
		{name: "of ten seconds", slots: 10, takes: 10 * time.Second, most: 700},
		{name: "of ten seconds, one slot", slots: 1, takes: 10 * time.Second, most: 2500},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, nil)
				other := b.open(t, nil)
				tasks := 20 * c.slots * 2
				b.mustSend(batchOf(0, tasks, b.clock.Now())...)
				done := &atomic.Int64{}
				for _, p := range []*bubble{b, other} {
					go p.pump(c.slots, c.takes, done)
				}
				began := b.clock.Now()
				for done.Load() < int64(tasks) {
					b.advance(100 * time.Millisecond)
					if b.clock.Now().Sub(began) > time.Hour {
						t.Fatalf("%d of %d tasks in an hour", done.Load(), tasks)
					}
				}
				took := b.clock.Now().Sub(began)
				_, _ = b.driver.Close(), other.driver.Close()
				per1000 := float64(b.counts.total()+other.counts.total()) / float64(tasks) * 1000
				t.Logf("%.0f requests per 1,000 tasks in %v (ideal %v): %v; %v", per1000, took, 20*c.takes, b.counts, other.counts)
				if per1000 > c.most {
					t.Errorf("%.0f requests per 1,000 tasks, want at most %.0f", per1000, c.most)
				}
			})
		})
	}
}

// pump receives as many tasks as it has free slots, as an HSC does, and runs each for that long.
func (b *bubble) pump(slots int, takes time.Duration, done *atomic.Int64) {
	free := make(chan struct{}, slots)
	for range slots {
		free <- struct{}{}
	}
	for {
		<-free
		n := 1 + len(free)
		for range n - 1 {
			<-free
		}
		got, err := b.driver.Receive(b.Context(), []queue.Name{mail}, n, 40*time.Millisecond)
		if err != nil {
			return
		}
		_ = b.driver.Delete(b.Context(), got)
		for range n - len(got) {
			free <- struct{}{}
		}
		for range got {
			go func() {
				timer := b.clock.NewTimer(takes)
				<-timer.C()
				done.Add(1)
				free <- struct{}{}
			}()
		}
	}
}
