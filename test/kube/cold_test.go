package kube_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// TestStartedTogether starts all pods of a fleet at once: each reads its own share, and nobody takes itself for the only one.
func TestStartedTogether(t *testing.T) {
	const pods = 8
	r := newRig(t, plan{replicas: 1})
	l := r.load()
	r.scale(0)
	r.eventually(rolloutMax, func() bool { return len(r.kubelet.Pods()) == 0 }, func() string { return "no pod is left" })
	began := time.Now()
	r.scale(pods)
	r.await(pods)
	harness.Figure(t, "together_ready", time.Since(began))
	r.shares("together")
	moved := 0
	for _, p := range r.pods() {
		n, err := metric(t.Context(), p, "kinesin_partitions_moved_total")
		if err != nil {
			t.Fatal(err)
		}
		moved += int(n)
	}
	harness.Figure(t, "together_moved", moved)
	if moved > 2*partitions { // one that came late costs something
		t.Errorf("%d partitions came or went at some pod, of %d that there are", moved, partitions)
	}
	r.finish("together", l.Stop())
}
