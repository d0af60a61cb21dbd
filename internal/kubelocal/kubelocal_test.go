package kubelocal

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) {
	code := m.Run()
	End()
	if shared.plane != nil {
		if _, err := os.Stat(shared.plane.dir); !os.IsNotExist(err) {
			panic("data left behind in " + shared.plane.dir)
		}
	}
	os.Exit(code)
}

// TestServiceAccount looks at the API server as a pod does: RBAC decides.
func TestServiceAccount(t *testing.T) {
	p := Start(t)
	ns := p.Namespace(t)
	if _, err := p.Client().CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := p.Token(t.Context(), ns, "pod")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(path, ns, token); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("pods listed without a Role: %v", err)
	}
	_, err = p.Token(t.Context(), ns, "nobody")
	if !apierrors.IsNotFound(err) {
		t.Errorf("token of nobody: %v", err)
	}
}

// TestStop is for all that outlives the API server's end.
func TestStop(t *testing.T) {
	p := Start(t)
	ns := p.Namespace(t)
	p.StopAPI()
	if _, err := p.Client().CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); err == nil {
		t.Error("the API server answers after its end")
	}
	if err := p.StartAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Client().CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
