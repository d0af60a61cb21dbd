package rules

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../.."
	rules = root + "/deploy/prometheus/kinesin.yaml"
)

// ruleFile is a file of rules of Prometheus.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func alerts(t *testing.T) (f ruleFile) {
	t.Helper()
	if err := yaml.UnmarshalStrict(read(t, rules), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// series are the names of all series, and for a histogram those of its parts.
func series(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^- `(kinesin_[a-z0-9_]+)` \\((\\w+)\\b").FindAllStringSubmatch(string(read(t, root+"/docs/reference/metrics.md")), -1) {
		all[m[1]] = true
		if m[2] == "histogram" {
			all[m[1]+"_bucket"], all[m[1]+"_count"], all[m[1]+"_sum"] = true, true, true
		}
	}
	if len(all) < 60 {
		t.Fatalf("only %d series", len(all))
	}
	return all
}

var name = regexp.MustCompile(`\bkinesin_[a-z0-9_]+`)

func TestEachAlertHasARunbookAndKnownSeries(t *testing.T) {
	known, pages := series(t), map[string]bool{}
	for _, g := range alerts(t).Groups {
		for _, r := range g.Rules {
			pages[r.Alert+".md"] = true
			text := string(read(t, root+"/docs/runbooks/"+r.Alert+".md"))
			if !strings.HasPrefix(text, "# "+r.Alert+"\n") || !strings.Contains(text, "\n## Do\n") {
				t.Errorf("the runbook of %s has another form than the others", r.Alert)
			}
			if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/runbooks/"+r.Alert+".md") || r.Annotations["summary"] == "" || r.For == "" {
				t.Errorf("%s lacks its runbook_url, a summary or for", r.Alert)
			}
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s has severity %q", r.Alert, s)
			}
			found := name.FindAllString(r.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s names no series", r.Alert)
			}
			for _, n := range found {
				if !known[n] {
					t.Errorf("%s: there is no series %s", r.Alert, n)
				}
			}
		}
	}
	files, err := filepath.Glob(root + "/docs/runbooks/*.md")
	if err != nil || len(files) != len(pages) {
		t.Errorf("%d runbooks of %d alerts: %v", len(files), len(pages), err)
	}
}

func TestDashboardsHaveKnownSeries(t *testing.T) {
	known := series(t)
	files, err := filepath.Glob(root + "/deploy/grafana/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	for _, file := range files {
		text := read(t, file)
		var d struct {
			Title, UID string
			Panels     []json.RawMessage
		}
		if err := json.Unmarshal(text, &d); err != nil || d.Title == "" || d.UID == "" || len(d.Panels) < 4 {
			t.Errorf("%s: %q with %d panels: %v", file, d.Title, len(d.Panels), err)
		}
		for _, n := range name.FindAllString(string(text), -1) {
			if !known[n] {
				t.Errorf("%s: there is no series %s", file, n)
			}
		}
	}
}

// The chart has a copy, since a chart reads no files beside its own.
func TestTheChartHasTheSameRules(t *testing.T) {
	if string(read(t, rules)) != string(read(t, root+"/deploy/chart/kinesin/files/rules.yaml")) {
		t.Error("the chart has other rules: cp deploy/prometheus/kinesin.yaml deploy/chart/kinesin/files/rules.yaml")
	}
}

// TestRules runs promtool, of Debian's package prometheus or as KINESIN_PROMTOOL names it; make test/rules
// asks for it.
func TestRules(t *testing.T) {
	promtool := os.Getenv("KINESIN_PROMTOOL")
	if promtool == "" {
		var err error
		if promtool, err = exec.LookPath("promtool"); err != nil {
			t.Skip("there is no promtool on the PATH: install Debian's package prometheus, or set KINESIN_PROMTOOL")
		}
	}
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", root + "/deploy/prometheus/tests/kinesin.yaml"}} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Each alert is seen to fire in a case of promtool, and in the same case to be clear again later.
func TestEachAlertHasACase(t *testing.T) {
	var f struct {
		Tests []struct {
			AlertRuleTest []struct {
				EvalTime  string `json:"eval_time"`
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(read(t, root+"/deploy/prometheus/tests/kinesin.yaml"), &f); err != nil {
		t.Fatal(err)
	}
	clears := map[string]bool{}
	for _, c := range f.Tests {
		fired := map[string]model.Duration{}
		for _, e := range c.AlertRuleTest {
			at, err := model.ParseDuration(e.EvalTime)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.ExpAlerts) > 0 {
				fired[e.Alertname] = at
			} else if since, did := fired[e.Alertname]; did && at > since {
				clears[e.Alertname] = true
			}
		}
	}
	for _, g := range alerts(t).Groups {
		for _, r := range g.Rules {
			if !clears[r.Alert] {
				t.Errorf("no case has %s fire and then clear", r.Alert)
			}
		}
	}
}
