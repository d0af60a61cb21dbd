package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// clients makes the packages of the clients for macOS, which test/dist does not install. It has no program but a text.
func clients(t *testing.T) *release {
	t.Helper()
	p := platform{"darwin", "arm64"}
	r := &release{
		root: "../..", out: t.TempDir(), version: "1.2.3-rc.4", time: time.Unix(1_700_000_000, 0), platforms: []platform{p, {"windows", "amd64"}},
		programs: map[platform]map[string][]byte{p: {"kinesin": []byte("program")}},
	}
	if err := errors.Join(r.write(r.sbom("kinesin", p), []byte("{}")), r.python(), r.npm()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWheel reads the wheel of the program as pip does: by its name, its RECORD and the modes of its files.
func TestWheel(t *testing.T) {
	r := clients(t)
	wheel, err := zip.OpenReader(filepath.Join(r.out, "kinesin_server-1.2.3rc4-py3-none-macosx_11_0_arm64.whl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = wheel.Close() }()
	modes := map[string]fs.FileMode{}
	for _, f := range wheel.File {
		modes[f.Name] = f.Mode()
	}
	if modes["kinesin_server/bin/kinesin"] != 0o755 || modes["kinesin_server/__init__.py"] != 0o644 {
		t.Errorf("modes: %v", modes)
	}
	const info = "kinesin_server-1.2.3rc4.dist-info/"
	text := func(name string) string {
		text, err := fs.ReadFile(wheel, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, want := range map[string]string{
		"WHEEL": "Root-Is-Purelib: false\nTag: py3-none-macosx_11_0_arm64\n", "METADATA": "Version: 1.2.3rc4\n",
		"entry_points.txt": "[console_scripts]\nkinesin = kinesin_server:main\n", "sboms/kinesin.cdx.json": "{}",
		// echo -n program | openssl dgst -sha256 -binary | basenc --base64url
		"RECORD": "kinesin_server/bin/kinesin,sha256=ExDKLIky29EYZovZdEJVij4fVGteFcaWmd-9YCT1SNg,7\n",
	} {
		if got := text(info + name); !strings.Contains(got, want) {
			t.Errorf("%s is %q, without %q", name, got, want)
		}
	}
	for name := range modes {
		if !strings.Contains(text(info+"RECORD"), name+",") {
			t.Errorf("%s is not in RECORD", name)
		}
	}
}

// TestNPM reads the packages of npm, and stamps the client with the release's version.
func TestNPM(t *testing.T) {
	r := clients(t)
	files, text := unpacked(t, filepath.Join(r.out, "kinesin-darwin-arm64-1.2.3-rc.4.tgz"))
	if files["package/bin/kinesin"] != 0o755 || files["package/package.json"] != 0o644 {
		t.Errorf("files: %v", files)
	}
	var program npmPackage
	if err := json.Unmarshal(text["package/package.json"], &program); err != nil || !slices.Equal(program.OS, []string{"darwin"}) || !slices.Equal(program.CPU, []string{"arm64"}) {
		t.Errorf("%+v: %v", program, err)
	}
	_, text = unpacked(t, filepath.Join(r.out, "kinesin-1.2.3-rc.4.tgz"))
	var client struct {
		Version  string
		Optional map[string]string `json:"optionalDependencies"`
		Bin      map[string]string
	}
	if err := json.Unmarshal(text["package/package.json"], &client); err != nil || client.Version != r.version || len(client.Optional) != 1 || client.Optional[program.Name] != r.version {
		t.Errorf("%+v: %v", client, err)
	}
	if text["package/"+client.Bin["kinesin"]] == nil {
		t.Errorf("there is no %s, which its package.json names", client.Bin["kinesin"])
	}
}

// TestSources reads the sources of the client in Python, which are stamped with the version as Python writes it.
func TestSources(t *testing.T) {
	files, text := unpacked(t, filepath.Join(clients(t).out, "kinesin-1.2.3rc4.tar.gz"))
	if _, has := files["kinesin-1.2.3rc4/kinesin/py.typed"]; !has {
		t.Errorf("files: %v", files)
	}
	if got := text["kinesin-1.2.3rc4/kinesin/__init__.py"]; !bytes.Contains(got, []byte("\n__version__ = \"1.2.3rc4\"\n")) {
		t.Errorf("%s", got)
	}
	for name := range files {
		if strings.Contains(name, "__pycache__") {
			t.Errorf("%s is in the sources", name)
		}
	}
	if got := text["kinesin-1.2.3rc4/PKG-INFO"]; !bytes.Contains(got, []byte("\nRequires-Dist: kinesin-server==1.2.3rc4; extra == 'server'\n")) {
		t.Errorf("%s", got)
	}
}

// unpacked returns the modes and the texts of the files of a .tar.gz.
func unpacked(t *testing.T, path string) (modes map[string]fs.FileMode, texts map[string][]byte) {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	modes, texts = map[string]fs.FileMode{}, map[string][]byte{}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return modes, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.FileInfo().Mode()
		if texts[h.Name], err = io.ReadAll(files); err != nil {
			t.Fatal(err)
		}
	}
}
