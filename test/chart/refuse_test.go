package chart

import (
	"strings"
	"testing"
)

// TestRefused has values that cannot be meant, and what is said of each: where it is, and what is allowed.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  []string
		want []string
	}{
		{"unknown key", []string{"replicas=3"}, []string{"at '': additional properties 'replicas' not allowed"}},
		{"unknown key below", []string{"scheduler.replica=3"}, []string{"at '/scheduler': additional properties 'replica' not allowed"}},
		{"layout", []string{"layout=all"}, []string{"at '/layout': value must be one of 'together', 'split'"}},
		{"membership", []string{"membership=static"}, []string{"at '/membership': value must be one of 'kubernetes', 'store'"}},
		{"replicas below 0", []string{"scheduler.replicas=-1"}, []string{"at '/scheduler/replicas': minimum: got -1, want 0"}},
		{"replicas as text", []string{"scheduler.replicas=two"}, []string{"at '/scheduler/replicas': got string, want null or integer"}},
		{"prefix", []string{"aws.prefix=my jobs"}, []string{"at '/aws/prefix': 'my jobs' does not match pattern", "{0,20}"}},
		{"endpoint without scheme", []string{"aws.endpoints.sqs=sqs:9324"}, []string{"at '/aws/endpoints/sqs': 'sqs:9324' does not match pattern", "https?"}},
		{"duration", []string{"drainSeconds=10s"}, []string{"at '/drainSeconds': got string, want integer"}},
		{"root", []string{"podSecurity.runAsUser=0"}, []string{"at '/podSecurity/runAsUser': minimum: got 0, want 1"}},
		{"security context", []string{"podSecurity.privileged=true"}, []string{"at '/podSecurity': additional properties 'privileged' not allowed"}},
		{"no surge", []string{"maxSurge=0"}, []string{"at '/maxSurge': minimum: got 0, want 1"}},
		{"two autoscalers", []string{"scheduler.autoscaling.kind=both"}, []string{"at '/scheduler/autoscaling/kind': value must be one of 'none', 'hpa', 'keda'"}},
		{"lag of what fires nothing", []string{"hsc.autoscaling.scheduleLagSeconds=3"}, []string{"at '/hsc/autoscaling': additional properties 'scheduleLagSeconds' not allowed"}},
		{"quantity", []string{"scheduler.resources.requests.cpu=lots"}, []string{"at '/scheduler/resources/requests/cpu': 'lots' does not match pattern"}},
		{"port", []string{"service.port=70000"}, []string{"at '/service/port': maximum: got 70,000, want 65,535"}},
		{"tag as a number", []string{"image.tag=2"}, []string{"at '/image/tag': got number, want string"}},
		{"digest", []string{"image.digest=abc"}, []string{"at '/image/digest': 'abc' does not match pattern", "sha256:"}},
		{"section taken away", []string{"networkPolicy=null"}, []string{"at '': missing property 'networkPolicy'"}},
		{"list taken away", []string{"extraEnv=null"}, []string{"at '': missing property 'extraEnv'"}},
		{"section below taken away", []string{"scheduler.autoscaling=null"}, []string{"at '/scheduler': missing property 'autoscaling'"}},
		{"section of another Deployment taken away", []string{"hsc.podDisruptionBudget=null"}, []string{"at '/hsc': missing property 'podDisruptionBudget'"}},
		{"value taken away", []string{"drainSeconds=null", "log.level=null"}, []string{"at '': missing property 'drainSeconds'", "at '/log': missing property 'level'"}},
		{"name with a dot", []string{"fullnameOverride=a.b", "nameOverride=a.b"}, []string{"at '/fullnameOverride': 'a.b' does not match pattern", "at '/nameOverride': 'a.b' does not match pattern"}},
		{"name too long", []string{"fullnameOverride=" + strings.Repeat("a", 47)}, []string{"at '/fullnameOverride': ", "{0,44}"}},
		{"Secret that cannot be", []string{"tls.secretName=a..b"}, []string{"at '/tls/secretName': 'a..b' does not match pattern"}},
		{"more than all", []string{"scheduler.podDisruptionBudget.maxUnavailable=101%"}, []string{"at '/scheduler/podDisruptionBudget/maxUnavailable'", "'101%' does not match pattern"}},
		{"value of a label", []string{"podLabels.team=the jobs"}, []string{"at '/podLabels/team': 'the jobs' does not match pattern"}},
		{"label of nodes", []string{"scheduler.nodeSelector.arch=-"}, []string{"at '/scheduler/nodeSelector/arch': '-' does not match pattern"}},
		{"where to spread over", []string{"topologySpread.keys={a b}"}, []string{"at '/topologySpread/keys/0': 'a b' does not match pattern"}},

		{
			"nothing set",
			[]string{"image.repository=", "aws.prefix=", "auth.secretName=", "tls.secretName="},
			[]string{
				"image.repository is missing: ", "aws.prefix is missing: ", "auth.secretName is missing: ", "kubectl create secret generic kinesin-auth --namespace jobs",
				"tls.secretName is missing: ", "kubectl create secret tls kinesin-tls --namespace jobs", "in plain text with tls.enabled=false",
			},
		},
		{"nobody may call", []string{"auth.policyKey="}, []string{"auth.policyKey and auth.secretKey are empty, so nobody could call"}},
		{"TLS on and off", []string{"tls.enabled=false"}, []string{"tls.secretName is set, and tls.enabled is false: leave one of them"}},
		{"Prometheus without a token", []string{"serviceMonitor.enabled=true"}, []string{"serviceMonitor.tokenSecretKey is missing: ", "needs the grant metrics"}},
		{"image with a scheme", []string{"image.repository=https://reg/x"}, []string{`image.repository is "https://reg/x": write it as registry.example:5000/team/kinesin`, "without https://"}},
		{"image with a tag", []string{"image.repository=reg:5000/x:tag"}, []string{`image.repository is "reg:5000/x:tag"`, "that is image.tag"}},
		{"image with a digest", []string{"image.repository=x@sha256:0"}, []string{`image.repository is "x@sha256:0"`, "image.digest"}},
		{"image in upper case", []string{"image.repository=Team/x"}, []string{`image.repository is "Team/x"`, "in lower case"}},
		{"image in upper case below a host", []string{"image.repository=ghcr.io/Team/x"}, []string{`image.repository is "ghcr.io/Team/x"`}},
		{"no ServiceAccount", []string{"serviceAccount.create=false"}, []string{"serviceAccount.create is false and serviceAccount.name is empty: name the ServiceAccount"}},
		{
			"least above most",
			[]string{"scheduler.autoscaling.kind=hpa", "scheduler.autoscaling.minReplicas=20"},
			[]string{"scheduler.autoscaling.minReplicas is 20, more than maxReplicas, 10"},
		},
		{
			"nothing to go by",
			[]string{"scheduler.autoscaling.kind=hpa", "scheduler.autoscaling.cpuUtilization=0", "scheduler.autoscaling.scheduleLagSeconds=0", "scheduler.autoscaling.due5mTasksPerPod=0"},
			[]string{"scheduler.autoscaling has nothing to scale by: set at least one of cpuUtilization, scheduleLagSeconds and due5mTasksPerPod"},
		},
		{
			"share of nothing",
			[]string{"scheduler.autoscaling.kind=hpa", "scheduler.resources.requests.cpu=null"},
			[]string{"scheduler.autoscaling.cpuUtilization needs scheduler.resources.requests.cpu"},
		},
		{"no Prometheus", []string{"scheduler.autoscaling.kind=keda"}, []string{"scheduler.autoscaling.keda.prometheusAddress is missing: the URL of the Prometheus"}},
		{"variable of the chart", []string{"extraEnv[0].name=KINESIN_ROLES", "extraEnv[0].value=hsc"}, []string{"extraEnv: KINESIN_ROLES is set by the chart"}},
		{
			"secret in plain text",
			[]string{"scheduler.extraEnv[0].name=AWS_SECRET_ACCESS_KEY", "scheduler.extraEnv[0].value=abc"},
			[]string{"extraEnv: AWS_SECRET_ACCESS_KEY would be in plain text in the Deployment: take it from a Secret"},
		},
		{
			"variable twice",
			[]string{"scheduler.extraEnv[0].name=A", "scheduler.extraEnv[1].name=A", "extraEnv[0].name=B", "extraEnv[1].name=B"},
			[]string{"\n- scheduler.extraEnv: A is there twice: leave one of them", "\n- extraEnv: B is there twice"},
		},
		{"label of the chart", []string{`podLabels.kinesin\.io/hsc=no`}, []string{"podLabels: kinesin.io/hsc is the chart's own"}},
		{
			"names of labels and annotations",
			[]string{"commonLabels.a/b/c=d", "service.annotations.a b=c", "scheduler.nodeSelector.a-=b", "serviceMonitor.labels." + strings.Repeat("a", 64) + "=b"},
			[]string{
				`commonLabels: "a/b/c" is no name of a label or annotation: at most 63 letters`, `service.annotations: "a b" is no name`,
				`scheduler.nodeSelector: "a-" is no name`, `serviceMonitor.labels: "aaa`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"template", "kinesin", Dir, "--namespace", namespace, Values("minimal")}
			for _, s := range c.set {
				args = append(args, "--set", s)
			}
			out, said, err := Helm(t, args...)
			if err == nil {
				t.Fatalf("accepted:\n%s", out)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("said, without %q:\n%s", want, said)
				}
			}
		})
	}
}

// TestReleaseWithDigit has a name that Services bear in new clusters only.
func TestReleaseWithDigit(t *testing.T) {
	t.Parallel()
	_, said, err := Helm(t, "template", "1a", Dir, Values("minimal"))
	if err == nil || !strings.Contains(said, `the names of Services would begin with "1a-kinesin"`) || !strings.Contains(said, "set fullnameOverride") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestRefusalsSayNothingTwice has one mistake in all Deployments.
func TestRefusalsSayNothingTwice(t *testing.T) {
	t.Parallel()
	_, said, err := Helm(t, "template", "kinesin", Dir, Values("split"), "--set", "extraEnv[0].name=POD_NAME,extraEnv[0].value=a")
	if n := strings.Count(said, "- extraEnv: POD_NAME"); err == nil || n != 1 {
		t.Errorf("said %d times: %v\n%s", n, err, said)
	}
}

// TestGlobals are what a chart that contains this one may pass on.
func TestGlobals(t *testing.T) {
	t.Parallel()
	Render(t, "kinesin", namespace, Values("minimal"), "--set=global.region=eu")
}
