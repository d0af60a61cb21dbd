package chart

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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
	if roles := env(d, "KINESIN_ROLES"); roles != "inbound,scheduler,dispatcher,hsc,targets" {
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
		"kinesin-scheduler": {"scheduler,dispatcher", "kubernetes"}, "kinesin-inbound": {"inbound", ""}, "kinesin-hsc": {"hsc,targets", ""},
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
	own := Render(t, "kinesin", namespace, "--set=serviceMonitor.enabled=true")
	for _, want := range []string{"name: \"kinesin-auth\"\n          key: \"prometheus\"", "serverName: kinesin.jobs", "ca: {secret: {name: \"kinesin-tls\", key: ca.crt}}"} {
		if !strings.Contains(own, want) {
			t.Errorf("without a Secret of somebody's there is no %s in\n%s", want, own)
		}
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
	var out []int
	for _, port := range p.Spec.Egress[1].Ports {
		out = append(out, port.Port.IntValue())
	}
	if len(p.Spec.Egress) != 3 || !slices.Equal(out, []int{4318, 443, 8000, 8443, 9324}) || p.Spec.Egress[2].To[0].IPBlock.CIDR != "169.254.170.23/32" {
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
		"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_DYNAMODB": "http://dynamodb:8000", "AWS_ENDPOINT_URL_SQS": "http://sqs:9324", "AWS_ENDPOINT_URL_S3": "https://s3:8443", "KINESIN_MEMBERSHIP": "store",
		"KINESIN_CONSOLE": "true", "KINESIN_CONSOLE_READ_ONLY": "true", "KINESIN_CONSOLE_OIDC_ISSUER": "https://login.acme.example", "KINESIN_CONSOLE_OIDC_CLIENT_ID": "kinesin",
		"KINESIN_CONSOLE_OIDC_CLIENT_SECRET_FILE": "/etc/kinesin/oidc/client-secret", "KINESIN_CONSOLE_OIDC_REDIRECT_URL": "https://jobs.acme.example/ui/signin/callback",
		"KINESIN_CONSOLE_OIDC_SCOPES": "email", "KINESIN_OTLP_ENDPOINT": "http://collector.monitoring:4318", "KINESIN_OTLP_METRICS": "true", "KINESIN_TRACE_SAMPLE": "0.25",
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
	if c := container(d); !slices.Equal(c.Args, []string{"serve", "--accept-loss"}) || pod.Containers[1].Name != "proxy" ||
		!slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "scratch" && v.EmptyDir != nil }) ||
		!slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "oidc" && v.Secret.SecretName == "kinesin-oidc" }) ||
		!slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "scratch" && m.MountPath == "/scratch" }) {
		t.Errorf("an argument, volume or container went nowhere: %+v", pod)
	}
}

// TestRoutes has an Ingress and an HTTPRoute of pods that are apart: the paths of workers lead to theirs.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"everything": {"/ kinesin"}, "split": {"/kinesin.v1.WorkerService kinesin-workers", "/v1/work kinesin-workers", "/ kinesin"},
	} {
		all := objects(t, Render(t, "kinesin", namespace, Values(file), "--set", "ingress.enabled=true,httpRoute.enabled=true,httpRoute.parentRefs[0].name=public"))
		var paths, matches []string
		in := one[*networkingv1.Ingress](t, all)
		for _, p := range in.Spec.Rules[0].HTTP.Paths {
			paths = append(paths, p.Path+" "+p.Backend.Service.Name)
		}
		i := slices.IndexFunc(of[*unstructured.Unstructured](all), func(o *unstructured.Unstructured) bool { return o.GetKind() == "HTTPRoute" })
		spec, _ := of[*unstructured.Unstructured](all)[i].Object["spec"].(map[string]any)
		rules, _ := spec["rules"].([]any)
		for _, rule := range rules {
			var r struct {
				Matches     []struct{ Path struct{ Value string } }
				BackendRefs []struct{ Name string }
			}
			text, err := json.Marshal(rule)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			matches = append(matches, r.Matches[0].Path.Value+" "+r.BackendRefs[0].Name)
		}
		if !slices.Equal(paths, want) || !slices.Equal(matches, want) {
			t.Errorf("%s: Ingress %q, HTTPRoute %q, want %q", file, paths, matches, want)
		}
		hosts := fmt.Sprint(in.Spec.Rules[0].Host, spec["hostnames"], len(in.Spec.TLS), in.Annotations, in.Spec.IngressClassName != nil)
		if want := map[string]string{
			"split":      "<nil> 0 map[] false",
			"everything": "jobs.acme.example[jobs.acme.example] 1 map[nginx.ingress.kubernetes.io/backend-protocol:HTTPS] true",
		}[file]; hosts != want {
			t.Errorf("%s: %s, want %s", file, hosts, want)
		}
	}
}

