package scheduler_test

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// visit runs a scheduler that owns nothing; high is of a deliver lambda.
func (o *outbound) visit() *scheduler.Scheduler {
	s := scheduler.New(scheduler.Config{
		Store: o.rows, Queue: o.queue, Leases: o.leases, Ownership: nothing{}, Partitions: o.parts,
		Clock: o.clock, Log: slog.New(slog.DiscardHandler), Hooks: o.hooks, Foreign: true,
		Process: self, Presence: o.presence,
		Delivery: &scheduler.Delivery{Deliverer: o, Is: func(p task.Partition) bool { return p == high }},
	})
	o.run(s)
	return s
}

type nothing struct{}

func (nothing) Self() string { return self }

func (nothing) Owners(all []task.Partition) (owners, members []string) {
	return slices.Repeat([]string{"another"}, len(all)), []string{"another"}
}
func (nothing) Changed() <-chan struct{} { return nil }

// loops is how many goroutines fire a partition.
func loops() int {
	stacks := make([]byte, 1<<20)
	text := string(stacks[:runtime.Stack(stacks, true)])
	return strings.Count(text, "scheduler.(*loop).run(")
}

// Loops of foreign partitions stop when no hints come, and start again.
func TestIdleForeignLoopsStop(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		s := o.visit()
		const partitions = 50
		for range 2 {
			var tasks []task.Task
			for n := range partitions {
				tasks = append(tasks, o.waiting(task.Partition{Lambda: uint32(100 + n)}, time.Second))
			}
			delivered := o.waiting(high, time.Second)
			for i := range tasks {
				s.Added(&tasks[i])
			}
			s.Added(&delivered)
			o.advance(2 * time.Second)
			if n := loops(); n != partitions+1 {
				t.Errorf("%d goroutines, want one for each partition", n)
			}
			for i := range tasks {
				if at, ok := o.dispatched(tasks[i]); !ok || at.Sub(tasks[i].Due) > time.Second {
					t.Errorf("dispatched %v, at +%v", ok, at.Sub(start))
				}
			}
			o.wantSent(0, time.Second, delivered)
			o.advance(2 * time.Minute)
			if n := loops(); n != 0 {
				t.Errorf("%d goroutines stay", n)
			}
		}
	})
}

// One that holds a task goes on trying.
func TestAForeignLoopWithSomethingToDoStays(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		s := o.visit()
		o.refuse = func(*task.Task) error { return errors.New("no") }
		row := o.waiting(high, time.Second)
		s.Added(&row)
		o.advance(5 * time.Minute)
		o.set(func() { o.refuse = nil })
		o.advance(10 * time.Second)
		if len(o.sendings()[row.ID]) != 1 {
			t.Errorf("sent %d times", len(o.sendings()[row.ID]))
		}
	})
}
