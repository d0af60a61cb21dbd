package queuetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

func sameMessage(s *suite) {
	want := message(high, 1, s.Now())
	want.Task.Collection, want.Task.Key = "c", "k"
	want.Task.Payload, want.Task.PayloadSize = []byte("payload"), 7
	want.Task.Overrides.Timeout = time.Minute
	want.Task.Seq, want.Task.Attempt, want.Task.Lost = 9, 3, 1
	want.Task.History = []task.Attempt{{Number: 3, Worker: "w", Outcome: task.OutcomeRetriable, Error: "e"}}
	s.send(want)
	got := s.receive([]queue.Name{high}, 10, 0).want(1)[0]
	if got.Receipt == "" {
		s.Error("no receipt")
	}
	got.Receipt = ""
	if !reflect.DeepEqual(got, want) {
		s.Errorf("received %+v\nwant %+v", got, want)
	}
}

func receivedOnce(s *suite) {
	s.send(message(high, 1, s.Now()), message(high, 2, s.Now()))
	s.receive([]queue.Name{high}, 10, 0).want(1, 2)
	s.receive([]queue.Name{high}, 10, 0).end()
}

func limited(s *suite) {
	for i := range 5 {
		s.send(message(high, i, s.Now()))
	}
	if s.Exact {
		s.receive([]queue.Name{high}, 2, 0).want(0, 1)
		s.receive([]queue.Name{high}, 3, 0).want(2, 3, 4)
		return
	}
	seen := map[int]bool{}
	for len(seen) < 5 {
		r := s.receive([]queue.Name{high}, 2, 0)
		r.wantSome(nil)
		for _, n := range numbers(r.got) {
			seen[n] = true
		}
	}
}

func namesInOrder(s *suite) {
	s.send(message(low, 1, s.Now()-2), message(low, 2, s.Now()-2))
	s.send(message(high, 3, s.Now()-1))
	s.receive([]queue.Name{high, low}, 2, 0).want(3, 1)
	s.send(message(high, 4, s.Now()))
	s.receive([]queue.Name{low, high}, 2, 0).want(2, 4)
	twice := s.receive([]queue.Name{high, high, low}, 2, 0)
	s.send(message(high, 5, s.Now()))
	twice.want(5)
}

// turns has two messages of high for one of low in each receive, as long as both have some, and between
// lambdas the order of the names.
func turns(s *suite) {
	weigher, can := s.Driver.(queue.Weigher)
	if !can {
		s.Skip("the driver cannot share out by weights")
	}
	weigher.UseWeights(func(lambda uint32) []uint16 {
		if lambda == high.Lambda {
			return []uint16{2, 1}
		}
		return nil
	})
	other := queue.Name{Lambda: 8}
	names := []queue.Name{{Lambda: 7, Class: queue.Suspect}, high, other, low, {Lambda: 8, Priority: 1}}
	for n := range 4 {
		s.send(message(high, 10+n, s.Now()), message(low, 20+n, s.Now()))
	}
	s.receive(names, 3, 0).want(10, 20, 11)
	s.receive(names, 1, 0).want(12)
	s.receive(names, 1, 0).want(21) // the turns go on from receive to receive
	s.send(message(other, 30, s.Now()), message(names[0], 40, s.Now()))
	s.receive(names, 4, 0).want(40, 13, 30, 22) // what is left of low comes where low does
	s.receive(names, 4, 0).want(23)
	s.send(message(low, 24, s.Now()), message(high, 14, s.Now().Add(time.Hour)))
	s.receive(names, 4, 0).want(24) // what is not due has no turn
}

func separateQueues(s *suite) {
	names := []queue.Name{high, low, {Lambda: 8}}
	for _, n := range names[:2] {
		names = append(names,
			queue.Name{Lambda: n.Lambda, Priority: n.Priority, Class: queue.Suspect},
			queue.Name{Lambda: n.Lambda, Priority: n.Priority, Class: queue.Blamed})
	}
	for i, name := range names {
		s.send(message(name, i, s.Now()))
	}
	for i, name := range names {
		s.receive([]queue.Name{name}, 10, 0).want(i)
	}
}