// TestDefaults is one server that runs with no values: its volume, its own token and its own certificate.
func TestDefaults(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace))
	s := one[*appsv1.StatefulSet](t, all)
	if s.Name != "kinesin" || *s.Spec.Replicas != 1 || s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || s.Spec.ServiceName != "kinesin-metrics" {
		t.Errorf("StatefulSet %s: %+v", s.Name, s.Spec)
	}
	claim := one[*corev1.PersistentVolumeClaim](t, all)
	if size := claim.Spec.Resources.Requests.Storage().String(); size != "10Gi" || claim.Spec.StorageClassName != nil || claim.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("claim of %s, class %v, annotations %v", size, claim.Spec.StorageClassName, claim.Annotations)
	}
	mounted := map[string]string{}
	for _, v := range s.Spec.Template.Spec.Volumes {
		switch {
		case v.Secret != nil:
			mounted[v.Name] = v.Secret.SecretName
		case v.PersistentVolumeClaim != nil:
			mounted[v.Name] = v.PersistentVolumeClaim.ClaimName
		}
	}
	if want := map[string]string{"auth": "kinesin-auth", "tls": "kinesin-tls", "data": claim.Name}; !maps.Equal(mounted, want) {
		t.Errorf("volumes %v, want %v", mounted, want)
	}
	if c := s.Spec.Template.Spec.Containers[0]; c.Image != "ghcr.io/kinesin-io/kinesin:0.1.0" || c.Lifecycle != nil {
		t.Errorf("image %s, before the end %v", c.Image, c.Lifecycle)
	}
	for _, e := range container(named(t, all, "kinesin")).Env {
		for _, asked := range []string{"_OIDC_", "_OTLP_", "_TRACE_", "_BACKUP_", "READ_ONLY", "AWS_"} {
			if strings.Contains(e.Name, asked) {
				t.Errorf("%s is set, which nobody asked for", e.Name)
			}
		}
	}
	for _, kind := range []int{len(of[*rbacv1.Role](all)), len(of[*unstructured.Unstructured](all)), len(of[*appsv1.Deployment](all))} {
		if kind != 0 {
			t.Errorf("%d objects that nobody asked for", kind)
		}
	}
	for _, secret := range of[*corev1.Secret](all) {
		switch secret.Name {
		case "kinesin-auth":
			for _, who := range []string{"operator", "prometheus"} {
				if hash := sha256.Sum256([]byte(secret.StringData[who])); len(secret.StringData[who]) < 32 || !strings.Contains(secret.StringData["policy.yaml"], hex.EncodeToString(hash[:])) {
					t.Errorf("the policy does not know the token of %s", who)
				}
			}
		case "kinesin-tls":
			pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(secret.Data["ca.crt"])
			for _, name := range []string{"kinesin.jobs", "kinesin-workers.jobs.svc.cluster.local", "localhost", "127.0.0.1"} {
				if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
					t.Error(err)
				}
			}
		default:
			t.Errorf("Secret %s", secret.Name)
		}
	}
}

// TestEmbedded is a server with backup and a standby: two pods, each with a volume of its own.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("embedded")))
	server := named(t, all, "kinesin")
	for name, want := range map[string]string{"KINESIN_BACKUP_TO": "/backup/kinesin", "KINESIN_BACKUP_EVERY": "30s", "KINESIN_BACKUP_KEEP": "72h"} {
		if got := env(server, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if grace := *server.Spec.Template.Spec.TerminationGracePeriodSeconds; grace != 8+10+60+5 {
		t.Errorf("%d s of grace", grace)
	}
	sets := of[*appsv1.StatefulSet](all)
	i := slices.IndexFunc(sets, func(s *appsv1.StatefulSet) bool { return s.Name == "kinesin-standby" })
	if i < 0 || len(sets) != 2 {
		t.Fatalf("%d StatefulSets, without kinesin-standby", len(sets))
	}
	standby := sets[i].Spec.Template
	checkPod(t, &standby.Spec)
	if c := standby.Spec.Containers[0]; !slices.Equal(c.Args, []string{"standby", "--from", "/backup/kinesin", "--data", "/var/lib/kinesin/data"}) || c.LivenessProbe != nil || len(c.Ports) != 0 {
		t.Errorf("standby %+v", c)
	}
	if standby.Spec.NodeSelector["disk"] != "fast" || standby.Spec.Containers[0].Resources.Requests.Memory().String() != "128Mi" {
		t.Errorf("standby %+v", standby.Spec)
	}
	for _, s := range of[*corev1.Service](all) {
		if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(standby.Labels)) {
			t.Errorf("Service %s chooses the standby", s.Name)
		}
	}
	for _, claim := range of[*corev1.PersistentVolumeClaim](all) {
		begins := claim.Spec.DataSource != nil
		if claim.Name != "kinesin-data" && claim.Name != "kinesin-standby" || begins != (claim.Name == "kinesin-data") || *claim.Spec.StorageClassName != "fast" ||
			claim.Spec.AccessModes[0] != corev1.ReadWriteOncePod || claim.Spec.Resources.Requests.Storage().String() != "100Gi" || claim.Annotations["keep"] != "daily" {
			t.Errorf("claim %s: %+v", claim.Name, claim.Spec)
		}
	}
	if n := len(of[*corev1.PersistentVolumeClaim](all)); n != 2 {
		t.Errorf("%d claims", n)
	}
}

