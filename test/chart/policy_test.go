package chart

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// settings are the files of values in the chart's folder ci.
var settings = []string{"default", "embedded", "minimal", "split", "hpa", "keda", "everything"}

const namespace = "jobs"

// TestPolicy holds every object of every file of values to what must be true of all.
func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			all := objects(t, Render(t, "k", namespace, Values(s)))
			checkHeads(t, all)
			checkRoles(t, all)
			deployments := workloads(all)
			if len(deployments) == 0 {
				t.Fatal("no Deployment and no StatefulSet")
			}
			for _, d := range deployments {
				checkPod(t, &d.Spec.Template.Spec)
				if server := &d.Spec.Template.Spec.Containers[0]; s != "everything" && len(d.Spec.Template.Spec.Containers) != 1 {
					t.Errorf("%d containers beside %s", len(d.Spec.Template.Spec.Containers)-1, server.Name)
				}
				checkProbes(t, d)
				checkEnv(t, d)
				checkToken(t, all, d)
				checkUpdate(t, d)
				checkSelectors(t, all, d)
			}
		})
	}
}

// checkHeads refuses kinds that nobody listed here, and objects of other namespaces.
func checkHeads(t *testing.T, all []runtime.Object) {
	t.Helper()
	kinds := slices.Concat(foreign, []string{
		"Deployment", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount",
		"StatefulSet",
	})
	for _, o := range all {
		if kind := o.GetObjectKind().GroupVersionKind().Kind; !slices.Contains(kinds, kind) {
			t.Errorf("a %s: no object of that kind is expected", kind)
		}
		head, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		if head.GetNamespace() != namespace {
			t.Errorf("%s is in namespace %q, want %s", head.GetName(), head.GetNamespace(), namespace)
		}
		if head.GetLabels()["app.kubernetes.io/instance"] != "k" || head.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
			t.Errorf("%s has labels %v", head.GetName(), head.GetLabels())
		}
	}
}

// checkRoles allows what membership needs, and no more.
func checkRoles(t *testing.T, all []runtime.Object) {
	t.Helper()
	reads := []string{"get", "list", "watch"}
	for _, role := range of[*rbacv1.Role](all) {
		if len(role.Rules) != 2 {
			t.Errorf("%d rules: %v", len(role.Rules), role.Rules)
		}
		for _, rule := range role.Rules {
			pods := slices.Equal(rule.APIGroups, []string{""}) && slices.Equal(rule.Resources, []string{"pods"})
			sets := slices.Equal(rule.APIGroups, []string{"apps"}) && slices.Equal(rule.Resources, []string{"replicasets"})
			if !pods && !sets || !slices.Equal(rule.Verbs, reads) {
				t.Errorf("more than membership needs: %v", rule)
			}
		}
	}
	for _, b := range of[*rbacv1.RoleBinding](all) {
		if b.RoleRef.Kind != "Role" || len(b.Subjects) != 1 || b.Subjects[0].Kind != "ServiceAccount" || b.Subjects[0].Namespace != namespace {
			t.Errorf("binding of %v to %v", b.RoleRef, b.Subjects)
		}
	}
}

// checkPod wants what the restricted security standard of Kubernetes wants, and a file system that nobody
// writes.
func checkPod(t *testing.T, pod *corev1.PodSpec) {
	t.Helper()
	if c := pod.SecurityContext; c == nil || !*c.RunAsNonRoot || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context of the pod: %v", c)
	} else if c.RunAsUser != nil && *c.RunAsUser == 0 {
		t.Error("runs as root")
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.InitContainers) > 0 {
		t.Error("a pod that shares with its host, or begins with another container")
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("a Service named kinesin would set variables of its pods")
	}
	for _, v := range pod.Volumes {
		if v.Secret != nil && *v.Secret.DefaultMode != 0o440 || v.HostPath != nil {
			t.Errorf("volume %s: want Secrets readable by user and group, and nothing of the node", v.Name)
		}
	}
	container := pod.Containers[0]
	c := container.SecurityContext
	if c == nil || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !*c.RunAsNonRoot || c.Privileged != nil ||
		!slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 ||
		c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context of the container: %v", c)
	}
	for _, m := range container.VolumeMounts {
		if strings.HasPrefix(m.MountPath, "/etc/") && !m.ReadOnly || m.SubPath != "" {
			t.Errorf("mount %s: want it read-only, and whole so that it is kept up to date", m.Name)
		}
	}
	r := container.Resources
	if r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() || r.Limits.Memory().IsZero() || !r.Limits.Cpu().IsZero() {
		t.Errorf("resources %v: want CPU and memory requested, and memory bounded", r)
	}
}

func checkProbes(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	c := container(d)
	for _, p := range []struct {
		name, path string
		probe      *corev1.Probe
	}{{"startup", "/livez", c.StartupProbe}, {"readiness", "/readyz", c.ReadinessProbe}, {"liveness", "/livez", c.LivenessProbe}} {
		if p.probe == nil || p.probe.HTTPGet == nil || p.probe.HTTPGet.Path != p.path || p.probe.HTTPGet.Port.StrVal != "api" {
			t.Errorf("%s: %s probe %v, want GET %s", d.Name, p.name, p.probe, p.path)
			continue
		}
		https := p.probe.HTTPGet.Scheme == corev1.URISchemeHTTPS
		if tls := env(d, "KINESIN_TLS_CERT_FILE") != ""; https != tls {
			t.Errorf("%s: %s probe by %s, TLS is %v", d.Name, p.name, p.probe.HTTPGet.Scheme, tls)
		}
	}
}

