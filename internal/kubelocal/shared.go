package kubelocal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cleanMax bounds how long the end of a test may take to delete what the test made.
const cleanMax = 20 * time.Second

// shared is the control plane of all tests of this program.
var shared struct {
	once  sync.Once
	plane *Plane
	err   error
}

// Start is the control plane that all tests of this program share. The first call starts it. Under -short
// the test is skipped, as all are that run processes.
func Start(tb testing.TB) *Plane {
	tb.Helper()
	if testing.Short() {
		tb.Skip("runs a control plane of Kubernetes")
	}
	shared.once.Do(func() { shared.plane, shared.err = Launch(context.WithoutCancel(tb.Context()), Options{}) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(shared.plane.Log())
		}
	})
	return shared.plane
}

// End ends the shared control plane, where there is one, and removes its data. A TestMain calls it after all
// tests.
func End() {
	if shared.plane != nil {
		shared.plane.Close()
	}
}

// Namespace makes a namespace for a test alone, which is deleted when the test is over, and all in it. Its
// pods have to be fit for the restricted security standard.
func (p *Plane) Namespace(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("t%08x", rand.Uint32())
	if _, err := p.client.CoreV1().Namespaces().Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanMax)
		defer cancel()
		if err := p.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			tb.Logf("namespace %s is left behind: %v", name, err)
		}
	})
	return name
}
