package queuetest

import (
	"errors"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/queue"
)

// fill sends until the queue is at its bound; half of the messages are due.
func (s *suite) fill(name queue.Name) {
	s.Helper()
	for i := range s.DepthMax {
		s.send(message(name, i, s.Now().Add(time.Duration(i%2)*time.Hour)))
	}
}

func full(s *suite) {
	s.fill(high)
	results := s.Driver.Send(s.Context(), []queue.Message{
		message(high, 100, 0), message(low, 101, 0), message(high, 102, 0),
		message(queue.Name{Lambda: high.Lambda, Class: queue.Suspect}, 103, 0),
	})
	for i, want := range []error{queue.ErrFull, nil, queue.ErrFull, nil} {
		if !errors.Is(results[i], want) {
			s.Errorf("outcome %d: %v, want %v", i, results[i], want)
		}
	}
	got := s.receive([]queue.Name{high}, 1, 0).want(0)
	s.send(message(high, 104, 0)) // received messages do not count
	s.must(s.Driver.Release(s.Context(), got, 0))
	s.wantDepth(high, s.DepthMax+1, 0) // and can always be released
	if results := s.Driver.Send(s.Context(), []queue.Message{message(high, 105, 0)}); !errors.Is(results[0], queue.ErrFull) {
		s.Errorf("send above the bound: %v", results[0])
	}
}

func isClosed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func room(s *suite) {
	if !isClosed(s.Driver.Room(high)) {
		s.Fatal("an empty queue has no room")
	}
	s.fill(high)
	early := s.Driver.Room(high) // full, and has refused nothing yet
	s.Driver.Send(s.Context(), []queue.Message{message(high, 100, 0)})
	late := s.Driver.Room(high)
	s.Advance(time.Hour)
	for held := s.DepthMax; held > 0; held-- {
		if want := held*2 < s.DepthMax; isClosed(early) != want || isClosed(late) != want {
			s.Fatalf("room at %d of %d: %v and %v, want %v", held, s.DepthMax, isClosed(early), isClosed(late), want)
		}
		r := s.receive([]queue.Name{high}, 1, 0)
		s.must(s.Driver.Delete(s.Context(), r.want(number(r.got[0]))))
	}
	if !isClosed(early) || !isClosed(late) || !isClosed(s.Driver.Room(high)) {
		s.Error("no room in a queue that was emptied")
	}
}

func roomClosed(s *suite) {
	s.fill(high)
	waiting := s.Driver.Room(high)
	s.must(s.Driver.Close())
	if !isClosed(waiting) || !isClosed(s.Driver.Room(high)) {
		s.Error("still waiting for room after close")
	}
}
