package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestLint(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		if out, said, err := Helm(t, "lint", "--strict", Dir, Values(s)); err != nil {
			t.Errorf("%s: %v\n%s%s", s, err, out, said)
		}
	}
}

// TestTogether is the least that can be installed: one Deployment with all roles.
func TestTogether(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("minimal")))
	d := one[*appsv1.Deployment](t, all)
	if d.Name != "kinesin-scheduler" || d.Spec.Replicas != nil {
		t.Errorf("Deployment %s of %v pods, which kubectl scale is to say", d.Name, d.Spec.Replicas)
	}
	if roles := env(d, "KINESIN_ROLES"); roles != "inbound,scheduler,dispatcher,hsc" {
		t.Errorf("roles %s", roles)
	}
	if m := env(d, "KINESIN_MEMBERSHIP"); m != "kubernetes" {
		t.Errorf("membership %s", m)
	}
	for name, want := range map[string]string{
		"KINESIN_POLICY": "/etc/kinesin/auth/policy.yaml", "KINESIN_AUTH_TOKEN_FILE": "", "KINESIN_TLS_CERT_FILE": "/etc/kinesin/tls/tls.crt", "KINESIN_TLS_KEY_FILE": "/etc/kinesin/tls/tls.key",
	} {
		if got := env(d, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if c := container(d); c.Image != "registry.example/kinesin:0.1.0" || !slices.Equal(c.Args, []string{"serve"}) {
		t.Errorf("image %s, arguments %v", c.Image, c.Args)
	}
	if grace := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; grace != 2+8+10+5 {
		t.Errorf("%d s of grace", grace)
	}
	for _, kind := range []int{
		len(of[*policyv1.PodDisruptionBudget](all)), len(of[*networkingv1.NetworkPolicy](all)), len(of[*rbacv1.Role](all)),
		len(of[*rbacv1.RoleBinding](all)), len(of[*corev1.ServiceAccount](all)),
	} {
		if kind != 1 {
			t.Errorf("%d of a kind of which there is to be one", kind)
		}
	}
	if n := len(of[*unstructured.Unstructured](all)) + len(of[*autoscalingv2.HorizontalPodAutoscaler](all)); n != 0 {
		t.Errorf("%d objects that nobody asked for", n)
	}
}

// TestSplit has a Deployment for each group of roles; the one that fires keeps its name, and with it its
// fleet.
func TestSplit(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("split")))
	if n := named(t, all, "kinesin-scheduler").Spec.Replicas; n == nil || *n != 3 {
		t.Errorf("%v pods, want the number that was asked for", n)
	}
	for name, want := range map[string]struct{ roles, membership string }{
		"kinesin-scheduler": {"scheduler,dispatcher", "kubernetes"}, "kinesin-inbound": {"inbound", ""}, "kinesin-hsc": {"hsc", ""},
	} {
		d := named(t, all, name)
		if roles, m := env(d, "KINESIN_ROLES"), env(d, "KINESIN_MEMBERSHIP"); roles != want.roles || m != want.membership {
			t.Errorf("%s: roles %s, membership %q", name, roles, m)
		}
		if image := container(d).Image; image != "registry.example/kinesin@sha256:"+strings.Repeat("0", 64) {
			t.Errorf("%s: image %s", name, image)
		}
		if file := env(d, "KINESIN_AUTH_TOKEN_FILE"); file != "/etc/kinesin/auth/tokens" {
			t.Errorf("%s: tokens of %s", name, file)
		}
		if stays := container(d).Lifecycle != nil; stays == (name == "kinesin-scheduler") {
			t.Errorf("%s: stays until no new calls are sent to it: %v", name, stays)
		}
	}
	if role := one[*corev1.ServiceAccount](t, all).Annotations["eks.amazonaws.com/role-arn"]; role != "arn:aws:iam::111122223333:role/kinesin" {
		t.Errorf("role on AWS %q", role)
	}
}

