package dynamo

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

func TestLimitFollowsTheService(t *testing.T) {
	l := newLimit(&Config{SharedMax: 4, RequestsMax: 32})
	now := task.Instant(1e15)
	round := func(took time.Duration, failed bool) {
		now = now.Add(took + time.Millisecond)
		for range int(l.now) {
			l.answered(now, took, int(l.now), failed)
		}
	}
	want := func(what string, low, high float64) {
		t.Helper()
		if l.now < low || l.now > high {
			t.Errorf("%s: %.1f, want %v to %v", what, l.now, low, high)
		}
	}
	want("at first", 8, 8)
	for range 5 {
		round(5*time.Millisecond, false)
	}
	want("after quick answers", 12, 14)
	for range 100 {
		round(5*time.Millisecond, false)
	}
	want("after many", 32, 32)
	round(500*time.Millisecond, false)
	want("after a slow round", 22, 23)
	for range 20 {
		round(3*time.Second, true)
	}
	want("while nothing is answered", 4, 4)
	l.answered(now, time.Millisecond, 1, false)
	want("not in use", 4, 4)
	far := newLimit(&Config{SharedMax: 4, RequestsMax: 32})
	l = far
	for range 50 {
		round(300*time.Millisecond, false)
	}
	want("far away", 32, 32)
}
