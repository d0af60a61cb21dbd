package kube_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kinesin-io/kinesin/internal/kubelocal"
	"github.com/kinesin-io/kinesin/test/harness"
)

// TestChartTaken has the API server, in a namespace that takes restricted pods only, take all that the
// chart's files of values make, each over the one before: a release goes from any to any other, and back. No
// pod runs.
func TestChartTaken(t *testing.T) {
	t.Parallel()
	plane := kubelocal.Start(t)
	r := &rig{Site: harness.New(t, harness.Options{}), plane: plane, kube: plane.Client(), ns: plane.Namespace(t)}
	chart, err := filepath.Abs("../../deploy/chart/kinesin")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		values      string
		options     []string
		deployments []string
	}{
		{"minimal", nil, []string{"kinesin-scheduler"}},
		{"split", nil, []string{"kinesin-hsc", "kinesin-inbound", "kinesin-scheduler"}},
		{"hpa", nil, []string{"kinesin-hsc", "kinesin-inbound", "kinesin-scheduler"}},
		// The Prometheus operator's kinds are not there, and one kind of autoscaler is enough.
		{"everything", []string{"--set", "serviceMonitor.enabled=false"}, []string{"kinesin-scheduler"}},
		{"minimal", nil, []string{"kinesin-scheduler"}},
	} {
		args := []string{"upgrade", "--install", release, chart, "--values", filepath.Join(chart, "ci", step.values+"-values.yaml")}
		done := r.helm(append(args, step.options...)...)
		done.Must(t)
		if strings.Contains(strings.ToLower(done.Stderr), "warn") {
			t.Errorf("%s: the API server warns:\n%s", step.values, done.Stderr)
		}
		all, err := r.kube.AppsV1().Deployments(r.ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		if slices.Sort(names); !slices.Equal(names, step.deployments) {
			t.Errorf("%s: Deployments %v, want %v", step.values, names, step.deployments)
		}
	}
	for range 4 {
		r.helm("rollback", release).Must(t)
	}
	r.helm("uninstall", release).Must(t)
}
