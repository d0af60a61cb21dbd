package terraform_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// configurations are all folders below terraform/ that can be initialised.
func configurations(t *testing.T) (folders []string) {
	t.Helper()
	for _, pattern := range []string{"modules/*", "examples/*"} {
		found, err := filepath.Glob(filepath.Join(sources, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			folders = append(folders, filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)))
		}
	}
	if len(folders) < 4 {
		t.Fatalf("only %v", folders)
	}
	return folders
}

// TestFormat is `terraform fmt -check` of all there is.
func TestFormat(t *testing.T) {
	w := newWorkspace(t, "")
	if got := w.run("fmt", "-check", "-recursive", "-diff", "."); got.Code != 0 {
		t.Errorf("run `tofu fmt -recursive terraform` or `terraform fmt -recursive terraform`:\n%s%s", got.Stdout, got.Stderr)
	}
	w.write("untidy.tf", "locals {\n    a=1\n}\n")
	if got := w.run("fmt", "-check", "."); got.Code == 0 {
		t.Error("an untidy file was taken for a tidy one")
	}
}

// TestValidate is `terraform validate` of each module and example, and `terraform test` of the modules, with the schemas of the
// stand-in.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, folder := range configurations(t) {
		t.Run(folder, func(t *testing.T) {
			w := newWorkspace(t, folder)
			w.validated()
			w.tested()
			w.nothing()
		})
	}
}

// validated is without errors and without warnings.
func (w *workspace) validated() {
	w.t.Helper()
	if text := w.must("validate"); !strings.Contains(text, "The configuration is valid.") || strings.Contains(text, "Warning") {
		w.t.Errorf("validate: %s", text)
	}
}

// tested has run the tests of a module, of which each has some.
func (w *workspace) tested() {
	w.t.Helper()
	tests, err := filepath.Glob(filepath.Join(w.dir, "tests", "*.tftest.hcl"))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(tests) == 0 {
		if filepath.Base(filepath.Dir(w.dir)) == "modules" {
			w.t.Error("a module without tests")
		}
		return
	}
	if text := w.must("test"); !strings.Contains(text, " 0 failed") || strings.Contains(text, " 0 passed") {
		w.t.Errorf("test: %s", text)
	}
}

// TestReadmes has the tables of inputs and outputs in each module's README be those of the code: names, types, defaults, descriptions.
func TestReadmes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs the generator")
	}
	args := []string{"run", ".", "-check"}
	for _, folder := range configurations(t) {
		if strings.HasPrefix(folder, "modules/") {
			args = append(args, "../../"+folder)
		}
	}
	check := exec.CommandContext(t.Context(), "go", args...)
	check.Dir = filepath.Join(sources, "internal/readme")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTheRealProvider validates and tests with the provider of the registry, where that can be reached: with the schemas and checks
// that it really has. Where it cannot be, that is said, and all else here has been with the stand-in.
func TestTheRealProvider(t *testing.T) {
	if testing.Short() {
		t.Skip("runs terraform")
	}
	for _, folder := range configurations(t) {
		w := &workspace{t: t, root: t.TempDir(), account: t.TempDir()}
		w.dir = filepath.Join(w.root, folder)
		if err := os.CopyFS(w.root, os.DirFS(sources)); err != nil {
			t.Fatal(err)
		}
		w.env = w.realEnvironment()
		if got := w.run("init"); got.Code != 0 {
			t.Logf("LEFT OUT: validate and test with the real AWS provider, since init cannot get it: %s", said(got))
			return
		}
		w.validated()
		w.tested()
	}
}

// realEnvironment is the user's own, which may have a mirror of the registry, and no account.
func (w *workspace) realEnvironment() []string {
	tools := os.Getenv("KINESIN_TOOLS_DIR")
	if tools == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			w.t.Fatal(err)
		}
		tools = filepath.Join(home, ".cache/kinesin/tools")
	}
	cache := filepath.Join(tools, "terraform-plugins")
	if err := os.MkdirAll(cache, 0o750); err != nil {
		w.t.Fatal(err)
	}
	return append(os.Environ(),
		"TF_PLUGIN_CACHE_DIR="+cache, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1",
		"TF_REGISTRY_CLIENT_TIMEOUT=10", "TF_REGISTRY_DISCOVERY_RETRY=0",
		"AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", "AWS_REGION=eu-west-1", "AWS_EC2_METADATA_DISABLED=true",
	)
}