func TestHPA(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("hpa")))
	scalers := of[*autoscalingv2.HorizontalPodAutoscaler](all)
	if len(scalers) != 3 {
		t.Fatalf("%d autoscalers, want 3", len(scalers))
	}
	for _, h := range scalers {
		var names []string
		for _, m := range h.Spec.Metrics {
			switch m.Type {
			case autoscalingv2.ContainerResourceMetricSourceType:
				names = append(names, string(m.ContainerResource.Name)+" of "+m.ContainerResource.Container)
			case autoscalingv2.ExternalMetricSourceType:
				if m.External.Metric.Selector.MatchLabels["release"] != "kinesin" {
					t.Errorf("%s: chosen by %v", m.External.Metric.Name, m.External.Metric.Selector)
				}
				target := m.External.Target
				names = append(names, m.External.Metric.Name+" "+target.Value.String()+target.AverageValue.String())
			default:
				t.Errorf("a metric of type %s", m.Type)
			}
		}
		want := []string{"cpu of kinesin"}
		if h.Name == "kinesin-scheduler" {
			want = []string{"cpu of kinesin", "kinesin_schedule_lag_seconds 5<nil>", "kinesin_due_next_5m_tasks <nil>150k"}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s goes by %q, want %q", h.Name, names, want)
		}
		if d := named(t, all, h.Spec.ScaleTargetRef.Name); d.Name != h.Name {
			t.Errorf("%s scales %s", h.Name, d.Name)
		}
		if s := h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds; *s != 300 {
			t.Errorf("%s: fewer after %d s", h.Name, *s)
		}
	}
}

func TestKEDA(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("keda")))
	if n := len(of[*autoscalingv2.HorizontalPodAutoscaler](all)); n != 0 {
		t.Errorf("%d autoscalers besides that of KEDA", n)
	}
	o := one[*unstructured.Unstructured](t, all).Object
	triggers, _, err := unstructured.NestedSlice(o, "spec", "triggers")
	if err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, trigger := range triggers {
		fields, is := trigger.(map[string]any)
		if !is {
			t.Fatalf("trigger %v", trigger)
		}
		query, _, _ := unstructured.NestedString(fields, "metadata", "query")
		kind, _, _ := unstructured.NestedString(fields, "metricType")
		queries = append(queries, kind+" "+query)
	}
	want := []string{
		"Utilization ", `Value max(kinesin_schedule_lag_seconds{namespace="jobs",service="kinesin-metrics"})`,
		`AverageValue sum(kinesin_due_next_5m_tasks{namespace="jobs",service="kinesin-metrics"})`,
	}
	if !slices.Equal(queries, want) {
		t.Errorf("triggers %q, want %q", queries, want)
	}
}

func TestServiceMonitor(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("minimal"), "--set=serviceMonitor.enabled=true,serviceMonitor.tokenSecretKey=prometheus"))
	o := one[*unstructured.Unstructured](t, all).Object
	endpoints, _, err := unstructured.NestedSlice(o, "spec", "endpoints")
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("endpoints %v, %v", endpoints, err)
	}
	endpoint, is := endpoints[0].(map[string]any)
	if !is {
		t.Fatalf("endpoint %v", endpoints[0])
	}
	secret, _, _ := unstructured.NestedStringMap(endpoint, "authorization", "credentials")
	if secret["name"] != "kinesin-auth" || secret["key"] != "prometheus" || endpoint["port"] != "metrics" || endpoint["scheme"] != "https" {
		t.Errorf("endpoint %v", endpoint)
	}
	chosen, _, _ := unstructured.NestedStringMap(o, "spec", "selector", "matchLabels")
	for _, s := range of[*corev1.Service](all) {
		matches := true
		for k, v := range chosen {
			matches = matches && s.Labels[k] == v
		}
		if matches != (s.Name == "kinesin-metrics") {
			t.Errorf("Service %s is chosen: %v", s.Name, matches)
		}
	}
}

