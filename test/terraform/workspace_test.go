package terraform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	// envProgram names the terraform or tofu to use.
	envProgram = "KINESIN_TERRAFORM"
	// commandMax is how long one command of it may take, on a busy machine.
	commandMax = 3 * time.Minute
	// providerVersion is what the test-only provider calls itself: the version with whose schema it is
	// compared.
	providerVersion = "6.25.0"

	sources  = "../../terraform"
	examples = "examples"
)

func TestMain(m *testing.M) {
	code := harness.Main(m)
	if dir, err := mirror(); mirrored && err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// program is the terraform or tofu to use.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(envProgram); path != "" {
		return path, nil
	}
	for _, name := range []string{"terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	dir, err := loopback.Installed("tofu")
	return filepath.Join(dir, "tofu"), err
})

// mirrored tells that mirror was called.
var mirrored bool

// mirror is a folder in which terraform and tofu find the test-only provider, instead of in a registry.
var mirror = sync.OnceValues(func() (string, error) {
	mirrored = true
	dir, err := os.MkdirTemp("", "kinesin-providers-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "terraform-provider-aws_v"+providerVersion)
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join(sources, "internal/provider")
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("go build: %w\n%s", err, out)
	}
	for _, registry := range registries {
		target := filepath.Join(dir, "mirror", registry, "hashicorp/aws", providerVersion, runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(target, 0o750); err != nil {
			return dir, err
		}
		if err := os.Link(binary, filepath.Join(target, filepath.Base(binary))); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

// registries are those that terraform and tofu have by themselves.
var registries = []string{"registry.terraform.io", "registry.opentofu.org"}

// workspace is a copy of terraform/ with the state of one configuration in it.
type workspace struct {
	t       *testing.T
	aws     awslocal.Endpoints
	prefix  string
	root    string // the copy of terraform/
	dir     string // of the configuration
	account string // what stands for the AWS account
	env     []string
}

// newWorkspace makes an example, or another folder below terraform/, ready to be planned and applied.
func newWorkspace(t *testing.T, folder string) *workspace {
	t.Helper()
	t.Parallel()
	w := &workspace{t: t, aws: awslocal.Start(t), root: t.TempDir(), account: t.TempDir()}
	w.prefix = w.aws.Prefix(t)
	w.dir = filepath.Join(w.root, folder)
	if err := os.CopyFS(w.root, os.DirFS(sources)); err != nil {
		t.Fatal(err)
	}
	w.env = w.environment()
	w.must("init")
	return w
}

// environment is all that a command sees: nothing of the user's.
func (w *workspace) environment() []string {
	w.t.Helper()
	providers, err := mirror()
	if err != nil {
		w.t.Fatal(err)
	}
	settings := filepath.Join(w.t.TempDir(), "settings.tfrc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", filepath.Join(providers, "mirror"))
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return append(w.aws.Env(),
		"PATH="+os.Getenv("PATH"), "HOME="+w.t.TempDir(), "TMPDIR="+w.t.TempDir(),
		"TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1",
		"TF_VAR_prefix="+w.prefix, "KINESIN_TEST_ACCOUNT="+w.account,
	)
}

// run runs a command of terraform in the workspace.
func (w *workspace) run(args ...string) harness.Result {
	w.t.Helper()
	path, err := program()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), commandMax)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, slices.Insert(slices.Clone(args), 1, "-no-color")...)
	if args[0] == "version" || args[0] == "providers" || args[0] == "state" { // they have none
		cmd.Args = append([]string{path}, args...)
	}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, w.env, &out, &said
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%s %v: %v", path, args, err)
	}
	return harness.Result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: said.String()}
}

func (w *workspace) must(args ...string) string {
	w.t.Helper()
	return w.run(args...).Must(w.t)
}

// apply makes it so and returns what it said.
func (w *workspace) apply(args ...string) string {
	w.t.Helper()
	return w.must(append([]string{"apply", "-auto-approve"}, args...)...)
}

// unchanged fails the test when a plan would change anything.
func (w *workspace) unchanged(args ...string) {
	w.t.Helper()
	const changes = 2
	switch got := w.run(append([]string{"plan", "-detailed-exitcode"}, args...)...); got.Code {
	case 0:
	case changes:
		w.t.Errorf("a second apply would change something:\n%s", got.Stdout)
	default:
		got.Must(w.t)
	}
}

// output reads an output.
func (w *workspace) output(name string, into any) {
	w.t.Helper()
	text := w.must("output", "-json", name)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		w.t.Fatalf("output %s: %v: %s", name, err, text)
	}
}

// write adds a file to the configuration.
func (w *workspace) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// recorded is what is in the account of a resource type, by its name (or id, for what has none).
func (w *workspace) recorded(kind string) map[string]record {
	w.t.Helper()
	all := map[string]record{}
	entries, err := os.ReadDir(filepath.Join(w.account, kind))
	if errors.Is(err, fs.ErrNotExist) {
		return all
	} else if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(w.account, kind, e.Name()))
		if err != nil {
			w.t.Fatal(err)
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			w.t.Fatalf("%s: %v", e.Name(), err)
		}
		name := r.text("name") + r.text("alarm_name")
		if name == "" {
			name = r.text("id")
		}
		all[name] = r
	}
	return all
}

// record is what is in the account of one resource.
type record map[string]any

func (r record) text(name string) string { text, _ := r[name].(string); return text }

func (r record) number(name string) int { n, _ := r[name].(float64); return int(n) }

// blocks are the nested blocks of a name.
func (r record) blocks(name string) []record {
	list, _ := r[name].([]any)
	var all []record
	for _, item := range list {
		if block, ok := item.(map[string]any); ok {
			all = append(all, block)
		}
	}
	return all
}

// said makes one line of what a command said: error messages are wrapped and framed.
func said(r harness.Result) string {
	return strings.Join(strings.FieldsFunc(r.Stdout+r.Stderr, func(c rune) bool { return strings.ContainsRune(" \n\t│╷╵", c) }), " ")
}
