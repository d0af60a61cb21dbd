package chart

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	sigsyaml "sigs.k8s.io/yaml"
)

// foreign are the kinds whose types are not Kubernetes' own. Only their fields are looked at.
var foreign = []string{"HTTPRoute", "PrometheusRule", "ScaledObject", "ServiceMonitor"}

// objects decodes strictly: a field that its type does not have, or that is there twice, fails the test.
func objects(t *testing.T, text string) []runtime.Object {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []runtime.Object
	for reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var o unstructured.Unstructured
		if err := sigsyaml.UnmarshalStrict(doc, &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		switch {
		case len(o.Object) == 0:
		case slices.Contains(foreign, o.GetKind()):
			all = append(all, &o)
		default:
			typed, _, err := strict.Decode(doc, nil, nil)
			if err != nil {
				t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
			all = append(all, typed)
		}
	}
}

// of are the objects of one type.
func of[T runtime.Object](all []runtime.Object) []T {
	var some []T
	for _, o := range all {
		if typed, is := o.(T); is {
			some = append(some, typed)
		}
	}
	return some
}

// one is the only object of its type.
func one[T runtime.Object](t *testing.T, all []runtime.Object) T {
	t.Helper()
	some := of[T](all)
	if len(some) != 1 {
		t.Fatalf("%d objects of type %T, want one", len(some), *new(T))
	}
	return some[0]
}

// workloads are what runs servers: Deployments and, in their form, StatefulSets but that of the standby.
func workloads(all []runtime.Object) []*appsv1.Deployment {
	some := of[*appsv1.Deployment](all)
	for _, s := range of[*appsv1.StatefulSet](all) {
		if s.Labels["app.kubernetes.io/component"] != "standby" {
			some = append(some, &appsv1.Deployment{
				TypeMeta: s.TypeMeta, ObjectMeta: s.ObjectMeta, Spec: appsv1.DeploymentSpec{Replicas: s.Spec.Replicas, Selector: s.Spec.Selector, Template: s.Spec.Template},
			})
		}
	}
	return some
}

// named is the workload of a group of pods.
func named(t *testing.T, all []runtime.Object, name string) *appsv1.Deployment {
	t.Helper()
	deployments := workloads(all)
	i := slices.IndexFunc(deployments, func(d *appsv1.Deployment) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("no Deployment or StatefulSet %s", name)
	}
	return deployments[i]
}

// env is the value of a container's variable; of the downward API the path of the field.
func env(d *appsv1.Deployment, name string) string {
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		switch {
		case e.Name != name:
		case e.ValueFrom != nil && e.ValueFrom.FieldRef != nil:
			return e.ValueFrom.FieldRef.FieldPath
		default:
			return e.Value
		}
	}
	return ""
}

func container(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
