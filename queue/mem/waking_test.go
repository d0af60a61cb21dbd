package mem_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/task"
)

var one = queue.Name{Lambda: 1}

func messageDue(due task.Instant) queue.Message {
	return queue.Message{Task: task.Task{Partition: task.Partition{Lambda: one.Lambda}, Due: due}}
}

type outcome struct {
	got []queue.Message
	err error
}

func startReceivers(d *mem.Driver, contexts ...context.Context) []chan outcome {
	all := make([]chan outcome, len(contexts))
	for i, ctx := range contexts {
		all[i] = make(chan outcome, 1)
		go func() {
			got, err := d.Receive(ctx, []queue.Name{one, {Lambda: 2}}, 10, 0)
			all[i] <- outcome{got, err}
		}()
		synctest.Wait()
	}
	return all
}

func TestOneMessageWakesAndTimesOneReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		c := v.Process(0)
		d := mem.New(c, mem.Config{})
		contexts := make([]context.Context, 50)
		for i := range contexts {
			contexts[i] = t.Context()
		}
		receivers := startReceivers(d, contexts...)
		d.Send(t.Context(), []queue.Message{messageDue(c.Now().Add(time.Second)), messageDue(c.Now().Add(time.Minute))})
		if set := d.TimersSet(one); set != 1 {
			t.Errorf("%d receivers keep the time for one message", set)
		}
		if woken := d.WokenAfterSend(messageDue(c.Now()), func() {}); woken != 1 {
			t.Errorf("one message woke %d receivers", woken)
		}
		synctest.Wait()
		if first := <-receivers[0]; len(first.got) != 1 {
			t.Errorf("the first to wait got %v, %v", first.got, first.err)
		}
		_ = d.Close()
		for _, r := range receivers[1:] {
			<-r
		}
	})
}

func TestReceiverCancelledWhileWokenPassesItOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewVirtual(start, 1).Process(0)
		d := mem.New(c, mem.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		receivers := startReceivers(d, ctx, t.Context())
		d.WokenAfterSend(messageDue(c.Now()), cancel) // cancelled before it runs
		if first := <-receivers[0]; first.err == nil || len(first.got) > 0 {
			t.Errorf("cancelled receiver: %v, %v", first.got, first.err)
		}
		synctest.Wait()
		select {
		case second := <-receivers[1]:
			if len(second.got) != 1 {
				t.Errorf("second receiver: %v, %v", second.got, second.err)
			}
		default:
			t.Error("the wake-up is lost: the second receiver sleeps beside a message")
			_ = d.Close()
		}
	})
}

// The clock is set forward while a receiver waits on its timer.
func TestClockSetForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocktest.Settable{Clock: clock.Real()}
		d := mem.New(c, mem.Config{})
		receiver := startReceivers(d, t.Context())[0]
		d.Send(t.Context(), []queue.Message{messageDue(c.Now().Add(time.Hour))})
		before := time.Now()
		c.Step(time.Hour)
		if r := <-receiver; len(r.got) != 1 {
			t.Fatal(r.err)
		}
		if waited := time.Since(before); waited > time.Second {
			t.Errorf("found it after %v", waited)
		}
	})
}

func TestNothingIsKeptOfThePast(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	d := mem.New(c, mem.Config{})
	names := make([]queue.Name, 100)
	for i := range names {
		names[i].Lambda = uint32(i)
		batch := make([]queue.Message, 100)
		for j := range batch {
			batch[j].Task.Partition.Lambda = names[i].Lambda
		}
		d.Send(t.Context(), batch)
	}
	if lanes, received := d.Held(); lanes != 100 || received != 0 {
		t.Fatalf("holds %d lanes and %d received messages", lanes, received)
	}
	for range 100 {
		got, err := d.Receive(t.Context(), names, 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = d.Delete(t.Context(), got)
	}
	if lanes, received := d.Held(); lanes != 0 || received != 0 {
		t.Errorf("still holds %d lanes and %d received messages", lanes, received)
	}
	d.Send(t.Context(), []queue.Message{messageDue(0)})
	if got, err := d.Receive(t.Context(), []queue.Name{one}, 9, 0); len(got) != 1 || err != nil {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

func TestReceiptsOfOthersAreHarmless(t *testing.T) {
	d := mem.New(clock.NewVirtual(start, 1).Process(0), mem.Config{})
	d.Send(t.Context(), []queue.Message{messageDue(0)})
	for _, receipt := range []string{"", "x", "123456789012", string(make([]byte, 12)), "\xff\xff\xff\xff12345678"} {
		m := []queue.Message{{Receipt: receipt}}
		if err := d.Delete(t.Context(), m); err != nil {
			t.Error(err)
		}
		if err := d.Release(t.Context(), m, 0); err != nil {
			t.Error(err)
		}
	}
	if depth, _ := d.Depth(t.Context(), one); depth.Visible != 1 {
		t.Errorf("depth %+v", depth)
	}
}

func TestHeapSorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type key struct {
			at      task.Instant
			arrival uint64
		}
		var h mem.Heap
		var want []key
		pop := func() {
			at, arrival := h.Pop()
			if (key{at, arrival}) != want[0] {
				t.Fatalf("popped %d/%d, want %v", at, arrival, want[0])
			}
			want = want[1:]
		}
		for n := range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(want) > 0 && rapid.IntRange(0, 2).Draw(t, "pop") == 0 {
				pop()
				continue
			}
			k := key{task.Instant(rapid.Int64Range(0, 9).Draw(t, "at")), uint64(n)}
			i, _ := slices.BinarySearchFunc(want, k, func(a, b key) int {
				if a.at != b.at {
					return int(a.at - b.at)
				}
				return int(a.arrival) - int(b.arrival)
			})
			want = slices.Insert(want, i, k)
			if h.Push(k.at, k.arrival) != (i == 0) {
				t.Fatalf("push says %v of place %d", i != 0, i)
			}
		}
		for len(want) > 0 {
			pop()
		}
	})
}