// TestPromote has the standby take over: a Job in its place, and then a server on its volume.
func TestPromote(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, Values("embedded"), "--set=standby.promote=true"))
	job := one[*batchv1.Job](t, all)
	pod := job.Spec.Template.Spec
	checkPod(t, &pod)
	if args := pod.Containers[0].Args; job.Name != "kinesin-promote" || args[len(args)-1] != "--promote" || pod.RestartPolicy != corev1.RestartPolicyOnFailure {
		t.Errorf("Job %s: %+v", job.Name, pod)
	}
	one[*appsv1.StatefulSet](t, all)

	all = objects(t, Render(t, "kinesin", namespace, Values("embedded"), "--set=standby.enabled=false,persistence.existingClaim=kinesin-standby"))
	volumes := one[*appsv1.StatefulSet](t, all).Spec.Template.Spec.Volumes
	if !slices.ContainsFunc(volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "kinesin-standby"
	}) {
		t.Errorf("volumes %+v", volumes)
	}
	if n := len(of[*corev1.PersistentVolumeClaim](all)); n != 0 {
		t.Errorf("%d claims besides that which is there", n)
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

// TestConsoleOff has servers without console, and plain text, for which no certificate is made.
func TestConsoleOff(t *testing.T) {
	t.Parallel()
	all := objects(t, Render(t, "kinesin", namespace, "--set=console.enabled=false,tls.enabled=false"))
	if got := env(named(t, all, "kinesin"), "KINESIN_CONSOLE"); got != "false" {
		t.Errorf("the console is %q", got)
	}
	if s := one[*corev1.Secret](t, all); s.Name != "kinesin-auth" {
		t.Errorf("Secret %s", s.Name)
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
			"store=embedded,aws.prefix=,auth.secretName=,tls.secretName=",
			[]string{
				"one server, with its tasks on volume kinesin-data", "statefulset/kinesin", "get secret kinesin-auth", "{{.data.operator | base64decode}}", `{{index .data "ca.crt" | base64decode}}`,
				"KINESIN_TLS_CA_FILE=ca.crt", "backup.to keeps recovery points elsewhere",
			},
			[]string{"--replicas", "plain text", "tables"},
		},
		{
			"store=embedded,aws.prefix=,backup.to=s3://a/b,standby.enabled=true,standby.promote=true",
			[]string{"job/kinesin-promote", "--set persistence.existingClaim=kinesin-standby"},
			[]string{"elsewhere", "operator"},
		},
		{
			"scheduler.replicas=1,networkPolicy.enabled=false,serviceMonitor.enabled=true,service.type=NodePort,tls.enabled=false,tls.secretName=,auth.secretKey=token",
			[]string{
				"http://kinesin.jobs:7070", "http://kinesin-workers.jobs:7070", "Secret kinesin-auth", "deployment/kinesin-scheduler",
				"plain text", "whoever has a token of key token may do everything", "with one scheduler", "every pod of the cluster",
			},
			[]string{"networkPolicy.clients"},
		},
		{"serviceMonitor.enabled=true,serviceMonitor.tokenSecretKey=prometheus", []string{"https://kinesin.jobs:7070", "the policy in Secret kinesin-auth", "A Prometheus of another one gets nothing until networkPolicy.clients names it"}, []string{"service.type", "plain text", "may do everything"}},
		{"ingress.enabled=true", []string{"An ingress controller or gateway of another one gets nothing until networkPolicy.clients names it"}, []string{"Prometheus"}},
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
