package kube_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/kubelocal"
	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/kubelet"
)

func TestMain(m *testing.M) {
	code := harness.Main(m)
	kubelocal.End()
	os.Exit(code)
}

const (
	release    = "kinesin"
	deployment = release + "-scheduler"
	shards     = 8
	priorities = 3
	partitions = shards * priorities
	authSecret = "kinesin-auth"
	authToken  = "0123456789abcdef0123456789abcdef"

	// rolloutMax bounds a change of the Deployment, on a busy machine.
	rolloutMax = 90 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// plan says what a rig is made of.
type plan struct {
	replicas int
	values   map[string]any // of the chart, besides those that every rig has
	before   func(pod *corev1.Pod) []string
}

// rig is a fleet of scheduler pods over tables and queues of its own, a server outside of it that clients and
// workers talk to, and a history.
type rig struct {
	*harness.Site

	plane   *kubelocal.Plane
	kube    *kubernetes.Clientset
	ns      string
	kubelet *kubelet.Kubelet
	values  map[string]any
	changes []change
}

func newRig(t *testing.T, p plan) *rig {
	t.Helper()
	r := newCluster(t, p)
	r.Serve("--roles", "inbound,hsc")
	r.Lambda(admin.Lambda{Shards: shards})
	r.install()
	r.await(p.replicas)
	for range 2 {
		r.Worker(harness.WorkerOptions{Lease: 30 * time.Second})
	}
	return r
}

// newCluster is a rig of which nothing is installed yet, and that nobody calls.
func newCluster(t *testing.T, p plan) *rig {
	t.Helper()
	plane := kubelocal.Start(t)
	r := &rig{plane: plane, kube: plane.Client(), values: p.values, Site: harness.New(t, harness.Options{
		AWS: &awslocal.Endpoints{}, Client: []sdk.ClientOption{sdk.WithTries(1000)}, Bounds: bounds,
	})}
	r.AWS.Setup(t).Must(t)
	r.ns = plane.Namespace(t)
	r.secret()
	k, err := kubelet.Start(t.Context(), kubelet.Options{Plane: plane, Namespace: r.ns, Program: harness.Kinesin(t), Env: append(r.AWS.Env(), "GOMAXPROCS=1"), Before: p.before})
	if err != nil {
		t.Fatal(err)
	}
	r.kubelet = k
	t.Cleanup(func() {
		r.show()
		k.Close()
	})
	if r.values == nil {
		r.values = map[string]any{}
	}
	r.set("scheduler", "replicas", p.replicas)
	return r
}

// show says what a failed test's pods said.
func (r *rig) show() {
	if !r.T.Failed() {
		return
	}
	const tailBytes = 6 << 10
	for _, p := range r.kubelet.Pods() {
		log := p.Log()
		r.T.Logf("pod %s (ready %v, restarted %d times) said:\n%s", p.Name, p.Ready(), p.Restarts(), log[max(0, len(log)-tailBytes):])
	}
	var lines []string
	for _, x := range r.kubelet.Records() {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %d", x.At.Format("15:04:05.000"), x.Pod, x.Did, x.PID, x.Code))
	}
	r.T.Logf("pods:\n%s", strings.Join(lines, "\n"))
}

// secret has the tokens of which the pods' API needs one.
func (r *rig) secret() {
	r.T.Helper()
	if _, err := r.kube.CoreV1().Secrets(r.ns).Create(r.T.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: authSecret}, StringData: map[string]string{"token": authToken + "\n"},
	}, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
}

// set sets a value of a group of the chart's values.
func (r *rig) set(group, name string, value any) {
	m, found := r.values[group].(map[string]any)
	if !found {
		m = map[string]any{}
		r.values[group] = m
	}
	m[name] = value
}

// tools is the folder with helm.
var tools = sync.OnceValues(func() (string, error) { return loopback.Installed("helm") })

// helm runs helm as an operator does, who has a machine of his own.
func (r *rig) helm(args ...string) harness.Result {
	r.T.Helper()
	dir, err := tools()
	if err != nil {
		r.T.Fatal(err)
	}
	home := filepath.Join(r.T.TempDir(), "helm")
	return harness.Command{
		Path: "nice", Args: append(append([]string{"-n", "19", filepath.Join(dir, "helm")}, args...), "--namespace", r.ns, "--kubeconfig", r.plane.Kubeconfig()),
		Env: []string{"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home},
	}.Run(r.T)
}

// install installs the chart, or upgrades it to the values that are set.
func (r *rig) install() {
	r.T.Helper()
	all := map[string]any{
		"store":   "dynamodb",
		"layout":  "split",
		"image":   map[string]any{"repository": "local/kinesin", "tag": "test"},
		"aws":     map[string]any{"prefix": r.AWS.Prefix, "region": "us-east-1"},
		"auth":    map[string]any{"secretName": authSecret, "secretKey": "token", "policyKey": ""},
		"tls":     map[string]any{"enabled": false},
		"inbound": map[string]any{"replicas": 0}, "hsc": map[string]any{"replicas": 0},
	}
	maps.Copy(all, r.values)
	text, err := yaml.Marshal(all)
	if err != nil {
		r.T.Fatal(err)
	}
	path := filepath.Join(r.T.TempDir(), "values.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		r.T.Fatal(err)
	}
	chart, err := filepath.Abs("../../deploy/chart/kinesin")
	if err != nil {
		r.T.Fatal(err)
	}
	r.helm("upgrade", "--install", release, chart, "--values", path).Must(r.T)
}

// scale says how many pods are wanted, as `kubectl scale` does.
func (r *rig) scale(n int) {
	r.T.Helper()
	deployments := r.kube.AppsV1().Deployments(r.ns)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the controller writes to it, too
		s, err := deployments.GetScale(r.T.Context(), deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Spec.Replicas = int32(n)
		_, err = deployments.UpdateScale(r.T.Context(), deployment, s, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		r.T.Fatal(err)
	}
}

// await waits until so many pods of the newest ReplicaSet are ready, and no other is there.
func (r *rig) await(n int) {
	r.T.Helper()
	var last appsv1.DeploymentStatus
	r.eventually(rolloutMax, func() bool {
		d, err := r.kube.AppsV1().Deployments(r.ns).Get(r.T.Context(), deployment, metav1.GetOptions{})
		if err != nil {
			return false
		}
		last = d.Status
		want := int32(n)
		return last.ObservedGeneration == d.Generation && last.Replicas == want && last.UpdatedReplicas == want && last.ReadyReplicas == want &&
			len(r.kubelet.Pods()) == n
	}, func() string { return fmt.Sprintf("%d pods ready: %+v", n, last) })
}

// eventually fails the test unless a condition holds in time, and then says what there is instead.
func (r *rig) eventually(atMost time.Duration, holds func() bool, what func() string) {
	r.T.Helper()
	for deadline := time.Now().Add(atMost); !holds(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			r.T.Fatalf("not within %v: %s", atMost, what())
		}
	}
}

// pods are those that are not terminating, by name.
func (r *rig) pods() []*kubelet.Pod {
	all := slices.DeleteFunc(r.kubelet.Pods(), (*kubelet.Pod).Terminating)
	slices.SortFunc(all, func(a, b *kubelet.Pod) int { return strings.Compare(a.Name, b.Name) })
	return all
}