func deleted(s *suite) {
	s.send(message(high, 1, s.Now()), message(high, 2, s.Now()))
	got := s.receive([]queue.Name{high}, 10, 0).want(1, 2)
	s.must(s.Driver.Delete(s.Context(), got[:1]))
	s.wantDepth(high, 0, 1)
	s.must(s.Driver.Delete(s.Context(), got)) // the first for the second time
	s.must(s.Driver.Release(s.Context(), got, 0))
	s.wantDepth(high, 0, 0)
	s.receive([]queue.Name{high}, 10, 0).end()
}

func released(s *suite) {
	s.send(message(high, 1, s.Now()), message(high, 2, s.Now()), message(high, 3, s.Now()))
	first := s.receive([]queue.Name{high}, 10, 0).want(1, 2, 3)
	waiting := s.receive([]queue.Name{high}, 10, 0)
	s.must(s.Driver.Release(s.Context(), first[:1], 0))
	again := waiting.want(1)
	// The receipt of the earlier delivery has no effect on the later one.
	s.must(s.Driver.Release(s.Context(), first[:1], 0))
	s.must(s.Driver.Delete(s.Context(), first[:1]))
	s.wantDepth(high, 0, 3)
	s.must(s.Driver.Release(s.Context(), again, 0))
	again = s.receive([]queue.Name{high}, 10, 0).want(1)
	s.must(s.Driver.Delete(s.Context(), again))
	s.wantDepth(high, 0, 2)
}

func releasedLater(s *suite) {
	s.send(message(high, 1, s.Now()))
	got := s.receive([]queue.Name{high}, 10, 0).want(1)
	waiting := s.receive([]queue.Name{high}, 10, 0)
	s.must(s.Driver.Release(s.Context(), got, 3*time.Second))
	s.Advance(2 * time.Second)
	waiting.wantWaiting()
	s.Advance(time.Second)
	waiting.want(1)
}

func depth(s *suite) {
	s.wantDepth(high, 0, 0)
	s.send(message(high, 1, s.Now()), message(high, 2, s.Now().Add(time.Hour)), message(low, 3, s.Now()))
	s.Advance(5 * time.Second)
	s.wantDepth(high, 2, 0)
	s.wantDepth(low, 1, 0)
	if d, _ := s.Driver.Depth(s.Context(), high); d.Oldest != 5*time.Second {
		s.Errorf("oldest has waited %v, want 5s", d.Oldest)
	}
	s.receive([]queue.Name{high}, 1, 0).want(1)
	s.wantDepth(high, 1, 1)
	if d, _ := s.Driver.Depth(s.Context(), high); d.Oldest != 0 {
		s.Errorf("oldest has waited %v though nothing is due", d.Oldest)
	}
	// A message that is sent late: only its time in the queue counts.
	s.send(message(high, 4, s.Now().Add(-time.Hour)))
	s.Advance(time.Second)
	if d, _ := s.Driver.Depth(s.Context(), high); d.Oldest != time.Second {
		s.Errorf("oldest has waited %v, want 1s", d.Oldest)
	}
}

func wakesOne(s *suite) {
	waiting := make([]*receipt, 5)
	for i := range waiting {
		waiting[i] = s.receive([]queue.Name{high, low}, 10, 0)
	}
	for sent := range waiting {
		s.send(message([]queue.Name{low, high}[sent%2], sent, s.Now()))
		if over := s.over(waiting, sent+1); over != sent+1 {
			s.Fatalf("after %d messages %d receivers are back", sent+1, over)
		}
	}
}

// over waits until so many Receives have returned, and counts them.
func (s *suite) over(receipts []*receipt, want int) int {
	s.settle()
	for began := time.Now(); ; { //nolint:forbidigo // real time
		over := 0
		for _, r := range receipts {
			select {
			case <-r.done:
				over++
			default:
			}
		}
		if !s.real || over >= want || time.Since(began) > patience { //nolint:forbidigo // real time
			return over
		}
		time.Sleep(moment / 20) //nolint:forbidigo // real time
	}
}

