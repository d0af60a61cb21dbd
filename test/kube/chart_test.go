package kube_test

import (
	"path/filepath"
	"reflect"
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
		// Nothing of a claim can be changed but its size.
		{"embedded", []string{"--set", "serviceMonitor.enabled=false,prometheusRule.enabled=false,standby.promote=true"}, nil},
		{"default", []string{"--set", "persistence.existingClaim=kinesin-standby"}, nil},
		{"minimal", nil, []string{"kinesin-scheduler"}},
		{"split", nil, []string{"kinesin-hsc", "kinesin-inbound", "kinesin-scheduler"}},
		{"hpa", nil, []string{"kinesin-hsc", "kinesin-inbound", "kinesin-scheduler"}},
		// The Prometheus operator's kinds are not there, and one kind of autoscaler is enough.
		{"everything", []string{"--set", "serviceMonitor.enabled=false,httpRoute.enabled=false"}, []string{"kinesin-scheduler"}},
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
	for range 6 {
		r.helm("rollback", release).Must(t)
	}
	r.helm("uninstall", release).Must(t)
}

// TestDefaultsTaken installs the chart with no values, and then with what a server of its own has at most. What was made
// at the first installation stays: the token, the certificate and, when the release is gone, the volume. No pod runs.
func TestDefaultsTaken(t *testing.T) {
	t.Parallel()
	plane := kubelocal.Start(t)
	r := &rig{Site: harness.New(t, harness.Options{}), plane: plane, kube: plane.Client(), ns: plane.Namespace(t)}
	chart, err := filepath.Abs("../../deploy/chart/kinesin")
	if err != nil {
		t.Fatal(err)
	}
	made := func() map[string]map[string][]byte {
		t.Helper()
		all := map[string]map[string][]byte{}
		for _, name := range []string{"kinesin-auth", "kinesin-tls"} {
			secret, err := r.kube.CoreV1().Secrets(r.ns).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all[name] = secret.Data
		}
		return all
	}
	r.helm("install", release, chart).Must(t)
	first := made()
	if len(first["kinesin-auth"]) != 3 || len(first["kinesin-tls"]) != 3 {
		t.Errorf("Secrets %v", first)
	}
	backup := []string{"--set", "backup.to=s3://backups/prod,backup.every=1m,standby.enabled=true,aws.region=eu-west-1"}
	r.helm(append([]string{"upgrade", release, chart}, backup...)...).Must(t)
	if again := made(); !reflect.DeepEqual(again, first) {
		t.Errorf("an upgrade made Secrets anew: %v, want %v", again, first)
	}
	r.helm("rollback", release).Must(t)
	r.helm("uninstall", release).Must(t)
	claims, err := r.kube.CoreV1().PersistentVolumeClaims(r.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range claims.Items {
		names = append(names, claims.Items[i].Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"kinesin-data", "kinesin-standby"}) {
		t.Errorf("claims %v are left", names)
	}
	r.helm("install", release, chart).Must(t) // and has the volume again
	sets, err := r.kube.AppsV1().StatefulSets(r.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 1 || sets.Items[0].Name != release {
		t.Errorf("StatefulSets %v, %v", sets, err)
	}
}

// TestOneServer has the pod of the store embedded replaced, by a restart and by an upgrade: the next one has the tasks,
// and takes the token of before. The claim is a folder here.
func TestOneServer(t *testing.T) {
	g := newGuide(t)
	for _, command := range []string{
		"helm install kinesin deploy/chart/kinesin --namespace kinesin --create-namespace --wait",
		"umask 077; kubectl --namespace kinesin get secret kinesin-auth --output go-template='{{.data.operator | base64decode}}' > operator.token",
		`kubectl --namespace kinesin get secret kinesin-tls --output go-template='{{index .data "ca.crt" | base64decode}}' > ca.crt`,
		"export KINESIN_SERVER=https://127.0.0.1:7070 KINESIN_TLS_CA_FILE=ca.crt KINESIN_TOKEN_FILE=operator.token",
		"bin/kinesin lambda create greet",
		"bin/kinesin schedule greet --in 1h > id",
		"kubectl --namespace kinesin rollout restart statefulset/kinesin",
		"kubectl --namespace kinesin rollout status statefulset/kinesin",
		"bin/kinesin get $(cat id)",
		"helm upgrade kinesin deploy/chart/kinesin --namespace kinesin --set log.level=debug --wait",
		"bin/kinesin get $(cat id)",
		"bin/kinesin stats",
	} {
		g.run(command)
	}
}

// TestSplit runs each group of roles in pods of its own, with TLS: clients and workers reach those that are
// for them.
func TestSplit(t *testing.T) {
	g := newGuide(t)
	g.write("values.yaml", `store: dynamodb
aws: {prefix: prod, region: eu-west-1}
auth: {secretName: kinesin-auth, secretKey: token, policyKey: ""}
tls: {secretName: kinesin-tls}
layout: split
`)
	for _, command := range []string{
		"bin/kinesin aws setup --aws-prefix prod >/dev/null",
		"kubectl create namespace kinesin",
		"openssl rand -hex 32 > token && kubectl --namespace kinesin create secret generic kinesin-auth --from-file token",
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=kinesin -addext subjectAltName=DNS:kinesin.kinesin -keyout tls.key -out tls.crt 2>/dev/null",
		"kubectl --namespace kinesin create secret tls kinesin-tls --cert tls.crt --key tls.key",
		"helm upgrade --install kinesin deploy/chart/kinesin --namespace kinesin --values values.yaml --wait",
		"kubectl --namespace kinesin get pods --output wide",
	} {
		g.run(command)
	}
	at := func(group string) string {
		return "$(kubectl --namespace kinesin get pods --selector app.kubernetes.io/component=" + group + " --output jsonpath='{.items[0].status.podIP}')"
	}
	call := func(group, path string) string {
		return "curl -sS --fail-with-body --cacert tls.crt --resolve kinesin.kinesin:7070:" + at(group) +
			` -H "Authorization: Bearer $(cat token)" -H 'Content-Type: application/json' -d '{}' https://kinesin.kinesin:7070` + path
	}
	g.run(call("inbound", "/kinesin.v1.LambdaService/ListLambdas"))
	refused := g.run(call("hsc", "/kinesin.v1.WorkerService/Heartbeat") + " || test $? = 22")
	if !strings.Contains(refused, `no field \"worker\"`) {
		t.Errorf("the pods for workers do not look at a heartbeat:\n%s", refused)
	}
	out := g.run(strings.Replace(call("scheduler", "/metrics"), "-d '{}' ", "", 1) + " | grep -E '^kinesin_(fleet_members|watch_contact_age_seconds) '")
	if !strings.Contains(out, "kinesin_fleet_members 1") || !strings.Contains(out, "kinesin_watch_contact_age_seconds") {
		t.Errorf("the scheduler's membership is not that of its pods:\n%s", out)
	}
}
