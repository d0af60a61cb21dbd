package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

const (
	// faster is by how much the rules of the live test have shorter windows and `for` than those in deploy,
	// and by how much Prometheus scrapes more often than by default. Thresholds stay as they are.
	faster      = 60
	scrapeEvery = 15 * time.Second / faster
	// slowScrape is for a server whose store is away: its scrape waits for reads, for 3 s at most.
	slowScrape = 4 * time.Second
	// alertMax is how long an alert may take to fire or to clear. The longest is that of an outage: 30 s
	// until it counts as one.
	alertMax = 90 * time.Second
)

// shortened is the file of rules with all its durations divided by faster.
func shortened(t *testing.T) string {
	t.Helper()
	f := alerts(t)
	short := func(d string) string {
		long, err := model.ParseDuration(d)
		if err != nil {
			t.Fatal(err)
		}
		return model.Duration(time.Duration(long) / faster).String()
	}
	type object = map[string]any
	groups := []object{}
	for _, g := range f.Groups {
		all := []object{}
		for _, r := range g.Rules {
			expr := regexp.MustCompile(`\[(\w+)\]`).ReplaceAllStringFunc(r.Expr, func(w string) string { return "[" + short(strings.Trim(w, "[]")) + "]" })
			all = append(all, object{"alert": r.Alert, "expr": expr, "for": short(r.For), "labels": r.Labels, "annotations": r.Annotations})
		}
		groups = append(groups, object{"name": g.Name, "rules": all})
	}
	return written(t, "rules.yaml", object{"groups": groups})
}

func written(t *testing.T, name string, content any) string {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// prometheus scrapes servers with the shortened rules.
type prometheus struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, every time.Duration, servers ...*harness.Server) prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("NOT RUN: there is no prometheus on the PATH: tools/rules/install installs Debian's package")
	}
	type object = map[string]any
	targets := []string{}
	for _, s := range servers {
		targets = append(targets, s.Addr)
	}
	config := written(t, "prometheus.yaml", object{
		"global":         object{"scrape_interval": every.String(), "scrape_timeout": every.String(), "evaluation_interval": scrapeEvery.String()},
		"rule_files":     []string{shortened(t)},
		"scrape_configs": []object{{"job_name": "kinesin", "static_configs": []object{{"targets": targets}}}},
	})
	addr := harness.FreeAddr(t)
	harness.Start(t, harness.Command{Path: program, Args: []string{
		"--config.file", config, "--storage.tsdb.path", t.TempDir(), "--web.listen-address", addr, "--log.level", "warn",
	}})
	p := prometheus{t, "http://" + addr}
	runtest.Eventually(t, alertMax, "Prometheus scrapes all servers", func() bool {
		return strings.Contains(p.get("/api/v1/query?query="+url.QueryEscape("sum(up)")), fmt.Sprintf(`"%d"`, len(servers)))
	})
	return p
}

func (p prometheus) get(path string) string {
	p.t.Helper()
	status, body, err := fetch(p.url + path)
	if err != nil || status != http.StatusOK {
		return ""
	}
	return body
}