func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("everything")))
	p := one[*networkingv1.NetworkPolicy](t, all)
	if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) != 1 || len(p.Spec.Ingress[0].From) != 3 || p.Spec.Ingress[0].Ports[0].Port.StrVal != "api" {
		t.Errorf("in: %+v", p.Spec.Ingress)
	}
	if own := p.Spec.Ingress[0].From[0]; own.PodSelector == nil || len(own.PodSelector.MatchLabels) != 0 || own.NamespaceSelector != nil || own.IPBlock != nil {
		t.Errorf("with clients the pods of the namespace are shut out: %+v", p.Spec.Ingress)
	}
	if len(p.Spec.Egress) != 3 || p.Spec.Egress[1].Ports[0].Port.IntValue() != 443 || p.Spec.Egress[2].To[0].IPBlock.CIDR != "169.254.170.23/32" {
		t.Errorf("out: %+v", p.Spec.Egress)
	}
	if n := len(of[*networkingv1.NetworkPolicy](objects(t, Render(t, "kinesin", namespace, Values("minimal"), "--set=networkPolicy.enabled=false")))); n != 0 {
		t.Errorf("%d policies though turned off", n)
	}
}

// TestEverything looks for values that would have gone nowhere.
func TestEverything(t *testing.T) {
	t.Parallel()
	d := named(t, objects(t, Render(t, "kinesin", namespace, Values("everything"))), "kinesin-scheduler")
	pod := d.Spec.Template.Spec
	if d.Spec.Replicas != nil {
		t.Errorf("%d replicas, which are not the chart's business", *d.Spec.Replicas)
	}
	if s := pod.SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil {
		t.Errorf("users %v, though the cluster chooses them", s)
	}
	for name, want := range map[string]string{
		"KINESIN_WINDOW": "10s", "KINESIN_DELIVER_DIRECT": "0s", "KINESIN_DRAIN": "30s", "KINESIN_LOG_LEVEL": "debug", "KINESIN_LOG_FORMAT": "text",
		"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_DYNAMODB": "http://dynamodb:8000", "AWS_ENDPOINT_URL_SQS": "http://sqs:9324", "KINESIN_MEMBERSHIP": "store",
		"KINESIN_TLS_CERT_FILE": "/etc/kinesin/tls/tls.crt", "KINESIN_TLS_KEY_FILE": "/etc/kinesin/tls/tls.key", "KINESIN_POLICY": "/etc/kinesin/auth/policy.yaml",
	} {
		if got := env(d, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if pod.ServiceAccountName != "shared" || pod.PriorityClassName != "jobs" || pod.NodeSelector["kubernetes.io/arch"] != "amd64" || len(pod.Tolerations) != 1 ||
		pod.Affinity.PodAntiAffinity == nil || pod.ImagePullSecrets[0].Name != "pull" || pod.Containers[0].EnvFrom[0].SecretRef.Name != "aws" ||
		d.Spec.Template.Labels["team"] != "jobs" || d.Spec.Template.Labels["cost"] != "a" || d.Spec.Template.Annotations["note"] != "b" || d.Spec.Strategy.RollingUpdate.MaxSurge.StrVal != "25%" {
		t.Errorf("a value went nowhere: %+v", d.Spec.Template)
	}
}

// TestGroupsVariablesWin has a variable for all pods, and the same for some.
func TestGroupsVariablesWin(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("split"), "--set-string",
		"extraEnv[0].name=A,extraEnv[0].value=all,extraEnv[1].name=B,extraEnv[1].value=all,hsc.extraEnv[0].name=A,hsc.extraEnv[0].value=own"))
	for name, want := range map[string]string{"kinesin-scheduler": "all", "kinesin-hsc": "own"} {
		d := named(t, all, name)
		checkEnv(t, d)
		if a, b := env(d, "A"), env(d, "B"); a != want || b != "all" {
			t.Errorf("%s: A is %q, B is %q, want %q and all", name, a, b, want)
		}
	}
}

