package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TestNamesAndLabels has releases, namespaces and values that make unusual names and labels, and holds what
// comes out to what every API server takes.
func TestNamesAndLabels(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 40)
	for _, c := range []struct {
		name, release, namespace, set string
		service                       string // for clients
	}{
		{"long release", "kinesin-" + long + "-b", "jobs", "", "kinesin-" + long[:38]},
		{"long release, cut before a dash", strings.Repeat("a", 45) + "-kinesin", "jobs", "", strings.Repeat("a", 45)},
		{"long name", "k", "jobs", "fullnameOverride=" + long + "abcdef", long + "abcdef"},
		{"release with a dot", "a.b", "jobs", "", "a-b-kinesin"},
		{"names that YAML takes for something else", "y", "123", "fullnameOverride=on,nameOverride=null,serviceAccount.name=1e3", "on"},
		{"tag that ends in a dot", "k", "jobs", "image.tag=v1.", "k-kinesin"},
		{"tag that begins with an underscore", "k", "jobs", "image.tag=_x", "k-kinesin"},
		{"tag that is cut at a dot", "k", "jobs", "image.tag=" + long + long[:22] + ".b", "k-kinesin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := objects(t, Render(t, c.release, c.namespace, Values("minimal"), "--set-string", c.set, "--set", "service.workers.headless=true,serviceMonitor.enabled=true,serviceMonitor.tokenSecretKey=prometheus"))
			for _, o := range all {
				head, err := meta.Accessor(o)
				if err != nil {
					t.Fatal(err)
				}
				kind := o.GetObjectKind().GroupVersionKind().Kind
				if wrong := validation.IsDNS1123Subdomain(head.GetName()); len(wrong) > 0 || head.GetNamespace() != c.namespace {
					t.Errorf("%s %s in namespace %q: %v", kind, head.GetName(), head.GetNamespace(), wrong)
				}
				for key, value := range head.GetLabels() {
					if wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(wrong) > 0 {
						t.Errorf("%s %s: label %s=%s: %v", kind, head.GetName(), key, value, wrong)
					}
				}
			}
			const statefulSetMax = 52 // a label of its pods has a hash behind it
			for _, s := range of[*appsv1.StatefulSet](objects(t, Render(t, c.release, c.namespace, Values("embedded"), "--set-string", c.set))) {
				if wrong := validation.IsDNS1123Label(s.Name); len(wrong) > 0 || len(s.Name) > statefulSetMax {
					t.Errorf("StatefulSet %s: %v", s.Name, wrong)
				}
			}
			checkServiceNames(t, of[*corev1.Service](all), c.service)
		})
	}
}

func checkServiceNames(t *testing.T, services []*corev1.Service, clients string) {
	t.Helper()
	names := map[string]bool{clients: false, clients + "-workers": false, clients + "-workers-headless": false, clients + "-metrics": false}
	for _, s := range services {
		if wrong := validation.IsDNS1035Label(s.Name); len(wrong) > 0 {
			t.Errorf("Service %s: %v", s.Name, wrong)
		}
		names[s.Name] = true
	}
	if len(names) != 4 || !names[clients] {
		t.Errorf("Services %v, want %s and three that begin so", slices.Sorted(maps.Keys(names)), clients)
	}
}

// TestRepositories are names of images as they are in use.
func TestRepositories(t *testing.T) {
	t.Parallel()
	for _, repository := range []string{
		"kinesin", "team/kinesin", "localhost/kinesin", "registry:5000/kinesin", "Registry.Example/team/kinesin", "ghcr.io/team/jobs/kinesin_x-y.z",
		"111122223333.dkr.ecr.eu-west-1.amazonaws.com/kinesin",
	} {
		if out := Render(t, "k", namespace, Values("minimal"), "--set", "image.repository="+repository); !strings.Contains(out, `image: "`+repository+`:`) {
			t.Errorf("no container runs %s", repository)
		}
	}
}
