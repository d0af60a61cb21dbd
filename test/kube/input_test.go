package kube_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kinesin-io/kinesin/test/harness"
)

// Exit statuses of `kinesin serve`: whether it is no use to start it again before somebody changed something.
const (
	exitTransient = 1
	exitLasting   = 3
)

// unreachableMax is how long a start without an API server may take to give up.
const unreachableMax = time.Minute

// TestWithoutRole installs the chart without its Role. The pod ends, and its status has the reason.
func TestWithoutRole(t *testing.T) {
	t.Parallel()
	r := newCluster(t, plan{replicas: 1, values: map[string]any{"rbac": map[string]any{"create": false}}})
	r.install()
	var status corev1.ContainerStatus
	r.eventually(rolloutMax, func() bool {
		all, err := r.kube.CoreV1().Pods(r.ns).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(all.Items) == 0 || len(all.Items[0].Status.ContainerStatuses) == 0 {
			return false
		}
		status = all.Items[0].Status.ContainerStatuses[0]
		return status.LastTerminationState.Terminated != nil
	}, func() string { return "a pod that ended" })
	if code := status.LastTerminationState.Terminated.ExitCode; code != exitLasting {
		t.Errorf("exit status %d, want %d", code, exitLasting)
	}
	log := r.kubelet.Pods()[0].Log()
	for _, text := range []string{"forbidden", "get, list and watch", "replicasets", r.ns} {
		if !strings.Contains(log, text) {
			t.Errorf("the pod does not say %q:\n%s", text, log)
		}
	}
	harness.NoTrace(t, log)
	// The missing input is given, and the next start succeeds.
	delete(r.values, "rbac")
	r.install()
	r.await(1)
}

// TestBadIdentity starts schedulers as pods are started that nobody configured well.
func TestBadIdentity(t *testing.T) {
	t.Parallel()
	r := newCluster(t, plan{replicas: 0})
	r.install()
	token, err := r.plane.Token(t.Context(), r.ns, release)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := r.plane.WriteKubeconfig(kubeconfig, r.ns, token); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(t.TempDir(), "away")
	if err := r.plane.WriteKubeconfigTo(away, "https://"+harness.FreeAddr(t), r.ns, token); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		code int
		says []string
	}{
		{"no downward API", []string{"KUBECONFIG=" + kubeconfig}, exitLasting, []string{"POD_NAME", "POD_NAMESPACE", "downward API"}},
		{"no namespace", []string{"KUBECONFIG=" + kubeconfig, "POD_NAME=a"}, exitLasting, []string{"POD_NAMESPACE"}},
		{"another pod's name", []string{"KUBECONFIG=" + kubeconfig, "POD_NAME=nobody", "POD_NAMESPACE=" + r.ns}, exitLasting, []string{"nobody", r.ns}},
		{"another namespace", []string{"KUBECONFIG=" + kubeconfig, "POD_NAME=nobody", "POD_NAMESPACE=default"}, exitLasting, []string{"forbidden", "default"}},
		{"not in a cluster", []string{"KUBECONFIG=", "POD_NAME=a", "POD_NAMESPACE=" + r.ns}, exitLasting, []string{"KUBECONFIG", "service account token"}},
		{"API server away", []string{"KUBECONFIG=" + away, "POD_NAME=a", "POD_NAMESPACE=" + r.ns}, exitTransient, []string{"cannot reach the Kubernetes API server"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := append([]string{"HOME=" + t.TempDir(), "POD_NAME=", "POD_NAMESPACE="}, r.AWS.Env()...)
			p := harness.Start(t, harness.Command{
				Env: append(env, c.env...),
				Args: []string{
					"serve", "--roles", "scheduler,dispatcher", "--membership", "kubernetes", "--listen", harness.FreeAddr(t),
					"--store", "dynamodb", "--queue", "sqs", "--aws-prefix", r.AWS.Prefix,
				},
			})
			p.Result(unreachableMax).Refused(t, c.code, c.says...)
		})
	}
}
