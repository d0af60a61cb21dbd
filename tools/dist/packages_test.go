package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sassoftware/go-rpmutils"
)

// TestRPM reads the .rpm that the release of a sample has. That of the .deb is installed in test/dist.
func TestRPM(t *testing.T) {
	p := platform{"linux", "arm64"}
	r := &release{
		root: "../..", out: t.TempDir(), version: "1.2.3", time: time.Unix(1_700_000_000, 0), platforms: []platform{p},
		programs:    map[platform]map[string][]byte{p: {"kinesin": []byte("program")}},
		completions: map[string][]byte{"kinesin.bash": nil, "kinesin.fish": nil, "_kinesin": nil},
	}
	if err := r.packages(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "kinesin-1.2.3-1.aarch64.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	rpm, err := rpmutils.ReadRpm(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if name, err := rpm.Header.GetNEVRA(); err != nil || name.String() != "kinesin-0:1.2.3-1.aarch64.rpm" {
		t.Errorf("%v, %v", name, err)
	}
	for tag, want := range map[int]string{rpmutils.POSTIN: "systemd-sysusers", rpmutils.PREUN: "disable --now", rpmutils.POSTUN: "daemon-reload", rpmutils.BUILDHOST: "localhost"} {
		if got, err := rpm.Header.GetStrings(tag); err != nil || !strings.Contains(strings.Join(got, ""), want) {
			t.Errorf("tag %d is %q, without %q: %v", tag, got, want, err)
		}
	}
	if needs, err := rpm.Header.GetStrings(rpmutils.REQUIRENAME); err != nil || !slices.Contains(needs, "systemd") {
		t.Errorf("it needs %v: %v", needs, err)
	}
	files, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	kept := rpmutils.RPMFILE_CONFIG | rpmutils.RPMFILE_NOREPLACE
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		if isKept := f.Flags()&kept == kept; isKept != (f.Name() == "/etc/kinesin/kinesin.yaml") {
			t.Errorf("%s is kept by an upgrade: %v", f.Name(), isKept)
		}
		if f.UserName() != "root" || f.GroupName() != "root" || f.Mtime() != int(r.time.Unix()) {
			t.Errorf("%s belongs to %s:%s, of %d", f.Name(), f.UserName(), f.GroupName(), f.Mtime())
		}
	}
	for _, want := range []string{"/usr/bin/kinesin", "/usr/lib/systemd/system/kinesin.service", "/usr/lib/sysusers.d/kinesin.conf", "/usr/share/zsh/site-functions/_kinesin"} {
		if !slices.Contains(names, want) {
			t.Errorf("%v has no %s", names, want)
		}
	}
}

// TestPlatforms refuses what no release is made for, and says what is.
func TestPlatforms(t *testing.T) {
	if got, err := parsePlatforms("linux/arm64 windows/amd64"); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "linux", "plan9/amd64"} {
		if _, err := parsePlatforms(text); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestKeepsOthers leaves a folder alone that is no dist.
func TestKeepsOthers(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"-out", dir, "-version", "1.2.3", "-time", "0", "-platforms", "linux/amd64", "--", "go", "build"})
	if err == nil || !strings.Contains(err.Error(), "no dist that may be replaced") {
		t.Error(err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}
