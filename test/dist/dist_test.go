package dist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/internal/runtest"
)

const root = "../.."

// made are folders that hold the same release, made one after the other.
var made [2]string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "kinesin-dist-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		made = [2]string{filepath.Join(dir, "one"), filepath.Join(dir, "another")}
		return m.Run()
	}())
}

// makeDist runs make dist twice, as others than each other.
var makeDist = sync.OnceValue(func() error {
	for i, dir := range made {
		umask, zone := []string{"022", "077"}[i], []string{"UTC", "Asia/Tokyo"}[i]
		cmd := exec.Command("sh", "-c", "umask "+umask+` && exec make dist DIST="$1" PLATFORMS="$2"`, "sh", dir, "linux/"+runtime.GOARCH)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "TZ="+zone)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make dist: %w\n%s", err, out)
		}
	}
	return nil
})

// dist returns the folder of the release.
func dist(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a release")
	}
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: only root may change the root of a process")
	}
	if err := makeDist(); err != nil {
		t.Fatal(err)
	}
	return made[0]
}

// version is that of the release, as the Makefile has it.
func version(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^RELEASE := (\S+)$`).FindStringSubmatch(read(t, filepath.Join(root, "Makefile")))
	if found == nil {
		t.Fatal("the Makefile names no RELEASE")
	}
	return found[1]
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestVersions compares the places that name the version of the release.
func TestVersions(t *testing.T) {
	want := version(t)
	for file, pattern := range map[string]string{
		"deploy/chart/kinesin/Chart.yaml": `(?m)^(?:version|appVersion): "?([^"\s]+)`,
		"deploy/compose.yaml":             `image: ghcr.io/kinesin-io/kinesin:(\S+)`,
		"docs/start/install.md":           `(?:kinesin_|kinesin-|kinesin_server-|kinesin:)(\d+\.\d+\.\d+)`,
		"docs/how-to/kubernetes.md":       `(?:kinesin:|Kinesin |tag: ")(\d+\.\d+\.\d+)`,
		"docs/reference/terraform.md":     `\?ref=v(\d+\.\d+\.\d+)`,

		"clients/python/kinesin/__init__.py": `__version__ = "([^"]+)`,
		"clients/python/pyproject.toml":      `kinesin-server==([^"]+)`,
		"clients/python/README.md":           `kinesin-(\d+\.\d+\.\d+)`,
		"clients/typescript/package.json":    `(?m)^  "version": "([^"]+)`,
		"clients/typescript/README.md":       `kinesin-(\d+\.\d+\.\d+)`,
	} {
		all := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, filepath.Join(root, file)), -1)
		if len(all) == 0 {
			t.Errorf("%s names no version", file)
		}
		for _, found := range all {
			if found[1] != want {
				t.Errorf("%s has %q: want RELEASE of the Makefile, %s", file, found[0], want)
			}
		}
	}
}

// TestSameBytes has two runs make the same files, and the checksums be theirs.
func TestSameBytes(t *testing.T) {
	one := dist(t)
	run(t, "diff", "--recursive", one, made[1])
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = one
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	entries, err := os.ReadDir(one)
	if err != nil {
		t.Fatal(err)
	}
	sums := read(t, filepath.Join(one, "SHA256SUMS"))
	for _, e := range entries {
		if !e.IsDir() && e.Name() != "SHA256SUMS" && !strings.Contains(sums, "  "+e.Name()+"\n") {
			t.Errorf("%s has no checksum", e.Name())
		}
	}
}

// jail is a folder that is the root file system of processes.
type jail struct {
	t    *testing.T
	dir  string
	env  []string
	user uint32
}

// command makes a command, as seen from inside.
func (j *jail) command(name string, args ...string) *exec.Cmd {
	j.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(j.t.Context()), name, args...)
	cmd.Dir, cmd.Env = "/", j.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.dir, Credential: &syscall.Credential{Uid: j.user, Gid: j.user}}
	return cmd
}

// run runs a command to its end and returns what it prints.
func (j *jail) run(name string, args ...string) string {
	j.t.Helper()
	out, err := j.command(name, args...).Output()
	if err != nil {
		var said []byte
		if exit, is := errors.AsType[*exec.ExitError](err); is {
			said = exit.Stderr
		}
		j.t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, said)
	}
	return string(out)
}

// start starts a command, and returns what it says. stop, or the end of the test, ends it by SIGTERM.
func (j *jail) start(cmd *exec.Cmd) (said *runtest.Text, stop func()) {
	j.t.Helper()
	said = &runtest.Text{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			j.t.Errorf("%s ended with %v:\n%s", cmd, err, said)
		}
	})
	j.t.Cleanup(stop)
	return said, stop
}

// onFreePort lets servers and clients inside meet at a port that no other process has.
func (j *jail) onFreePort() {
	j.t.Helper()
	port, err := loopback.FreePort()
	if err != nil {
		j.t.Fatal(err)
	}
	j.env = append(j.env, fmt.Sprintf("KINESIN_LISTEN=127.0.0.1:%d", port), fmt.Sprintf("KINESIN_SERVER=http://127.0.0.1:%d", port))
}

// bring copies programs of this machine, and the libraries that they load.
func (j *jail) bring(paths ...string) {
	j.t.Helper()
	for _, path := range paths {
		for _, file := range append(regexp.MustCompile(`/\S+`).FindAllString(run(j.t, "ldd", path), -1), path) {
			j.copy(file, file)
		}
	}
}

func (j *jail) copy(from, to string) {
	j.t.Helper()
	to = filepath.Join(j.dir, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		j.t.Fatal(err)
	}
	in, err := os.Open(from)
	if err != nil {
		j.t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		j.t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		j.t.Fatal(err)
	}
}

// newJail makes a root file system that has /tmp, /proc, /dev and nothing else.
func newJail(t *testing.T) *jail {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/proc", "/dev"} {
		bound := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(bound, 0o755), syscall.Mount(name, bound, "", syscall.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(bound, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	return &jail{t: t, dir: dir, user: 65532}
}

// eventually waits for what another process does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	runtest.Eventually(t, 20*time.Second, what, holds)
}

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// lines returns the lines of a shell block without comments and empty lines.
func lines(block []byte) (all []string) {
	for line := range bytes.Lines(block) {
		command, _, _ := strings.Cut(string(line), " #")
		if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
			all = append(all, command)
		}
	}
	return all
}
