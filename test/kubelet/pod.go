package kubelet

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

const (
	graceDefault = 30 * time.Second
	retryEvery   = 200 * time.Millisecond // of calls to an API server that is away
	// A container that ends is started again at once, then after a pause that doubles. A real kubelet begins
	// with 10 s.
	restartPauseMin = time.Second
	restartPauseMax = 16 * time.Second
	// steadyAfter is how long a process has to run for the pauses to begin anew.
	steadyAfter = 30 * time.Second
)

// Pod is a pod that is run. Its methods may be called from any goroutine.
type Pod struct {
	Name string
	// IP is the loopback address that is the pod's alone.
	IP string

	kubelet *Kubelet
	object  *corev1.Pod // as it was first seen
	dir     string
	log     *loopback.Log
	known   map[string]map[string]string // ConfigMaps and Secrets that were read; of run alone
	dirty   chan struct{}                // the status has changed
	deleted chan struct{}                // closed once it is to end
	lost    chan struct{}                // closed once its node is said to be lost

	mu         sync.Mutex // guards what follows
	patience   time.Duration
	isDeleted  bool
	isLost     bool
	proc       *loopback.Process
	status     containerState
	startedPod metav1.Time
}

// containerState is what the pod's status says of its container.
type containerState struct {
	running  bool
	ready    bool
	since    metav1.Time // of ready
	started  metav1.Time
	restarts int32
	waiting  *corev1.ContainerStateWaiting
	last     *corev1.ContainerStateTerminated
	phase    corev1.PodPhase
}

func (k *Kubelet) newPod(object *corev1.Pod) *Pod {
	return &Pod{
		Name: object.Name, IP: address(), kubelet: k, object: object, dir: filepath.Join(k.dir, string(object.UID)), dirty: make(chan struct{}, 1), known: map[string]map[string]string{},
		deleted: make(chan struct{}), lost: make(chan struct{}), startedPod: metav1.Now(),
		status: containerState{phase: corev1.PodPending, waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}
}

// Log is all that the pod's processes have said.
func (p *Pod) Log() string { return p.log.From(0) }

// PID is that of the process, 0 if there is none.
func (p *Pod) PID() int {
	if proc := p.process(); proc != nil && proc.Alive() {
		return proc.PID()
	}
	return 0
}

// Ready reports whether the readiness probe holds.
func (p *Pod) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.ready
}

// Restarts is how often the process was started again.
func (p *Pod) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.status.restarts)
}

// Terminating reports whether the pod was deleted.
func (p *Pod) Terminating() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isDeleted
}

// Kill kills the process, as a lack of memory does: the container is started again.
func (p *Pod) Kill() {
	p.kubelet.record(Record{Pod: p.Name, Did: Killed, PID: p.PID()})
	p.Signal(syscall.SIGKILL)
}

// Signal sends a signal to the process.
func (p *Pod) Signal(s syscall.Signal) {
	if proc := p.process(); proc != nil {
		proc.Signal(s)
	}
}

// Lose kills the process and leaves the pod as it is said to be, as a node that is gone does.
func (p *Pod) Lose() {
	p.mu.Lock()
	already := p.isLost
	p.isLost = true
	p.mu.Unlock()
	if already {
		return
	}
	close(p.lost)
	p.Kill()
}

func (p *Pod) process() *loopback.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc
}

// delete makes the pod end within a grace.
func (p *Pod) delete(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isDeleted {
		return
	}
	p.isDeleted, p.patience = true, grace
	close(p.deleted)
	p.kubelet.record(Record{Pod: p.Name, Did: Deleted})
}

func (p *Pod) grace() time.Duration {
	if s := p.object.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return graceDefault
}

// run is the pod's life.
func (p *Pod) run() {
	ctx := p.kubelet.ctx
	var err error
	if p.log, err = loopback.NewLog(); err != nil {
		p.kubelet.Log.Error("pod not run", slog.String("pod", p.Name), slog.Any("error", err))
		return
	}
	defer p.log.Close()
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		p.kubelet.Log.Error("pod not run", slog.String("pod", p.Name), slog.Any("error", err))
		return
	}
	if !p.bind(ctx) {
		return
	}
	reporting, stop := context.WithCancel(ctx)
	var reporter sync.WaitGroup
	reporter.Go(func() { p.report(reporting) })
	p.changed(func(*containerState) {})
	p.live(ctx)
	stop()
	reporter.Wait()
	if ctx.Err() == nil && p.Terminating() {
		p.remove(ctx)
	}
}

// bind says on which node the pod is, and reports whether there is still a pod to run.
func (p *Pod) bind(ctx context.Context) bool {
	if p.object.Spec.NodeName != "" {
		return true
	}
	pods := p.kubelet.client.CoreV1().Pods(p.object.Namespace)
	return p.insist(ctx, func() error {
		err := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.object.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
		}, metav1.CreateOptions{})
		if apierrors.IsConflict(err) && !p.Terminating() { // bound by an earlier try
			return nil
		}
		return err
	})
}

const nodeName = "here"

// insist repeats a call until it is answered, and reports whether it was done.
func (p *Pod) insist(ctx context.Context, call func() error) bool {
	for {
		err := call()
		if err == nil {
			return true
		}
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || ctx.Err() != nil {
			p.kubelet.Log.WarnContext(ctx, "pod given up", slog.String("pod", p.Name), slog.Any("error", err))
			return false
		}
		if !pause(ctx, retryEvery, p.lost) {
			return false
		}
	}
}

