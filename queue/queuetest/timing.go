package queuetest

import (
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

func dueOrder(s *suite) {
	now := s.Now()
	for i, due := range []task.Instant{now - 1, now - 4, now, now - 4, now - 2, now - 3} {
		s.send(message(high, i, due))
	}
	s.receive([]queue.Name{high}, 2, 0).want(1, 3)
	s.send(message(high, 6, now-3), message(high, 7, now-5))
	s.receive([]queue.Name{high}, 10, 0).want(7, 5, 6, 4, 0, 2)
}

func heldBack(s *suite) {
	due := s.Now().Add(90 * time.Second)
	s.send(message(high, 1, due))
	r := s.receive([]queue.Name{high}, 10, 0)
	s.Advance(90*time.Second - time.Microsecond)
	r.wantWaiting()
	s.Advance(time.Microsecond)
	r.want(1)
}

func dueNow(s *suite) {
	s.send(message(high, 1, s.Now()), message(high, 2, s.Now()+1))
	s.receive([]queue.Name{high}, 10, 0).want(1)
	s.Advance(time.Microsecond)
	s.receive([]queue.Name{high}, 10, 0).want(2)
}

func dueSooner(s *suite) {
	r := s.receive([]queue.Name{high, low}, 10, 0)
	s.send(message(high, 1, s.Now().Add(10*time.Second)))
	s.send(message(low, 2, s.Now().Add(5*time.Second)))
	s.Advance(5*time.Second - time.Microsecond)
	r.wantWaiting()
	s.Advance(time.Microsecond)
	r.want(2)
	r = s.receive([]queue.Name{high, low}, 10, 0)
	s.send(message(high, 3, s.Now().Add(-time.Second)))
	r.want(3)
}

func looksAhead(s *suite) {
	const ahead = 20 * time.Millisecond
	due := s.Now().Add(time.Second)
	s.send(
		message(low, 1, due), message(low, 2, due.Add(ahead/2)),
		message(low, 3, due.Add(ahead/2+time.Microsecond)), message(high, 4, due.Add(ahead/2)))
	r := s.receive([]queue.Name{high, low}, 10, ahead)
	s.Advance(time.Second - ahead/2 - time.Microsecond)
	r.wantWaiting()
	s.Advance(time.Microsecond)
	r.want(4, 1, 2)
	r = s.receive([]queue.Name{high, low}, 10, ahead)
	r.wantWaiting() // within ahead, but not within half of it
	s.Advance(ahead/2 + time.Microsecond)
	r.want(3)
}

func differentAhead(s *suite) {
	due := s.Now().Add(time.Second)
	near := s.receive([]queue.Name{high}, 1, 0)
	far := s.receive([]queue.Name{low, high}, 1, 100*time.Millisecond)
	s.send(message(high, 1, due), message(high, 2, due))
	s.Advance(950*time.Millisecond - time.Microsecond)
	far.wantWaiting()
	s.Advance(time.Microsecond)
	far.want(1)
	near.wantWaiting()
	s.Advance(50*time.Millisecond - time.Microsecond)
	near.wantWaiting()
	s.Advance(time.Microsecond)
	near.want(2)
}

func releasedNotEarly(s *suite) {
	s.send(message(high, 1, s.Now().Add(50*time.Millisecond)))
	got := s.receive([]queue.Name{high}, 1, 100*time.Millisecond).want(1)
	s.must(s.Driver.Release(s.Context(), got, 0))
	r := s.receive([]queue.Name{high}, 1, 0)
	s.Advance(50*time.Millisecond - time.Microsecond)
	r.wantWaiting()
	s.Advance(time.Microsecond)
	got = r.want(1)
	s.must(s.Driver.Release(s.Context(), got, time.Second))
	// A message that is due earlier goes first, although it was sent later.
	s.send(message(high, 2, s.Now().Add(time.Second-time.Microsecond)))
	s.Advance(time.Second)
	s.receive([]queue.Name{high}, 2, 0).want(2, 1)
}

// timekeeperLeaves cancels the receiver with the timer: the next one must set its own.
func timekeeperLeaves(s *suite) {
	s.send(message(high, 1, s.Now().Add(time.Minute)), message(low, 2, s.Now().Add(2*time.Minute)))
	first := s.receive([]queue.Name{high, low}, 1, 0)
	second := s.receive([]queue.Name{low, high}, 1, 0)
	third := s.receive([]queue.Name{low}, 1, 0)
	first.end()
	s.Advance(time.Minute - time.Microsecond)
	second.wantWaiting()
	s.Advance(time.Microsecond)
	second.want(1) // now it leaves too
	s.Advance(time.Minute - time.Microsecond)
	third.wantWaiting()
	s.Advance(time.Microsecond)
	third.want(2)
}

// manyInstants has one receiver for several queues, whose messages become due in turn.
func manyInstants(s *suite) {
	names := []queue.Name{high, low, {Lambda: 8}, {Lambda: 9, Priority: 2}}
	const step = 300 * time.Microsecond
	start := s.Now()
	const count = 20
	for i := count - 1; i >= 0; i-- { // at most 5 a queue
		s.send(message(names[i%len(names)], i, start.Add(time.Duration(i+1)*step)))
	}
	for i := range count {
		r := s.receive(names, 10, 0)
		s.Advance(step - time.Microsecond)
		r.wantWaiting()
		s.Advance(time.Microsecond)
		s.must(s.Driver.Delete(s.Context(), r.want(i)))
	}
}
