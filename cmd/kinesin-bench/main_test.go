package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// outcome is what a command line came to.
type outcome struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, env []string, line string) outcome {
	t.Helper()
	var out, notes bytes.Buffer
	a := &app{env: env, stdout: &out, stderr: &notes}
	code := a.run(t.Context(), strings.Fields(line))
	return outcome{code, out.String(), notes.String()}
}

func TestBadUsage(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"":                            "a command is missing",
		"fly":                         `unknown command "fly"`,
		"wall extra":                  "extra",
		"wall -n 0":                   "tasks: have 0",
		"wall -o yaml":                "want text or json",
		"wall --payload-bytes 1":      "payload bytes",
		"wall --ahead -1s":            "time ahead",
		"wall --token-file nowhere":   "nowhere: no such file",
		"wall --config nowhere":       "nowhere: no such file",
		"steady --rate NaN":           "tasks: have",
		"steady --workers abc":        `"abc"`,
		"immediate --idle-max -1s":    "idle time",
		"sets --others-rate -1":       "tasks per second of the other lambda",
		"chains --steps 0":            "steps: have 0",
		"chains --members 0":          "members: have 0",
		"groups --groups 0":           "groups: have 0",
		"groups -n 5":                 "members: have 0",
		"lambdas --lambdas 0":         "lambdas: have 0, want 1 to 10000",
		"keys --keys 0":               "keys: have 0",
		"keys --concurrency 0":        "concurrency: have 0",
		"quota --concurrency -1":      "concurrency: have -1",
		"quota --rate -1":             "starts per second: have -1",
		"keys --rate -1":              "tasks per second: have -1",
		"procs --processes 0":         "processes: have 0, want 1 to 1000",
		"steady --tasks -1":           "tasks: have -1",
		"isolation -n 0":              "--tasks 0: want 1 to",
		"isolation --cases nap":       "--cases nap: want any of solo, due-at-once",
		"brakes -n 0":                 "tasks: have 0",
		"brakes --cases pause,nap":    "--cases nap: want any of high-behind-low, strict",
		"brakes --server a,b":         "the case no-workers counts the messages of one",
		"brakes --pace 0":             "pace: have 0",
		"brakes --duration 1s":        "duration: have 1s, want 4s",
		"neighbour --due yesterday":   "yesterday",
		"insert --server ftp://there": "ftp",
	} {
		if o := run(t, nil, line); o.code != exitUsage || !strings.Contains(o.stderr, says) || o.stdout != "" {
			t.Errorf("%s: %+v, want %q", line, o, says)
		}
	}
}

// The settings of a connection come from the environment and from the file of kinesin, whose other keys are no error.
func TestServerOfTheSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kinesin.yaml")
	if err := os.WriteFile(file, []byte("server: ftp://of-the-file\nlog-level: debug\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, env := range map[string][]string{
		"of-the-file":        {"KINESIN_CONFIG=" + file},
		"of-the-environment": {"KINESIN_CONFIG=" + file, "KINESIN_SERVER=ftp://of-the-environment"},
	} {
		if o := run(t, env, "wall"); o.code != exitUsage || !strings.Contains(o.stderr, says) {
			t.Errorf("%+v, want %q", o, says)
		}
	}
}

// The test's own program has no kinesin beside it.
func TestWithoutKinesin(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if o := run(t, nil, "wall -n 1"); o.code != exitFailed || !strings.Contains(o.stderr, "make build") || !strings.Contains(o.stderr, "--server") {
		t.Errorf("%+v", o)
	}
}

// docs/reference/performance.md has every command and every flag.
func TestEveryNameIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## kinesin-bench\n")
	if !found {
		t.Fatal("docs/reference/performance.md has no section about kinesin-bench")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	a := &app{}
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.conn.AddTo(connection) // documented with those of kinesin
	for _, c := range a.root().Commands() {
		if c.Hidden {
			continue
		}
		if !strings.Contains(section, "- `"+c.Name()+" ") {
			t.Errorf("%s is not documented", c.Name())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if connection.Lookup(f.Name) == nil && !strings.Contains(section, "--"+f.Name) && (f.Shorthand == "" || !strings.Contains(section, "-"+f.Shorthand+" ")) {
				t.Errorf("--%s of %s is not documented", f.Name, c.Name())
			}
		})
	}
}
