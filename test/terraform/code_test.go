package terraform_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
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

// TestValidate is `terraform validate` of each module and example, and `terraform test` of the modules, with
// the schemas of the stand-in.
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

// TestLayout has each module and example be laid out as registries of modules want it.
func TestLayout(t *testing.T) {
	t.Parallel()
	for _, folder := range configurations(t) {
		for _, name := range []string{"README.md", "main.tf", "variables.tf", "outputs.tf", "versions.tf"} {
			if _, err := os.Stat(filepath.Join(sources, folder, name)); err != nil {
				t.Error(err)
			}
		}
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
	// A test says itself what is set.
	w.env = slices.DeleteFunc(w.env, func(setting string) bool { return strings.HasPrefix(setting, "TF_VAR_") })
	if text := w.must("test"); !strings.Contains(text, " 0 failed") || strings.Contains(text, " 0 passed") {
		w.t.Errorf("test: %s", text)
	}
}

// TestTheRealProvider validates and tests with the provider of the registry, where that can be got: with the
// schemas and checks that it really has, in the version of the published schema (newer ones warn of hash_key
// in an index, and validate is to be without warnings), or in what else a mirror has. Where it cannot be got,
// that is said, and all else here has been with the stand-in.
func TestTheRealProvider(t *testing.T) {
	if testing.Short() {
		t.Skip("runs terraform")
	}
	for _, folder := range configurations(t) {
		w := freshWorkspace(t, folder)
		w.env = w.realEnvironment()
		missing, other := w.initialised()
		switch {
		case missing != "":
			t.Logf("LEFT OUT: validate and test with the real AWS provider, since init cannot get it: %s", missing)
			return
		case other:
			w.validatedButForKeys()
		default:
			w.validated()
		}
		w.tested()
	}
}

// freshWorkspace is a copy of terraform/ that was never initialised, without an environment.
func freshWorkspace(t *testing.T, folder string) *workspace {
	t.Helper()
	w := &workspace{t: t, root: t.TempDir(), account: t.TempDir()}
	w.dir = filepath.Join(w.root, folder)
	if err := os.CopyFS(w.root, os.DirFS(sources)); err != nil {
		t.Fatal(err)
	}
	return w
}

// initialised initialises with the provider of providerVersion or, where there are only others, with one of
// those that the modules take. The error of init says what is missing when there is none to be had; any other
// failure ends the test.
func (w *workspace) initialised() (missing string, other bool) {
	w.t.Helper()
	w.pin(providerVersion)
	got := w.run("init")
	if other = got.Code != 0 && noSuchVersion.MatchString(said(got)); other {
		if err := os.Remove(filepath.Join(w.dir, pinFile)); err != nil {
			w.t.Fatal(err)
		}
		got = w.run("init")
	}
	text := said(got)
	if got.Code == 0 {
		return "", other
	}
	if !unreachable.MatchString(text) && (!other || !noSuchVersion.MatchString(text)) {
		w.t.Fatalf("init of %s fails, and not for want of a registry: %s", w.dir, text)
	}
	return text, other
}

// unreachable is what terraform and tofu say when they cannot ask a registry, or fetch from it, or have a
// mirror without the provider.
var unreachable = regexp.MustCompile(`could not connect to|failed to request discovery document|could not query provider registry|` +
	`dial tcp|no such host|connection refused|i/o timeout|Client\.Timeout|deadline exceeded|TLS handshake|proxyconnect|x509:|` +
	`was not found in any of the search locations`)

// noSuchVersion is what they say when there is the provider, and not in the version that is wanted.
var noSuchVersion = regexp.MustCompile(`no available releases match`)

// pinFile is what pin writes.
const pinFile = "pin_override.tf"

// pin has the configuration want one version of the provider, instead of a range.
func (w *workspace) pin(version string) {
	w.t.Helper()
	w.write(pinFile, fmt.Sprintf(
		"terraform {\n  required_providers {\n    aws = {\n      source  = \"hashicorp/aws\"\n      version = %q\n    }\n  }\n}\n", version))
}

// validatedButForKeys is without errors, and without warnings but those of newer providers: that keys of an
// index are deprecated.
func (w *workspace) validatedButForKeys() {
	w.t.Helper()
	text := w.must("validate", "-json")
	if others, err := otherWarnings(text); err != nil || len(others) > 0 {
		w.t.Errorf("validate: %v, %q: %s", err, others, text)
	}
}

// otherWarnings are what `validate -json` complains of, but for keys of an index.
func otherWarnings(text string) (others []string, err error) {
	var answer struct {
		Valid       bool
		Diagnostics []struct {
			Severity, Summary, Detail string
			Snippet                   struct{ Code string }
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	for _, d := range answer.Diagnostics {
		code := strings.TrimSpace(d.Snippet.Code)
		if key := strings.HasPrefix(code, "hash_key ") || strings.HasPrefix(code, "range_key "); !key || d.Severity != "warning" {
			others = append(others, d.Severity+": "+d.Summary+": "+d.Detail)
		}
	}
	if !answer.Valid && len(others) == 0 {
		return nil, errors.New("not valid, and nothing says why")
	}
	return others, nil
}

// TestUnreachable has an init fail for what it wants, with a registry's stand-in in reach: no reason to leave
// anything out.
func TestUnreachable(t *testing.T) {
	w := newWorkspace(t, "examples/minimal")
	for _, version := range []string{">= 99.0", "6.0.0"} { // there is none; the modules want a newer one
		w.pin(version)
		if got := w.run("init", "-upgrade"); got.Code == 0 || unreachable.MatchString(said(got)) {
			t.Errorf("init with a provider %s: exit status %d, taken for a registry that cannot be reached: %s", version, got.Code, said(got))
		}
	}
	w.pin(providerVersion)
	w.must("init", "-upgrade")
	const none = `Could not retrieve the list of available versions for provider hashicorp/aws: could not connect to registry.terraform.io: ` +
		`failed to request discovery document: Get "https://registry.terraform.io/.well-known/terraform.json": dial tcp: no such host`
	if !unreachable.MatchString(none) {
		t.Error("a registry without an address is taken for one that answers")
	}
}

// TestMirrors has a filesystem mirror in the place of the registry: without the provider, with another
// version of it, and with one that is too old.
func TestMirrors(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs terraform")
	}
	for _, c := range []struct {
		version        string
		missing, other bool
	}{
		{"", true, false},
		{providerVersion, false, false},
		{"6.30.0", false, true},
		{"5.99.0", true, true},
	} {
		w := freshWorkspace(t, "examples/minimal")
		w.env = w.mirrorEnvironment(c.version)
		missing, other := w.initialised()
		if (missing != "") != c.missing || other != c.other {
			t.Errorf("a mirror with %q: missing %q, other %t", c.version, missing, other)
		}
		if !c.missing {
			w.validatedButForKeys()
		}
	}
}

// mirrorEnvironment is with a mirror that has one version of the provider, or none: the stand-in, under that
// version's name.
func (w *workspace) mirrorEnvironment(version string) []string {
	w.t.Helper()
	home, folder := w.t.TempDir(), w.t.TempDir()
	if version != "" {
		providers, err := mirror()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, registry := range registries {
			target := filepath.Join(folder, registry, "hashicorp/aws", version, runtime.GOOS+"_"+runtime.GOARCH)
			if err := os.MkdirAll(target, 0o750); err != nil {
				w.t.Fatal(err)
			}
			binary := filepath.Join(providers, "terraform-provider-aws_v"+providerVersion)
			if err := os.Symlink(binary, filepath.Join(target, "terraform-provider-aws_v"+version)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	settings := filepath.Join(home, "settings.tfrc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", folder)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home,
		"TF_CLI_CONFIG_FILE=" + settings, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1",
	}
}

// TestWarnings has what newer providers warn of told from all else.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const answer = `{"valid": true, "diagnostics": [{"severity": "warning", "summary": "Argument is deprecated", "detail": "say it otherwise",
		"snippet": {"code": "      hash_key        = global_secondary_index.value.hash"}}]}`
	for text, want := range map[string]int{
		`{"valid": true, "diagnostics": []}`: 0,
		answer:                               0,
		strings.Replace(answer, "hash_key", "name", 1):       1,
		strings.Replace(answer, `"warning"`, `"error"`, 1):   1,
		strings.Replace(answer, `"snippet"`, `"nothing"`, 1): 1,
	} {
		if others, err := otherWarnings(text); err != nil || len(others) != want {
			t.Errorf("%s: %q, %v, want %d", text, others, err, want)
		}
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
