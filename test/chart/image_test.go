package chart

import (
	"crypto/tls"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// dockerfile is what tools/dockerfile prints of a folder.
type dockerfile struct {
	Findings []string
	Run      []string
	Config   struct {
		User            string
		Entrypoint, Cmd []string
	}
	Context []string
}

func readDockerfile(t *testing.T, dir string) dockerfile {
	t.Helper()
	if testing.Short() {
		t.Skip("runs BuildKit's checks")
	}
	folder, err := loopback.Installed("dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "dockerfile"), dir).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said(err))
	}
	var d dockerfile
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func said(err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

const root = "../.."

func TestDockerfile(t *testing.T) {
	t.Parallel()
	d := readDockerfile(t, root)
	for _, f := range d.Findings {
		t.Error(f)
	}
	if d.Config.User != "65532:65532" || !slices.Equal(d.Config.Entrypoint, []string{"/kinesin"}) {
		t.Errorf("the image runs %v as %s", d.Config.Entrypoint, d.Config.User)
	}
	for _, file := range d.Context {
		if strings.HasPrefix(file, ".git/") || strings.HasPrefix(file, "bin/") || strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s is sent to the build", file)
		}
	}
}

// TestGoOfTheImage builds the image with the Go that go.mod asks for.
func TestGoOfTheImage(t *testing.T) {
	t.Parallel()
	minor := func(file, pattern string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		if found == nil {
			t.Fatalf("%s names no version of Go", file)
		}
		return found[1]
	}
	if image, module := minor("Dockerfile", `GO_IMAGE=golang:(\d+\.\d+)\.`), minor("go.mod", `(?m)^go (\d+\.\d+)`); image != module {
		t.Errorf("the Dockerfile builds with Go %s, go.mod wants %s", image, module)
	}
}

// TestBasesArePinned holds every FROM to a digest: a tag can come to mean another image, and then the program
// and its certificates are of somebody else's making.
func TestBasesArePinned(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range unpinned(string(text)) {
		t.Errorf("FROM %s has no digest: want NAME:TAG@sha256:…, as `docker buildx imagetools inspect` shows it", base)
	}
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for file, want := range map[string]string{
		"FROM a:1" + digest + " AS build\nFROM scratch\nFROM --platform=x build\n": "",
		"ARG A=a:1" + digest + "\nFROM ${A} as b\nFROM $A\n":                       "",
		"ARG A=a:1\nFROM ${A}\n": "a:1",
		"ARG A\nFROM ${A}\n":     "${A}",
		"FROM a:1@sha256:0a\nfrom a\nFROM --platform=x b:2 AS c\n": "a:1@sha256:0a a b:2",
		"FROM later\nFROM scratch AS later\n":                      "later",
	} {
		if got := strings.Join(unpinned(file), " "); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

// unpinned are the bases of a Dockerfile that are no earlier stage and have no digest.
func unpinned(text string) (bases []string) {
	pinned := regexp.MustCompile(`^[^@]+@sha256:[0-9a-f]{64}$`)
	var known []string // arguments, each with what it is unless it is given
	stages := map[string]bool{"scratch": true}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) < 2:
		case strings.EqualFold(words[0], "ARG"):
			if name, value, has := strings.Cut(words[1], "="); has {
				known = append(known, "${"+name+"}", value, "$"+name, value)
			}
		case strings.EqualFold(words[0], "FROM"):
			words = slices.DeleteFunc(words[1:], func(word string) bool { return strings.HasPrefix(word, "--") })
			base := strings.NewReplacer(known...).Replace(words[0])
			if !stages[base] && !pinned.MatchString(base) {
				bases = append(bases, base)
			}
			if len(words) == 3 {
				stages[words[2]] = true
			}
		}
	}
	return bases
}

// TestDockerfileFindings has mistakes, so that no findings mean something.
func TestDockerfileFindings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".dockerignore"), "")
	write(t, filepath.Join(dir, "Dockerfile"), "FROM scratch as One\nCOPY --from=nobody /a /a\nENTRYPOINT /kinesin\n")
	all := strings.Join(readDockerfile(t, dir).Findings, "\n")
	for _, want := range []string{"line 1: FromAsCasing", "line 3: JSONArgsRecommended"} {
		if !strings.Contains(all, want) {
			t.Errorf("found, without %s:\n%s", want, all)
		}
	}
}

// TestImage does what the build would do, as no image can be built here: the commands of its stage run on
// the files that it would be sent, and what the image would hold is run with nothing else around it. It finds
// servers by the certificates that are where the Dockerfile puts them.
func TestImage(t *testing.T) {
	t.Parallel()
	d := readDockerfile(t, root)
	image := build(t, d)
	checkStatic(t, filepath.Join(image, "kinesin"))

	out, err := inside(t, image, "version", "-o", "json").Output()
	if err != nil || !strings.Contains(string(out), `"version":"v1.2.3-test"`) {
		t.Fatalf("version: %v\n%s%s", err, out, said(err))
	}

	var calls atomic.Int64
	aws := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#UnrecognizedClientException","message":"nobody"}`))
	}))
	aws.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	aws.StartTLS()
	defer aws.Close()
	trust(t, image, aws.Certificate())

	serve := inside(t, image, "serve")
	serve.Env = []string{
		"KINESIN_STORE=dynamodb", "KINESIN_QUEUE=sqs", "KINESIN_AWS_PREFIX=test", "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b",
		"AWS_ENDPOINT_URL=" + aws.URL,
	}
	_, err = serve.Output()
	if serve.ProcessState.ExitCode() != 3 || !strings.Contains(said(err), "AWS refuses the credentials") || calls.Load() == 0 {
		t.Errorf("serve: %v after %d calls, said:\n%s", err, calls.Load(), said(err))
	}
}

// build runs the commands of the Dockerfile on a copy of the files that they would see, and returns a
// folder with what the image would hold.
func build(t *testing.T, d dockerfile) string {
	t.Helper()
	src, image := t.TempDir(), t.TempDir()
	for _, name := range d.Context {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(src, name), string(text))
	}
	for _, run := range d.Run {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(run, " /kinesin ", " "+filepath.Join(image, "kinesin")+" "))
		cmd.Dir, cmd.Env = src, append(os.Environ(), "TARGETOS=linux", "TARGETARCH=amd64", "VERSION=v1.2.3-test")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", run, err, out)
		}
	}
	return image
}

// checkStatic wants a program that needs no loader and no library, and says nothing of where it was built.
func checkStatic(t *testing.T, path string) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("a program header %s: it is not static", p.Type)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{os.TempDir() + "/Test", home + "/go/pkg"} {
		if strings.Contains(string(text), where) {
			t.Errorf("it names %s: another folder makes another program", where)
		}
	}
}

// inside runs the program with the folder for its root, as the image's user, without any variable.
func inside(t *testing.T, image string, args ...string) *exec.Cmd {
	t.Helper()
	for _, dir := range []string{image, filepath.Dir(image)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/kinesin", args...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER // in which anybody may change the root
	}
	return cmd
}

// trust puts a certificate where the image has those of public authorities.
func trust(t *testing.T, image string, cert *x509.Certificate) {
	t.Helper()
	write(t, filepath.Join(image, "etc/ssl/certs/ca-certificates.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
