package kube_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

// TestClocksApart has pods whose clocks differ by as much as is allowed, from each other and from that of the
// server.
func TestClocksApart(t *testing.T) {
	shift := harness.Clockshift(t)
	offsets := []time.Duration{-task.ClockBound / 2, 0, task.ClockBound / 2}
	next := 0
	r := newRig(t, plan{replicas: len(offsets), before: func(*corev1.Pod) []string {
		next++
		return []string{shift, offsets[next%len(offsets)].String()}
	}})
	l := r.begin()
	time.Sleep(calmFor)
	// A pod whose clock is late fires late, by that much.
	bar := plannedMax + task.ClockBound/2
	r.during("scaled", bar, func() {
		r.scale(2)
		r.await(2)
		r.shares("scaled")
	})
	time.Sleep(calmFor)
	r.during("killed", unplannedMax, func() {
		r.pods()[0].Kill()
		r.scale(3)
		r.await(3)
		r.shares("killed")
	})
	r.finish("clocks", l.Stop())
}

// TestEachOwnsAll has two schedulers each of which believes that it is the only one: they pay with refused
// writes.
func TestEachOwnsAll(t *testing.T) {
	r := newRig(t, plan{replicas: 0})
	for _, name := range []string{"a", "b"} {
		r.Serve("--roles", "scheduler,dispatcher", "--membership", "static", "--members", name, "--member-name", name)
	}
	l := r.begin()
	time.Sleep(4 * calmFor)
	tasks := l.Stop()
	r.finish("all", tasks)
	if len(tasks) < 100 {
		t.Errorf("only %d tasks", len(tasks))
	}
}

// common are the names that are in both.
func common(a, b []string) (both []string) {
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return both
}