// pause reports whether the time passed before anything ended it.
func pause(ctx context.Context, d time.Duration, ends ...<-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var first, second <-chan struct{}
	if len(ends) > 0 {
		first = ends[0]
	}
	if len(ends) > 1 {
		second = ends[1]
	}
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-first:
	case <-second:
	}
	return false
}

// live starts the container, and starts it again when it has ended, until the pod is to end.
func (p *Pod) live(ctx context.Context) {
	wait := time.Duration(0)
	for {
		began := time.Now()
		err := p.once(ctx)
		if ctx.Err() != nil || p.over() {
			return
		}
		if time.Since(began) > steadyAfter {
			wait = 0
		}
		p.changed(func(s *containerState) {
			s.waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off " + wait.String()}
			if err != nil {
				s.waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
				wait = restartPauseMin
			}
		})
		if wait > 0 && !pause(ctx, wait, p.deleted, p.lost) {
			return
		}
		if err == nil {
			p.changed(func(s *containerState) { s.restarts++ })
		}
		wait = min(restartPauseMax, max(restartPauseMin, 2*wait))
	}
}

// over reports whether the container is not to be started any more.
func (p *Pod) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isDeleted || p.isLost
}

// once runs the container until it has ended. An error means that it could not be started.
func (p *Pod) once(ctx context.Context) error {
	c, err := p.container(ctx)
	if err != nil {
		return err
	}
	proc, err := loopback.Spawn(c.path, c.args, c.env, p.log)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.proc = proc
	p.mu.Unlock()
	p.kubelet.record(Record{Pod: p.Name, Did: Started, PID: proc.PID()})
	p.changed(func(s *containerState) {
		s.running, s.started, s.waiting, s.phase = true, metav1.Now(), nil, corev1.PodRunning
	})
	probing, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	unalive := make(chan struct{})
	probes.Go(func() { p.probe(probing, &p.object.Spec.Containers[0], unalive) })
	p.tend(ctx, proc, unalive)
	stop()
	probes.Wait()
	p.gone(proc)
	return nil
}

// tend returns when the process is gone.
func (p *Pod) tend(ctx context.Context, proc *loopback.Process, unalive <-chan struct{}) {
	select {
	case <-proc.Exited():
	case <-ctx.Done():
		proc.End(syscall.SIGKILL, 0)
	case <-unalive:
		p.kubelet.record(Record{Pod: p.Name, Did: Unalive, PID: proc.PID()})
		proc.End(syscall.SIGTERM, p.grace())
	case <-p.deleted:
		p.terminate(ctx, proc)
	}
}

func (p *Pod) terminate(ctx context.Context, proc *loopback.Process) {
	p.mu.Lock()
	grace := p.patience
	p.mu.Unlock()
	began := time.Now()
	if h := p.object.Spec.Containers[0].Lifecycle; h != nil && h.PreStop != nil && h.PreStop.Sleep != nil {
		pause(ctx, min(grace, time.Duration(h.PreStop.Sleep.Seconds)*time.Second), proc.Exited())
	}
	// The time of a hook is taken from the grace, of which two seconds are always left.
	grace = max(grace-time.Since(began), 2*time.Second)
	p.kubelet.record(Record{Pod: p.Name, Did: Terminated, PID: proc.PID()})
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { proc.Signal(syscall.SIGKILL) })
	go func() { defer close(done); proc.End(syscall.SIGTERM, grace) }()
	<-done
	stop()
}

// gone writes down how the process ended.
func (p *Pod) gone(proc *loopback.Process) {
	code, signal := exit(proc.State())
	p.kubelet.record(Record{Pod: p.Name, Did: Ended, PID: proc.PID(), Code: code, Said: p.log.Tail()})
	terminated := &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Signal: int32(signal), Reason: "Completed", FinishedAt: metav1.Now(), ContainerID: containerID(proc.PID()),
	}
	if code != 0 {
		terminated.Reason = "Error"
		if p.object.Spec.Containers[0].TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			const bytesMax = 2 << 10
			text := p.log.Tail()
			terminated.Message = text[max(0, len(text)-bytesMax):]
		}
	}
	final := p.over()
	p.changed(func(s *containerState) {
		terminated.StartedAt = s.started
		s.running, s.last = false, terminated
		s.setReady(false)
		switch {
		case !final:
		case code == 0:
			s.phase = corev1.PodSucceeded
		default:
			s.phase = corev1.PodFailed
		}
	})
}

// exit is the exit status as a shell has it, and the signal that ended the process.
func exit(state *os.ProcessState) (code, signal int) {
	if status, isStatus := state.Sys().(syscall.WaitStatus); isStatus && status.Signaled() {
		return 128 + int(status.Signal()), int(status.Signal())
	}
	return state.ExitCode(), 0
}

// remove takes the pod off the API server, as the last thing of its life.
func (p *Pod) remove(ctx context.Context) {
	pods := p.kubelet.client.CoreV1().Pods(p.object.Namespace)
	p.insist(ctx, func() error {
		if _, err := pods.Patch(ctx, p.Name, statusPatch, p.patch(), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
		now := int64(0)
		return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.object.UID}})
	})
}