// firing are the alerts that fire, each with its lambda, or else what it has in its place.
func (p prometheus) firing() []string {
	p.t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	if err := json.Unmarshal([]byte(p.get("/api/v1/alerts")), &answer); err != nil {
		return []string{"unknown: " + err.Error()}
	}
	found := map[string]bool{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			found[strings.TrimSpace(a.Labels["alertname"]+" "+a.Labels["lambda"]+a.Labels["service"])] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (p prometheus) awaitFiring(alert string) {
	p.t.Helper()
	began := time.Now()
	runtest.Eventually(p.t, alertMax, alert+" fires", func() bool { return slices.Contains(p.firing(), alert) })
	p.t.Logf("%s fired within %v", alert, time.Since(began).Round(time.Millisecond))
}

func (p prometheus) awaitClear(alert string) {
	p.t.Helper()
	began := time.Now()
	runtest.Eventually(p.t, alertMax, alert+" clears", func() bool { return !slices.Contains(p.firing(), alert) })
	p.t.Logf("%s cleared within %v", alert, time.Since(began).Round(time.Millisecond))
}

func fetch(at string) (status int, body string, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(at)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	var text strings.Builder
	err = response.Write(&text)
	_, body, _ = strings.Cut(text.String(), "\r\n\r\n")
	return response.StatusCode, body, err
}

// away is a proxy before a service that can be taken away.
type away struct {
	at    string
	isOff atomic.Bool
}

func before(t *testing.T, service string) *away {
	t.Helper()
	to, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	a := &away{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	addr := harness.FreeAddr(t)
	server := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.isOff.Load() {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { _ = server.Close() })
	a.at = "http://" + addr
	return a
}

// A real Prometheus scrapes real servers. Each fault is made in truth; its alert fires, and it clears once
// the fault is mended. make test/rules runs it.
func TestAlertsFireAndClearOverRealServers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real processes")
	}
	s := harness.StartServer(t, harness.ServerOptions{})
	p := startPrometheus(t, scrapeEvery, s)
	s.Run("lambda", "create", "mail").Must(t)
	s.Run("lambda", "create", "work", "--max-attempts", "1").Must(t)
	time.Sleep(10 * scrapeEvery)
	if got := p.firing(); len(got) != 0 {
		t.Fatalf("without a fault: %q", got)
	}
	knownLabels(t, s)

	s.Run("schedule", "mail", "--payload", "x").Must(t)
	p.awaitFiring("KinesinWorkersGone mail")
	only(t, p, "KinesinWorkersGone mail")
	s.CommandWorker("--lambda", "mail", "--", "true")
	p.awaitClear("KinesinWorkersGone mail")

	s.CommandWorker("--lambda", "work", "--", "false")
	s.Run("schedule", "work", "--payload", "x").Must(t) // its first dead letter, and its only attempt
	p.awaitFiring("KinesinDeadLetters work")
	p.awaitClear("KinesinDeadLetters work")

	for lost := range 4 {
		w := s.CommandWorker("--lambda", "mail", "--", "true")
		awaitSeries(t, s, "kinesin_workers 3")
		w.Kill()
		awaitSeries(t, s, fmt.Sprintf("kinesin_workers_lost_total %d", lost+1))
	}
	p.awaitFiring("KinesinWorkersLost")
	p.awaitClear("KinesinWorkersLost")
}

// The store goes away under a server, and comes back.
func TestAlertsOfAStoreThatIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real processes")
	}
	shared := awslocal.Start(t)
	store := before(t, shared.DynamoDB)
	at := harness.New(t, harness.Options{AWS: &awslocal.Endpoints{DynamoDB: store.at, SQS: shared.SQS}})
	at.AWS.Setup(t).Must(t)
	s := at.Serve()
	p := startPrometheus(t, slowScrape, s)
	s.Run("lambda", "create", "mail").Must(t)
	s.Run("schedule", "mail", "--in", "5s").Must(t)
	time.Sleep(10 * scrapeEvery)
	if got := p.firing(); len(got) != 0 {
		t.Fatalf("without a fault: %q", got)
	}
	store.isOff.Store(true)
	t.Cleanup(func() {
		if t.Failed() && s.Alive() {
			_, body := s.Fetch("/metrics")
			t.Logf("the server says: %q", regexp.MustCompile(`(?m)^kinesin_(outage|schedule_lag|store_errors).*$`).FindAllString(body, -1))
		}
	})
	p.awaitFiring("KinesinScheduleLag")
	p.awaitFiring("KinesinOutage store")
	if got := p.firing(); slices.Contains(got, "KinesinOutage queue") {
		t.Errorf("the queue answers, but: %q", got)
	}
	store.isOff.Store(false)
	p.awaitClear("KinesinOutage store")
	p.awaitClear("KinesinScheduleLag")
}

func awaitSeries(t *testing.T, s *harness.Server, line string) {
	t.Helper()
	runtest.Eventually(t, alertMax, line, func() bool {
		_, body := s.Fetch("/metrics")
		return strings.Contains(body, "\n"+line+"\n")
	})
}

func only(t *testing.T, p prometheus, want string) {
	t.Helper()
	if got := p.firing(); !slices.Equal(got, []string{want}) {
		t.Errorf("firing: %q, want %s alone", got, want)
	}
}

// literal is a label of a selector whose value is written out.
var literal = regexp.MustCompile(`(kinesin_[a-z0-9_]+)\{(\w+)="([^"]+)"`)

// knownLabels fails for a rule that selects a value that no server's series has: it could never fire.
func knownLabels(t *testing.T, s *harness.Server) {
	t.Helper()
	s.Run("objective", "set", "mail", "--within", "5s", "--objective", "99").Must(t)
	s.Fetch("/metrics") // the first scrape after it makes its series
	_, body := s.Fetch("/metrics")
	for _, g := range alerts(t).Groups {
		for _, r := range g.Rules {
			for _, m := range literal.FindAllStringSubmatch(r.Expr, -1) {
				if !regexp.MustCompile(m[1] + `\{[^}]*` + m[2] + `="` + regexp.QuoteMeta(m[3]) + `"`).MatchString(body) {
					t.Errorf("%s: no series is %s{%s=%q}", r.Alert, m[1], m[2], m[3])
				}
			}
		}
	}
}
