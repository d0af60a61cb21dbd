package kubelet

import (
	"context"
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const statusPatch = types.StrategicMergePatchType

// changed changes what the pod's status says, and has it sent.
func (p *Pod) changed(change func(*containerState)) {
	p.mu.Lock()
	change(&p.status)
	p.mu.Unlock()
	select {
	case p.dirty <- struct{}{}:
	default: // the one who sends has not looked yet
	}
}

func (s *containerState) setReady(ready bool) {
	if ready != s.ready {
		s.ready, s.since = ready, metav1.Now()
	}
}

// report sends the status whenever it has changed, until the node is lost.
func (p *Pod) report(ctx context.Context) {
	pods := p.kubelet.client.CoreV1().Pods(p.object.Namespace)
	for {
		select {
		case <-p.dirty:
		case <-p.lost:
			return
		case <-ctx.Done():
			return
		}
		p.insist(ctx, func() error {
			_, err := pods.Patch(ctx, p.Name, statusPatch, p.patch(), metav1.PatchOptions{}, "status")
			return err
		})
	}
}

func containerID(pid int) string { return "process://" + strconv.Itoa(pid) }

// patch is the status as a patch of it. It is made when it is sent, so that a late one does not say what was.
func (p *Pod) patch() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.status
	c := corev1.ContainerStatus{
		Name: p.object.Spec.Containers[0].Name, Image: p.object.Spec.Containers[0].Image, ImageID: "none",
		Ready: s.ready, Started: &s.running, RestartCount: s.restarts,
	}
	switch {
	case s.running:
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: s.started}
		c.ContainerID = containerID(p.proc.PID())
	case s.phase == corev1.PodSucceeded || s.phase == corev1.PodFailed:
		c.State.Terminated = s.last
	default:
		c.State.Waiting = s.waiting
	}
	if s.last != nil && c.State.Terminated == nil {
		c.LastTerminationState.Terminated = s.last
	}
	status := corev1.PodStatus{
		Phase: s.phase, StartTime: &p.startedPod, HostIP: "127.0.0.1", PodIP: p.IP, PodIPs: []corev1.PodIP{{IP: p.IP}},
		ContainerStatuses: []corev1.ContainerStatus{c},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		is := corev1.ConditionTrue
		if kind != corev1.PodInitialized && !s.ready {
			is = corev1.ConditionFalse
		}
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: is, LastTransitionTime: s.since})
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.object.UID}, // of no other pod with the name
		"status":   status,
	})
	if err != nil {
		panic(err) // of strings and numbers
	}
	return text
}
