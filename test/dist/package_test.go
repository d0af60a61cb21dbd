package dist

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// installed is a root file system with the package.
type installed struct {
	*jail
}

// dpkg runs dpkg on the root. The package's scripts run outside of it, and find it in DPKG_ROOT.
func (i *installed) dpkg(args ...string) {
	i.t.Helper()
	args = append([]string{"--root=" + i.dir, "--force-script-chrootless", "--force-depends", "--force-confold"}, args...)
	cmd := exec.CommandContext(i.t.Context(), "dpkg", args...)
	// A service manager seems to run, and is asked for what a note is kept of.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(i.dir, "fake")+":"+os.Getenv("PATH"), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		i.t.Fatalf("dpkg %v: %v\n%s", args, err, out)
	}
}

// asked returns what the service manager was asked for since the last call.
func (i *installed) asked() string {
	i.t.Helper()
	path := filepath.Join(i.dir, "fake", "asked")
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if err := os.Remove(path); err != nil {
		i.t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "; ")
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// earlier makes a package of an earlier version out of a package.
func earlier(t *testing.T, path, version string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "dpkg-deb", "--raw-extract", path, dir)
	control := filepath.Join(dir, "DEBIAN", "control")
	write(t, control, regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAllString(read(t, control), "Version: "+version), 0o644)
	old := filepath.Join(t.TempDir(), "old.deb")
	run(t, "dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", dir, old)
	return old
}

// service starts the unit's command as systemd would, and returns when it said that it is ready.
func (i *installed) service() (stop func()) {
	i.t.Helper()
	unit := read(i.t, filepath.Join(i.dir, "usr/lib/systemd/system/kinesin.service"))
	setting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if found == nil {
			i.t.Fatalf("the unit has no %s", name)
		}
		return found[1]
	}
	user := regexp.MustCompile(`(?m)^` + setting("User") + `:[^:]*:(\d+):`).FindStringSubmatch(read(i.t, filepath.Join(i.dir, "etc/passwd")))
	if user == nil {
		i.t.Fatalf("there is no user %s", setting("User"))
	}
	id, err := strconv.Atoi(user[1])
	if err != nil {
		i.t.Fatal(err)
	}
	data := filepath.Join(i.dir, "var/lib", setting("StateDirectory"))
	if err := os.MkdirAll(data, 0o700); err != nil {
		i.t.Fatal(err)
	}
	if err := os.Chown(data, id, id); err != nil {
		i.t.Fatal(err)
	}
	notify := filepath.Join(i.dir, "notify")
	_ = os.Remove(notify)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = socket.Close() })
	if err := os.Chmod(notify, 0o777); err != nil {
		i.t.Fatal(err)
	}
	if kind := setting("Type"); kind != "notify" {
		i.t.Errorf("the unit's type is %s", kind)
	}
	beat, err := time.ParseDuration(setting("WatchdogSec"))
	if err != nil {
		i.t.Fatal(err)
	}
	i.user = uint32(id)
	words := strings.Fields(setting("ExecStart"))
	cmd := i.command(words[0], words[1:]...)
	cmd.Dir = setting("WorkingDirectory")
	cmd.Env = []string{"NOTIFY_SOCKET=/notify", fmt.Sprintf("WATCHDOG_USEC=%d", beat.Microseconds())}
	said, stopped := i.start(cmd)
	hears := func(want string) {
		i.t.Helper()
		text := make([]byte, 100)
		if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			i.t.Fatal(err)
		}
		for {
			n, err := socket.Read(text)
			if err != nil {
				i.t.Fatalf("the service manager hears no %s: %v\n%s", want, err, said)
			}
			if string(text[:n]) == want {
				return
			}
		}
	}
	hears("READY=1")
	hears("WATCHDOG=1")
	return func() {
		i.t.Helper()
		stopped()
		hears("STOPPING=1")
	}
}

// TestPackage installs the .deb of an earlier version, has the unit's command serve, upgrades it, removes it and purges it.
func TestPackage(t *testing.T) {
	path := filepath.Join(dist(t), fmt.Sprintf("kinesin_%s-1_%s.deb", version(t), runtime.GOARCH))
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("NOT RUN: there is no dpkg on the PATH")
	}
	i := &installed{newJail(t)}
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "run/systemd/system", "etc"} {
		if err := os.MkdirAll(filepath.Join(i.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(i.dir, "var/lib/dpkg/status"), "", 0o644)
	write(t, filepath.Join(i.dir, "fake/systemctl"), "#!/bin/sh\necho \"$*\" >>\"$DPKG_ROOT/fake/asked\"\n", 0o755)

	i.dpkg("--install", earlier(t, path, "0.0.9-1"))
	if got := i.asked(); got != "daemon-reload; try-restart kinesin.service" {
		t.Errorf("an installation asks for %q", got)
	}
	config := filepath.Join(i.dir, "etc/kinesin/kinesin.yaml")
	i.onFreePort()
	own := strings.Replace(read(t, config), "127.0.0.1:7070", strings.TrimPrefix(i.env[0], "KINESIN_LISTEN="), 1)
	write(t, config, own, 0o644)

	stop := i.service()
	i.run("/usr/bin/kinesin", "lambda", "create", "greet")
	id := firstLine(i.run("/usr/bin/kinesin", "schedule", "greet", "--in", "1h", "--key", "kept"))
	stop()

	i.dpkg("--install", path)
	if got := i.asked(); got != "daemon-reload; try-restart kinesin.service" {
		t.Errorf("an upgrade asks for %q", got)
	}
	if read(t, config) != own {
		t.Error("an upgrade changes the configuration")
	}
	stop = i.service()
	if got := i.run("/usr/bin/kinesin", "get", "--lambda", "greet", "--key", "kept"); !strings.Contains(got, id) {
		t.Errorf("after the upgrade: %s", got)
	}
	stop()

	i.dpkg("--remove", "kinesin")
	if got := i.asked(); got != "disable --now kinesin.service; daemon-reload" {
		t.Errorf("a removal asks for %q", got)
	}
	there := func(path string) bool {
		_, err := os.Stat(filepath.Join(i.dir, path))
		return err == nil
	}
	if there("usr/bin/kinesin") || !there("var/lib/kinesin") || !there("etc/kinesin/kinesin.yaml") {
		t.Error("a removal leaves the program, or takes data or configuration")
	}
	i.dpkg("--purge", "kinesin")
	if there("var/lib/kinesin") || there("etc/kinesin/kinesin.yaml") {
		t.Error("a purge leaves data or configuration")
	}
}

// TestUnit has systemd judge how far the unit is shut in. It is not run by systemd here.
func TestUnit(t *testing.T) {
	if testing.Short() {
		t.Skip("runs systemd-analyze")
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("NOT RUN: there is no systemd-analyze on the PATH")
	}
	run(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", filepath.Join(root, "deploy/linux/kinesin.service"))
}
