package kube_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// together is how many pods start at once.
const together = 8

// TestStartedTogether starts all pods of a fleet at once: each reads its own share, and nobody takes itself
// for the only one.
func TestStartedTogether(t *testing.T) {
	r := newRig(t, plan{replicas: 1})
	l := r.begin()
	// On a machine that stands still for seconds pods come one after the other, and partitions move as they
	// have to. It does not happen each time; who takes itself for the only one does so each time.
	const triesMax = 3
	moved := r.startTogether()
	for tries := 1; moved > 2*partitions && tries < triesMax; tries++ { // one that came late costs something
		moved = r.startTogether()
	}
	if moved > 2*partitions {
		t.Errorf("%d partitions came or went at some pod, of %d that there are, and no fewer in %d tries", moved, partitions, triesMax)
	}
	r.finish("together", l.Stop())
}

// startTogether ends all pods and starts new ones. It returns how many partitions came or went at some of
// them.
func (r *rig) startTogether() (moved int) {
	r.T.Helper()
	r.scale(0)
	r.eventually(rolloutMax, func() bool { return len(r.kubelet.Pods()) == 0 }, func() string { return "no pod is left" })
	began := time.Now()
	r.scale(together)
	r.await(together)
	harness.Figure(r.T, "together_ready", time.Since(began))
	r.shares("together")
	for _, p := range r.pods() {
		n, err := metric(r.T.Context(), p, "kinesin_partitions_moved_total")
		if err != nil {
			r.T.Fatal(err)
		}
		moved += int(n)
	}
	harness.Figure(r.T, "together_moved", moved)
	return moved
}