// secretive is a name of a variable whose value nobody else may read.
var secretive = regexp.MustCompile(`SECRET|TOKEN|PASSWORD|KEY`)

func checkEnv(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range container(d).Env {
		if seen[e.Name] {
			t.Errorf("%s: %s is set twice", d.Name, e.Name)
		}
		seen[e.Name] = true
		if e.Value != "" && secretive.MatchString(e.Name) && !strings.HasSuffix(e.Name, "_FILE") {
			t.Errorf("%s: %s is in plain text", d.Name, e.Name)
		}
	}
	want := map[string]string{"KINESIN_STORE": "dynamodb", "KINESIN_QUEUE": "sqs", "KINESIN_AWS_PREFIX": "prod", "KINESIN_DATA": ""}
	if d.Kind == "StatefulSet" {
		want = map[string]string{"KINESIN_STORE": "pebble", "KINESIN_QUEUE": "memory", "KINESIN_AWS_PREFIX": "", "KINESIN_DATA": "/var/lib/kinesin/data"}
	}
	want["POD_NAME"], want["POD_NAMESPACE"], want["KINESIN_LISTEN"] = "metadata.name", "metadata.namespace", ":7070"
	for name, want := range want {
		if got := env(d, name); got != want {
			t.Errorf("%s: %s is %q, want %q", d.Name, name, got, want)
		}
	}
	if files := env(d, "KINESIN_POLICY") + env(d, "KINESIN_AUTH_TOKEN_FILE"); !strings.HasPrefix(files, "/etc/kinesin/auth/") {
		t.Errorf("%s: the policy and the tokens are %q", d.Name, files)
	}
}

// checkToken wants the token of the ServiceAccount where membership reads from the API server, and nowhere
// else.
func checkToken(t *testing.T, all []runtime.Object, d *appsv1.Deployment) {
	t.Helper()
	watches := env(d, "KINESIN_MEMBERSHIP") == "kubernetes"
	fires := strings.Contains(env(d, "KINESIN_ROLES"), "scheduler")
	if watches && !fires {
		t.Errorf("%s: membership of pods that fire nothing", d.Name)
	}
	if mounted := d.Spec.Template.Spec.AutomountServiceAccountToken; mounted == nil || *mounted != watches {
		t.Errorf("%s: token mounted %v, needed %v", d.Name, mounted, watches)
	}
	if bound := len(of[*rbacv1.RoleBinding](all)) == 1; watches && !bound {
		t.Errorf("%s: no permission for its membership", d.Name)
	}
	for _, a := range of[*corev1.ServiceAccount](all) {
		if a.Name != d.Spec.Template.Spec.ServiceAccountName || *a.AutomountServiceAccountToken {
			t.Errorf("%s: ServiceAccount %s, mounted by default %v", d.Name, a.Name, *a.AutomountServiceAccountToken)
		}
	}
}

// checkUpdate wants an update that takes no pod away before the next one is there, and the time that leaving
// takes.
func checkUpdate(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	if u := d.Spec.Strategy.RollingUpdate; d.Kind == "Deployment" && (u == nil || u.MaxUnavailable.IntValue() != 0 || u.MaxUnavailable.StrVal != "") {
		t.Errorf("%s: update %v", d.Name, u)
	}
	const farewell = 6
	drain := strings.TrimSuffix(env(d, "KINESIN_DRAIN"), "s")
	grace := *d.Spec.Template.Spec.TerminationGracePeriodSeconds
	before := int64(0)
	if l := container(d).Lifecycle; l != nil {
		before = l.PreStop.Sleep.Seconds
	}
	if least := map[string]int64{"10": 10, "30": 30}[drain] + farewell + before; least == farewell+before || grace <= least {
		t.Errorf("%s: %d s of grace for %d s before it ends, %d s of hand-over and a drain of %s s", d.Name, grace, before, farewell, drain)
	}
}

// checkSelectors sees to it that what is to choose these pods does.
func checkSelectors(t *testing.T, all []runtime.Object, d *appsv1.Deployment) {
	t.Helper()
	pod := labels.Set(d.Spec.Template.Labels)
	chooses := func(what string, s *metav1.LabelSelector, want bool) {
		t.Helper()
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Matches(pod) != want {
			t.Errorf("%s: %s chooses its pods: %v, want %v", d.Name, what, !want, want)
		}
	}
	for _, other := range of[*appsv1.Deployment](all) {
		chooses("Deployment "+other.Name, other.Spec.Selector, other.Name == d.Name)
	}
	for _, b := range of[*policyv1.PodDisruptionBudget](all) {
		chooses("PodDisruptionBudget "+b.Name, b.Spec.Selector, b.Name == d.Name || d.Kind == "StatefulSet")
	}
	for _, n := range of[*networkingv1.NetworkPolicy](all) {
		chooses("NetworkPolicy", &n.Spec.PodSelector, true)
	}
	for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
		chooses("topology spread", c.LabelSelector, true)
	}
	roles := strings.Split(env(d, "KINESIN_ROLES"), ",")
	for _, s := range of[*corev1.Service](all) {
		want := map[string]bool{
			"k-kinesin": slices.Contains(roles, "inbound"), "k-kinesin-metrics": true,
			"k-kinesin-workers": slices.Contains(roles, "hsc"), "k-kinesin-workers-headless": slices.Contains(roles, "hsc"),
		}
		chooses("Service "+s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, want[s.Name])
	}
	for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](all) {
		if h.Spec.ScaleTargetRef.Name == d.Name && d.Spec.Replicas != nil {
			t.Errorf("%s: both the chart and its autoscaler say how many pods", d.Name)
		}
	}
}
