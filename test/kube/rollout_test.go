package kube_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/kubelet"
)

// TestUpdated replaces all pods by those of a new ReplicaSet, and takes that back: one fleet all the while.
func TestUpdated(t *testing.T) {
	r := newRig(t, plan{replicas: 3})
	l := r.begin()
	time.Sleep(calmFor)
	before := r.names()
	r.during("update", plannedMax, func() {
		r.values["podAnnotations"] = map[string]any{"version": "new"}
		r.install()
		r.await(3)
		r.shares("update")
	})
	if same := common(before, r.names()); len(same) > 0 {
		t.Errorf("pods %v are there after the update still", same)
	}
	time.Sleep(calmFor)
	r.during("rollback", plannedMax, func() {
		r.helm("rollback", release).Must(t)
		r.await(3)
		r.shares("rollback")
	})
	r.graceful()
	r.finish("updated", l.Stop())
}

// TestNeverReady updates to pods that never become ready. The pods before them go on as if there were none.
func TestNeverReady(t *testing.T) {
	r := newRig(t, plan{replicas: 3})
	l := r.begin()
	time.Sleep(calmFor)
	before := r.names()
	r.during("stuck", plannedMax, func() {
		// The new one stands still before it has anything done: it is there, and does not answer. Helm may take longer
		// than a pod needs to become ready.
		still := make(chan *kubelet.Pod, 1)
		go func() {
			defer close(still)
			p := r.newcomer(before)
			p.Signal(stop)
			still <- p
		}()
		r.values["podAnnotations"] = map[string]any{"version": "never ready"}
		r.install()
		p := <-still
		if p == nil {
			return
		}
		time.Sleep(stuckFor)
		if p.Ready() || p.Restarts() > 0 {
			t.Errorf("the pod that stands still is ready: %v, was restarted %d times", p.Ready(), p.Restarts())
		}
		if same := common(before, r.names()); len(same) != len(before) {
			t.Errorf("of the pods %v only %v are left while the update is stuck", before, same)
		}
	})
	r.during("stuck_rollback", plannedMax, func() {
		r.helm("rollback", release).Must(t)
		r.await(3)
		r.shares("stuck_rollback")
	})
	if same := common(before, r.names()); len(same) != len(before) {
		t.Errorf("of the pods %v only %v are left after the rollback", before, same)
	}
	// One that runs, and cannot work: it says why, and is not ready.
	r.during("wrong", plannedMax, func() {
		r.set("aws", "prefix", r.AWS.Prefix+"-none")
		r.set("aws", "region", "us-east-1")
		r.install()
		p := r.newcomer(before)
		r.eventually(rolloutMax, func() bool { return p.Restarts() > 0 }, func() string { return "a pod without tables is restarted" })
		delete(r.values, "aws")
		r.helm("rollback", release).Must(t)
		r.await(3)
	})
	r.finish("neverready", l.Stop())
}

// stuckFor is how long an update is stuck: longer than rows may be silent.
const stuckFor = 10 * time.Second

// names are those of the pods that are not terminating.
func (r *rig) names() (all []string) {
	for _, p := range r.pods() {
		all = append(all, p.Name)
	}
	return all
}

// newcomer waits for the process of a pod that is none of those before.
func (r *rig) newcomer(before []string) (found *kubelet.Pod) {
	r.T.Helper()
	r.eventually(rolloutMax, func() bool {
		for _, p := range r.pods() {
			if !slices.Contains(before, p.Name) && p.PID() > 0 {
				found = p
			}
		}
		return found != nil
	}, func() string { return "a new pod" })
	return found
}

// graceful wants all processes that were told to end to have done so by themselves, in time and well, and the
// others to have taken over by then.
func (r *rig) graceful() {
	r.T.Helper()
	told := map[int]time.Time{}
	for _, x := range r.kubelet.Records() {
		switch x.Did {
		case kubelet.Terminated:
			told[x.PID] = x.At
		case kubelet.Ended:
			at, was := told[x.PID]
			if !was {
				continue
			}
			if x.Code != 0 {
				r.T.Errorf("pod %s was told to end and did so with status %d after %v", x.Pod, x.Code, x.At.Sub(at))
			}
			if !strings.Contains(x.Said, "the others have taken over") {
				r.T.Errorf("pod %s ended before the others had taken over:\n%s", x.Pod, x.Said)
			}
		default:
		}
	}
}

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
