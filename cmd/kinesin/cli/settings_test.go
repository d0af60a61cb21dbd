package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/settings"
)

// settled reads a command line as Run does and returns what came of a flag.
func settled(t *testing.T, env []string, flag string, args ...string) (string, error) {
	t.Helper()
	a := &app{Process: Process{Env: env, Stdin: strings.NewReader(""), Stdout: t.Output(), Stderr: t.Output()}}
	root := a.root()
	var value string
	stop := func(cmd *cobra.Command, _ []string) error {
		value = cmd.Flag(flag).Value.String()
		return nil
	}
	for _, c := range root.Commands() {
		c.RunE = stop
	}
	root.SetArgs(args)
	err := root.Execute()
	return value, err
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kinesin.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	t.Parallel()
	config := writeFile(t, "data: /file\nlisten: 127.0.0.1:1\nroles: [hsc, inbound]\n")
	env := []string{"KINESIN_CONFIG=" + config, "KINESIN_LISTEN=127.0.0.1:2", "KINESIN_LOG_LEVEL=debug", "KINESIN_LOG_FORMAT="}
	for _, c := range []struct {
		flag, want string
		args       []string
	}{
		{"data", "/file", nil},
		{"data", "/flag", []string{"--data", "/flag"}},
		{"listen", "127.0.0.1:2", nil},
		{"listen", "127.0.0.1:3", []string{"--listen", "127.0.0.1:3"}},
		{"roles", "[hsc,inbound]", nil},
		{"log-level", "debug", nil},
		{"log-format", "text", nil}, // an empty variable is as good as none
	} {
		if got, err := settled(t, env, c.flag, append([]string{"serve"}, c.args...)...); err != nil || got != c.want {
			t.Errorf("%s with %v: %q, %v, want %q", c.flag, c.args, got, err, c.want)
		}
	}
	if got, err := settled(t, []string{"KINESIN_CONFIG=/none"}, "data", "serve", "--config", config); err != nil || got != "/file" {
		t.Errorf("--config beside KINESIN_CONFIG: %q, %v", got, err)
	}
}

func TestFactsAboutATaskAreNoSettings(t *testing.T) {
	t.Parallel()
	env := []string{"KINESIN_KEY=k", "KINESIN_PRIORITY=high", "KINESIN_COLLECTION=c", "KINESIN_IN=5s", "KINESIN_LAMBDA=x"}
	for _, flag := range []string{"key", "priority", "collection", "in"} {
		if got, err := settled(t, env, flag, "schedule", "greet"); err != nil || got != "" {
			t.Errorf("--%s: %q, %v", flag, got, err)
		}
	}
	if got, err := settled(t, env, "lambda", "cancel", "k1"); err != nil || got != "" {
		t.Errorf("--lambda of cancel: %q, %v", got, err)
	}
}

func TestBadSettingsSayWhereTheyAre(t *testing.T) {
	t.Parallel()
	unknown := writeFile(t, "dta: /x\n")
	nested := writeFile(t, "serve:\n  data: /x\n")
	wrong := writeFile(t, "log-level: loud\n")
	broken := writeFile(t, "data: [\n")
	for _, c := range []struct {
		env  []string
		args []string
		want []string
	}{
		{nil, []string{"--config", unknown}, []string{unknown, `"dta"`, "listen", "log-level"}},
		{nil, []string{"--config", nested}, []string{nested, `"serve"`}},
		{nil, []string{"--config", wrong}, []string{wrong, "log-level", "debug, info, warn or error"}},
		{nil, []string{"--config", broken}, []string{broken, "line"}},
		{nil, []string{"--config", "/no/such/file"}, []string{"/no/such/file"}},
		{[]string{"KINESIN_LOG_LEVEL=loud"}, nil, []string{"KINESIN_LOG_LEVEL", "loud"}},
		{[]string{"KINESIN_CONSOLE=maybe"}, nil, []string{`KINESIN_CONSOLE: "maybe": want true or false`}},
	} {
		_, err := settled(t, c.env, "data", append([]string{"serve"}, c.args...)...)
		if err == nil {
			t.Errorf("%v %v: no error", c.env, c.args)
			continue
		}
		for _, want := range c.want {
			if text := usageText(err); !strings.Contains(text, want) {
				t.Errorf("%q does not say %q", text, want)
			}
		}
	}
}

// Every flag that is no setting is one that a call is about, on purpose.
func TestWhichFlagsAreSettings(t *testing.T) {
	t.Parallel()
	got := settings.Names((&app{}).root())
	for _, name := range []string{"server", "output", "data", "listen", "roles", "log-level", "log-format"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is no setting: %v", name, got)
		}
	}
}
