package kube_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/kubelet"
)

const stop = syscall.SIGSTOP

// TestKilled kills a process, which is started again in its pod, and a node, which is not seen to be gone by
// anybody: its pod is ready, the API server says.
func TestKilled(t *testing.T) {
	r := newRig(t, plan{replicas: 3})
	l := r.begin()
	time.Sleep(calmFor)
	r.during("killed", unplannedMax, func() {
		p := r.pods()[0]
		p.Kill()
		r.eventually(rolloutMax, func() bool { return p.Restarts() == 1 && p.Ready() }, func() string { return "the pod that was killed is ready again" })
		r.await(3)
		r.shares("killed")
	})
	time.Sleep(calmFor)
	r.during("lost", unplannedMax, func() {
		p := r.pods()[1]
		p.Lose()
		lost := time.Now()
		others := slices.DeleteFunc(r.pods(), func(q *kubelet.Pod) bool { return q.Name == p.Name })
		r.sharedAmong("lost", others)
		harness.Figure(t, "lost_shared_again_after", time.Since(lost))
		now := int64(0)
		if err := r.kube.CoreV1().Pods(r.ns).Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		r.await(3)
		r.shares("replaced")
	})
	r.finish("killed", l.Stop())
}

// TestAPIServerAway takes the API server away for 30 s. Nothing moves, and when a process is killed
// meanwhile, the rows tell.
func TestAPIServerAway(t *testing.T) {
	r := newRig(t, plan{replicas: 3})
	l := r.begin()
	time.Sleep(calmFor)
	away := time.Now()
	back := false
	t.Cleanup(func() {
		if !back { // for those who come after
			if err := r.plane.StartAPI(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	r.during("away", plannedMax, func() {
		r.plane.StopAPI()
		time.Sleep(awayFor / 2)
	})
	r.during("away_killed", unplannedMax, func() {
		r.pods()[0].Kill()
		time.Sleep(time.Until(away.Add(awayFor)))
	})
	r.during("back", unplannedMax, func() {
		if err := r.plane.StartAPI(t.Context()); err != nil {
			t.Fatal(err)
		}
		back = true
		r.await(3)
		r.shares("back")
	})
	r.finish("away", l.Stop())
}

// awayFor is how long the API server is away.
const awayFor = 30 * time.Second
