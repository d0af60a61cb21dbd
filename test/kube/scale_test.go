package kube_test

import (
	"testing"
	"time"
)

// TestScaled scales the Deployment up and down under load.
func TestScaled(t *testing.T) {
	r := newRig(t, plan{replicas: 1})
	l := r.begin()
	time.Sleep(calmFor)
	for _, n := range []struct {
		name string
		pods int
	}{{"1to3", 3}, {"3to6", 6}, {"6to2", 2}} {
		r.during(n.name, plannedMax, func() {
			r.scale(n.pods)
			r.await(n.pods)
			r.shares(n.name)
		})
		time.Sleep(calmFor)
	}
	r.graceful()
	r.finish("scaled", l.Stop())
}

// calmFor is how long nothing happens between two changes.
const calmFor = 3 * time.Second