func cancelled(s *suite) {
	s.receive([]queue.Name{high}, 10, 0).end()
	r := s.receive([]queue.Name{high, low}, 10, time.Second)
	s.send(message(high, 1, s.Now().Add(time.Minute)))
	r.end()
	ctx, cancel := context.WithCancelCause(s.Context())
	cancel(errCancelled)
	s.send(message(high, 2, s.Now()))
	if got, err := s.Driver.Receive(ctx, []queue.Name{high}, 1, 0); !errors.Is(err, errCancelled) || len(got) > 0 {
		s.Errorf("receive with an ended context: %v, %v", numbers(got), err)
	}
	s.wantDepth(high, 2, 0)
}

func noNames(s *suite) { s.receive(nil, 10, 0).end() }

// cancelledWhileWoken sends a message and cancels the receiver that it wakes: one of the two receivers must
// return it.
func cancelledWhileWoken(s *suite) {
	rounds := 100
	if s.real {
		rounds = 10
	}
	for i := range rounds {
		first := s.receive([]queue.Name{high}, 10, 0)
		second := s.receive([]queue.Name{low, high}, 10, 0)
		s.send(message(high, i, s.Now()))
		first.cancel(errCancelled)
		<-first.done
		s.settle()
		if errors.Is(first.err, errCancelled) {
			s.must(s.Driver.Delete(s.Context(), second.want(i)))
			continue
		}
		s.must(s.Driver.Delete(s.Context(), first.want(i)))
		second.end()
	}
}

func closed(s *suite) {
	a := s.receive([]queue.Name{high}, 10, 0)
	b := s.receive([]queue.Name{low, high}, 10, time.Second)
	s.must(s.Driver.Close())
	a.wantError(queue.ErrClosed)
	b.wantError(queue.ErrClosed)
	s.receive([]queue.Name{high}, 10, 0).wantError(queue.ErrClosed)
	for _, err := range s.Driver.Send(s.Context(), []queue.Message{message(high, 1, 0), message(low, 2, 0)}) {
		if !errors.Is(err, queue.ErrClosed) {
			s.Errorf("send after close: %v", err)
		}
	}
	s.must(s.Driver.Close())
}

func sendEnded(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	results := s.Driver.Send(ctx, []queue.Message{message(high, 1, 0), message(low, 2, 0)})
	if len(results) != 2 || slices.Contains(results, nil) {
		s.Errorf("send with an ended context: %v, want an error for each of 2", results)
	}
}

func dropped(s *suite) {
	d, can := s.Driver.(queue.Dropper)
	if !can {
		s.Skip("the driver cannot drop")
	}
	other := queue.Name{Lambda: 8}
	s.send(message(high, 1, s.Now()), message(low, 2, s.Now().Add(time.Hour)), message(high, 3, s.Now()), message(other, 4, s.Now()))
	got := s.receive([]queue.Name{high}, 1, 0)
	got.wantSome(nil)
	waiting := s.receive([]queue.Name{low}, 1, 0)
	if s.Forget != nil {
		s.Forget(high.Lambda)
	}
	s.must(d.Drop(s.Context(), high.Lambda))
	s.wantGone(high)
	s.wantGone(low)
	s.must(s.Driver.Release(s.Context(), got.got, 0))
	s.wantGone(high)
	if !s.real {
		s.Advance(2 * time.Hour)
	}
	waiting.wantWaiting()
	if s.Forget == nil { // the lambda may still be used
		s.send(message(low, 5, s.Now()))
		waiting.want(5)
	} else {
		waiting.end()
	}
	s.receive([]queue.Name{high, low, other}, 9, 0).want(4)
}

// wantGone checks that a queue is empty. The driver may no longer know the queue of a forgotten lambda.
func (s *suite) wantGone(name queue.Name) {
	s.Helper()
	if s.Forget == nil {
		s.wantDepth(name, 0, 0)
	}
}