// TestPathsAreNoSecrets has a variable that says where a token is.
func TestPathsAreNoSecrets(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("minimal"), "--set", "extraEnv[0].name=AWS_WEB_IDENTITY_TOKEN_FILE,extraEnv[0].value=/var/run/token"))
	if got := env(one[*appsv1.Deployment](t, all), "AWS_WEB_IDENTITY_TOKEN_FILE"); got != "/var/run/token" {
		t.Errorf("the variable is %q", got)
	}
}

// TestOwnLabelsWin has labels and an annotation that are set in more than one place: each is there once, from
// the nearest.
func TestOwnLabelsWin(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("minimal"), "--set",
		`commonLabels.release=a,serviceMonitor.enabled=true,serviceMonitor.tokenSecretKey=prometheus,serviceMonitor.labels.release=b,podAnnotations.kubectl\.kubernetes\.io/default-container=mesh`))
	if got := one[*unstructured.Unstructured](t, all).GetLabels(); got["release"] != "b" || got["app.kubernetes.io/name"] != "kinesin" {
		t.Errorf("labels %v of the ServiceMonitor", got)
	}
	template := one[*appsv1.Deployment](t, all).Spec.Template
	if got := template.Annotations["kubectl.kubernetes.io/default-container"]; got != "mesh" || template.Labels["release"] != "a" {
		t.Errorf("container %q, labels %v", got, template.Labels)
	}
}

// TestPodsStayWhenTheChartChanges keeps out of pods what would replace them all without any change to them.
func TestPodsStayWhenTheChartChanges(t *testing.T) {
	t.Parallel()
	for name := range one[*appsv1.Deployment](t, objects(t, Render(t, "kinesin", namespace, Values("minimal")))).Spec.Template.Labels {
		if name == "helm.sh/chart" || name == "app.kubernetes.io/version" {
			t.Errorf("label %s of pods", name)
		}
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set           string
		want, without []string
	}{
		{
			"scheduler.replicas=1,networkPolicy.enabled=false,serviceMonitor.enabled=true,service.type=NodePort,tls.enabled=false,tls.secretName=,auth.secretKey=token",
			[]string{
				"http://kinesin.jobs:7070", "http://kinesin-workers.jobs:7070", "Secret kinesin-auth", "deployment/kinesin-scheduler",
				"plain text", "whoever has a token of key token may do everything", "with one scheduler", "every pod of the cluster",
			},
			[]string{"networkPolicy.clients"},
		},
		{"serviceMonitor.enabled=true,serviceMonitor.tokenSecretKey=prometheus", []string{"https://kinesin.jobs:7070", "the policy in Secret kinesin-auth", "A Prometheus of another one gets nothing until networkPolicy.clients names it"}, []string{"service.type", "plain text", "may do everything"}},
		{"service.type=LoadBalancer", []string{"service.type is LoadBalancer, but only pods of namespace jobs are let in"}, []string{"Prometheus"}},
		{"serviceMonitor.enabled=true,serviceMonitor.tokenSecretKey=prometheus,service.type=LoadBalancer,networkPolicy.clients[0].ipBlock.cidr=10.0.0.0/8", nil, []string{"let in"}},
	} {
		out, said, err := Helm(t, "install", "kinesin", Dir, "--namespace", namespace, "--dry-run=client", Values("minimal"), "--set="+c.set)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.set, err, said)
		}
		_, notes, _ := strings.Cut(out, "NOTES:")
		for _, want := range c.want {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: the notes do not speak of %q:\n%s", c.set, want, notes)
			}
		}
		for _, without := range c.without {
			if strings.Contains(notes, without) {
				t.Errorf("%s: the notes speak of %q:\n%s", c.set, without, notes)
			}
		}
	}
}
