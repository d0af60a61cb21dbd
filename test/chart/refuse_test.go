package chart

import (
	"slices"
	"strings"
	"testing"
)

// TestRefused has values that cannot be meant, of a fleet and of one server, and what is said of each: where it is,
// and what is allowed.
func TestRefused(t *testing.T) {
	t.Parallel()
	type refused struct {
		name string
		set  []string
		want []string
	}
	fleet := []refused{
		{"store", []string{"store=pebble"}, []string{"at '/store': value must be one of 'embedded', 'dynamodb'"}},
		{"argument that is no flag", []string{"extraArgs={serve}"}, []string{"at '/extraArgs/0': 'serve' does not match pattern"}},
		{"host with a scheme", []string{"ingress.hosts={https://a.b}"}, []string{"at '/ingress/hosts/0': 'https://a.b' does not match pattern"}},
		{"share above all", []string{"otlp.traceSample=2"}, []string{"at '/otlp/traceSample': maximum: got 2, want 1"}},
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
			[]string{"image.repository=", "aws.prefix="},
			[]string{`image.repository is "": write it as`, "aws.prefix is missing: "},
		},
		{
			"volume of a fleet",
			[]string{"backup.to=s3://a/b", "standby.enabled=true", "persistence.existingClaim=a"},
			[]string{"backup.to is set, and store is dynamodb, which has no volume", "standby.enabled is set, ", "persistence.existingClaim is set, ", "or set store=embedded"},
		},
		{"key of no Secret", []string{"auth.secretName=", "auth.secretKey=token"}, []string{"auth.secretKey or auth.policyKey is set, and auth.secretName is not: name the Secret"}},
		{"half a client", []string{"console.oidc.clientID=a"}, []string{"console.oidc.issuer and console.oidc.clientID belong together"}},
		{"a secret of no client", []string{"console.oidc.secretName=a"}, []string{"console.oidc.issuer is missing: at whose page"}},
		{
			"issuer of no policy",
			[]string{"auth.secretName=", "console.oidc.issuer=https://a", "console.oidc.clientID=b"},
			[]string{"console.oidc.issuer has to be an issuer of a policy of yours", "auth.secretName"},
		},
		{"metrics for nobody", []string{"otlp.metrics=true"}, []string{"otlp.endpoint is missing: which collector", "http://collector.monitoring:4318"}},
		{"route of no gateway", []string{"httpRoute.enabled=true"}, []string{"httpRoute.parentRefs is empty: name the gateways"}},
		{"argument of the chart", []string{"extraArgs={--listen=:80}"}, []string{"extraArgs: --listen=:80 is set by the chart, as KINESIN_LISTEN"}},
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
	}
	server := []refused{
		{
			"fleet of one server",
			[]string{"aws.prefix=prod", "layout=split", "scheduler.replicas=2", "scheduler.autoscaling.kind=hpa"},
			[]string{
				"aws.prefix is set, and store is embedded, which is one server: leave it out, or set store=dynamodb for a fleet", "layout=split is set, ",
				"scheduler.replicas is set, ", "scheduler.autoscaling.kind is set, ",
			},
		},
		{"size", []string{"persistence.size=much"}, []string{"at '/persistence/size': 'much' does not match pattern"}},
		{"volume of many", []string{"persistence.accessModes={ReadWriteMany}"}, []string{"at '/persistence/accessModes/0': value must be one of 'ReadWriteOnce', 'ReadWriteOncePod'"}},
		{"place", []string{"backup.to=backup"}, []string{"at '/backup/to': 'backup' does not match pattern", "s3:"}},
		{"duration of no unit", []string{"backup.to=s3://a/b", "backup.every=10x"}, []string{"at '/backup/every': '10x' does not match pattern"}},
		{"place that is not mounted", []string{"backup.to=/var/lib/kinesin/backup"}, []string{"backup.to is /var/lib/kinesin/backup, below no mountPath of extraVolumeMounts", "s3://BUCKET/PREFIX"}},
		{
			"nowhere",
			[]string{"backup.every=10s", "backup.keep=1h", "standby.enabled=true"},
			[]string{"backup.every is set, and backup.to is not: name the place", "backup.keep is set, ", "standby.enabled is set, "},
		},
		{"nobody to promote", []string{"backup.to=s3://a/b", "standby.promote=true"}, []string{"standby.promote is set, and standby.enabled is false"}},
		{
			"one volume of two",
			[]string{"backup.to=s3://a/b", "standby.enabled=true", "persistence.existingClaim=kinesin-standby"},
			[]string{"server and standby would have the same claim kinesin-standby: name another in standby.existingClaim"},
		},
	}
	for i, c := range slices.Concat(fleet, server) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"template", "kinesin", Dir, "--namespace", namespace, Values("minimal")}
			if i >= len(fleet) {
				args = args[:len(args)-1]
			}
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
