package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kinesin-io/kinesin/internal/kubelocal"
)

// Options of a kubelet.
type Options struct {
	Plane     *kubelocal.Plane
	Namespace string
	// Program is what every container runs.
	Program string
	// Env is the environment of every process besides what its pod says, each as NAME=VALUE.
	Env []string
	// Before is put before a pod's program and its arguments, if not nil: a program that runs it, and that
	// one's own arguments.
	Before func(pod *corev1.Pod) []string
	// Log is told what happens. Default is nobody.
	Log *slog.Logger
}

// Kubelet runs the pods of a namespace until it is closed. Its methods may be called from any goroutine.
type Kubelet struct {
	Options

	client *kubernetes.Clientset
	dir    string          // of all pods
	ctx    context.Context //nolint:containedctx // of all that runs here, until Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	pods    map[types.UID]*Pod
	records []Record
}

// Start starts a kubelet.
func Start(ctx context.Context, o Options) (*Kubelet, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := os.MkdirTemp("", "kinesin-pods-")
	if err != nil {
		return nil, err
	}
	k := &Kubelet{Options: o, client: o.Plane.Client(), dir: dir, pods: map[types.UID]*Pod{}}
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := k.watch(); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close kills all processes and removes their files. Pods stay as they are said to be.
func (k *Kubelet) Close() {
	k.cancel()
	k.work.Wait()
	_ = os.RemoveAll(k.dir)
}

// watch hears of all pods from now on.
func (k *Kubelet) watch() error {
	factory := informers.NewSharedInformerFactoryWithOptions(k.client, 0, informers.WithNamespace(k.Namespace))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.seen(obj) },
		UpdateFunc: func(_, obj any) { k.seen(obj) },
		DeleteFunc: func(obj any) {
			if last, isLast := obj.(cache.DeletedFinalStateUnknown); isLast {
				obj = last.Obj
			}
			k.vanished(obj)
		},
	}); err != nil {
		return fmt.Errorf("watch pods of %s: %w", k.Namespace, err)
	}
	factory.Start(k.ctx.Done())
	k.work.Go(func() {
		<-k.ctx.Done()
		factory.Shutdown()
	})
	return nil
}

func (k *Kubelet) seen(obj any) {
	object, isPod := obj.(*corev1.Pod)
	if !isPod {
		return
	}
	k.mu.Lock()
	p := k.pods[object.UID]
	if p == nil && object.DeletionTimestamp == nil && k.ctx.Err() == nil && object.Status.Phase != corev1.PodSucceeded && object.Status.Phase != corev1.PodFailed {
		p = k.newPod(object)
		k.pods[object.UID] = p
		k.work.Go(p.run)
	}
	k.mu.Unlock()
	if p != nil && object.DeletionTimestamp != nil {
		grace := int64(0)
		if object.DeletionGracePeriodSeconds != nil {
			grace = *object.DeletionGracePeriodSeconds
		}
		p.delete(time.Duration(grace) * time.Second)
	}
}

// vanished ends the process of a pod that was deleted by force.
func (k *Kubelet) vanished(obj any) {
	object, isPod := obj.(*corev1.Pod)
	if !isPod {
		return
	}
	k.mu.Lock()
	p := k.pods[object.UID]
	delete(k.pods, object.UID)
	k.mu.Unlock()
	if p != nil {
		p.delete(p.grace())
	}
}

// Pods are those that are run, in no order, terminating ones included.
func (k *Kubelet) Pods() []*Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*Pod, 0, len(k.pods))
	for _, p := range k.pods {
		all = append(all, p)
	}
	return all
}

// Did says what was done to a pod.
type Did string

// The operations on pods.
const (
	Started    Did = "started"    // its process was started
	Ready      Did = "ready"      // its readiness probe holds
	Unready    Did = "unready"    // it does no longer
	Unalive    Did = "unalive"    // its liveness probe failed, and its process is ended
	Deleted    Did = "deleted"    // it was seen to be deleted
	Terminated Did = "terminated" // its process was told to end
	Killed     Did = "killed"     // its process was killed
	Ended      Did = "ended"      // its process is gone
)

// Record is one thing that was done to a pod.
type Record struct {
	At  time.Time
	Pod string
	Did Did
	PID int
	// Of one that has ended: its exit status, 128 and the signal if that ended it, and the end of what it
	// said.
	Code int
	Said string
}

// Records are all so far, in order.
func (k *Kubelet) Records() []Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Record(nil), k.records...)
}

func (k *Kubelet) record(r Record) {
	r.At = time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records = append(k.records, r)
	k.Log.Debug("pod", slog.String("pod", r.Pod), slog.String("did", string(r.Did)), slog.Int("pid", r.PID), slog.Int("code", r.Code))
}
