package kube_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strconv"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// TestAutoscaled has the HorizontalPodAutoscaler of the chart ask for as many pods as the tasks need that are
// due soon. The controller is the real one, and reads what the pods say through the API of external metrics,
// which the test serves in place of an adapter of Prometheus.
func TestAutoscaled(t *testing.T) {
	t.Parallel()
	const perPod = 100
	r := newRig(t, plan{replicas: 1, values: map[string]any{"scheduler": map[string]any{"autoscaling": map[string]any{
		"kind": "hpa", "minReplicas": 1, "maxReplicas": 4, "cpuUtilization": 0, "scheduleLagSeconds": 5, "due5mTasksPerPod": perPod,
	}}}})
	r.serveMetrics()
	wanted := make([]harness.Wanted, 2*perPod+perPod/2)
	for i := range wanted {
		wanted[i] = harness.Wanted{Job: job.Job{}, Options: []sdk.Option{sdk.In(4 * time.Minute)}}
	}
	began := time.Now()
	r.Schedule(wanted...)
	r.eventually(forecastMax, func() bool { return r.replicas() == 3 }, func() string { return "three pods for tasks due soon: " + r.autoscaler() })
	harness.Figure(t, "autoscaled_after", time.Since(began))
	r.await(3)
	r.shares("autoscaled")
}

// forecastMax is how long it may take until the pods have counted and the controller has looked.
const forecastMax = 2 * time.Minute

func (r *rig) replicas() int {
	s, err := r.kube.AppsV1().Deployments(r.ns).GetScale(r.T.Context(), deployment, metav1.GetOptions{})
	if err != nil {
		return -1
	}
	return int(s.Spec.Replicas)
}

// autoscaler is what the HorizontalPodAutoscaler says of itself.
func (r *rig) autoscaler() string {
	h, err := r.kube.AutoscalingV2().HorizontalPodAutoscalers(r.ns).Get(r.T.Context(), deployment, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(struct {
		Current []autoscalingv2.MetricStatus
		Why     []autoscalingv2.HorizontalPodAutoscalerCondition
	}{h.Status.CurrentMetrics, h.Status.Conditions})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// external metrics, as the API server asks for them.
const (
	metricsGroup   = "external.metrics.k8s.io"
	metricsVersion = "v1beta1"
)

// serveMetrics serves the pods' metrics to the cluster until the test is over: the schedule lag is the
// fleet's worst, of what is due soon the sum counts.
func (r *rig) serveMetrics() {
	r.T.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(r.answerMetrics))
	r.T.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		r.T.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		r.T.Fatal(err)
	}
	const name = "metrics"
	if _, err := r.kube.CoreV1().Services(r.ns).Create(r.T.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(port)}}},
	}, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	client, err := dynamic.NewForConfig(r.plane.Config())
	if err != nil {
		r.T.Fatal(err)
	}
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	full := metricsVersion + "." + metricsGroup
	if _, err := services.Create(r.T.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": full},
		"spec": map[string]any{
			"group": metricsGroup, "version": metricsVersion, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"name": name, "namespace": r.ns, "port": int64(port)},
		},
	}}, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() {
		if err := services.Delete(context.WithoutCancel(r.T.Context()), full, metav1.DeleteOptions{}); err != nil {
			r.T.Errorf("APIService %s is left behind: %v", full, err)
		}
	})
}

func (r *rig) answerMetrics(w http.ResponseWriter, req *http.Request) {
	const root = "/apis/" + metricsGroup + "/" + metricsVersion
	w.Header().Set("Content-Type", "application/json")
	if req.URL.Path == root {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: metricsGroup + "/" + metricsVersion,
			APIResources: []metav1.APIResource{
				{Name: "kinesin_schedule_lag_seconds", Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}},
				{Name: "kinesin_due_next_5m_tasks", Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}},
			},
		})
		return
	}
	name := path.Base(req.URL.Path)
	sum, worst := 0.0, 0.0
	for _, p := range r.pods() {
		n, err := metric(req.Context(), p, name)
		if err != nil {
			continue // not there yet, or no more
		}
		sum, worst = sum+n, max(worst, n)
	}
	value := sum
	if name == "kinesin_schedule_lag_seconds" {
		value = worst
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "ExternalMetricValueList", "apiVersion": metricsGroup + "/" + metricsVersion, "metadata": map[string]any{},
		"items": []any{map[string]any{
			"metricName": name, "metricLabels": map[string]any{}, "timestamp": time.Now().UTC().Format(time.RFC3339),
			"value": strconv.FormatInt(int64(value*1000), 10) + "m",
		}},
	})
}
