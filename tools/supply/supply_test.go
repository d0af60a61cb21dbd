package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licenseclassifier/v2/assets"
)

func text(t *testing.T, licence string) string {
	t.Helper()
	for _, name := range []string{"pristine.txt", "license.txt"} {
		if text, err := assets.ReadLicenseFile("License/" + licence + "/" + name); err == nil {
			return string(text)
		}
	}
	t.Fatalf("no text of %s", licence)
	return ""
}

// module is one with these files, of which the packages in the folders are linked.
func module(t *testing.T, files map[string]string, packages ...string) *linked {
	t.Helper()
	m := &linked{path: "example.org/m", version: "v1.0.0", dir: t.TempDir()}
	for name, content := range files {
		path := filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range packages {
		m.packages = append(m.packages, filepath.Join(m.dir, p))
	}
	return m
}

func TestTerms(t *testing.T) {
	mit, gpl := text(t, "MIT"), text(t, "GPL-3.0")
	for name, c := range map[string]struct {
		files    map[string]string
		packages []string
		ids      string
		texts    int
		wrong    string
	}{
		"one":            {map[string]string{"LICENSE": mit}, []string{"."}, "MIT", 1, ""},
		"with a notice":  {map[string]string{"LICENSE.md": mit, "NOTICE": "of somebody"}, []string{"."}, "MIT", 2, ""},
		"a folder's own": {map[string]string{"LICENSE": mit, "a/b/COPYING": text(t, "ISC"), "c/LICENSE": gpl}, []string{"a/b"}, "ISC MIT", 2, ""},
		"copyleft":       {map[string]string{"LICENSE": gpl}, []string{"."}, "", 0, "is under GPL-3.0: want one of 0BSD, Apache-2.0"},
		"linked, below":  {map[string]string{"LICENSE": mit, "a/LICENSE": gpl}, []string{".", "a"}, "", 0, "is under GPL-3.0"},
		"none":           {map[string]string{"README": mit}, []string{"."}, "", 0, "has no licence"},
		"unknown":        {map[string]string{"LICENSE": "You may look at it on Sundays."}, []string{"."}, "", 0, "LICENSE is no licence that is known"},
		"code":           {map[string]string{"license.go": "package m"}, []string{"."}, "", 0, "has no licence"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := module(t, c.files, c.packages...).terms()
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v: want %q", err, c.wrong)
				}
				return
			}
			if err != nil || strings.Join(got.ids, " ") != c.ids || len(got.texts) != c.texts {
				t.Errorf("%v with %d texts, %v", got.ids, len(got.texts), err)
			}
		})
	}
}

// sample is an SBOM with what `go version -m` tells of the same binary.
func sample(t *testing.T) (b *cdx.BOM, told string, sum [sha256.Size]byte) {
	t.Helper()
	sum = sha256.Sum256([]byte("binary"))
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.8", Path: programs[0], Main: debug.Module{Path: "github.com/kinesin-io/kinesin", Version: "v1"}}
	b = bom(info, map[string]string{"GOOS": "linux"}, sum)
	for _, d := range []*debug.Module{
		{Path: standard, Version: "go1.26.8"},
		{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:h2kacdlzXpZU2OQFSv98xkjYXNUSr/ptxmGVbS/+CRM="},
		{Path: "example.org/b", Version: "v2.0.0+incompatible", Sum: "h1:YItk/RmU5nvlsv/awo2Fjx97Mfpt4JfgtEVAGPrLdz8="},
	} {
		c, err := component(d, []string{"MIT"})
		if err != nil {
			t.Fatal(err)
		}
		*b.Components = append(*b.Components, c)
		*(*b.Dependencies)[0].Dependencies = append(*(*b.Dependencies)[0].Dependencies, c.BOMRef)
	}
	return b, "bin/kinesin: go1.26.8\n\tpath\tx\n\tmod\tgithub.com/kinesin-io/kinesin\t(devel)\t\n" +
		"\tdep\texample.org/a\tv1.0.0\th1:a=\n\tdep\texample.org/b\tv2.0.0+incompatible\th1:b=\n\tbuild\tGOOS=linux\n", sum
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *cdx.BOM)
		told   string // more of go version -m
		wrong  string
	}{
		"as it is":        {func(*cdx.BOM) {}, "", ""},
		"one is missing":  {func(b *cdx.BOM) { *b.Components = (*b.Components)[:2] }, "", "example.org/b v2.0.0+incompatible is linked, and not listed"},
		"one more":        {func(*cdx.BOM) {}, "\tdep\texample.org/c\tv3.0.0\th1:c=\n", "example.org/c v3.0.0 is linked, and not listed"},
		"another version": {func(b *cdx.BOM) { (*b.Components)[1].Version = "v1.0.1" }, "", "example.org/a v1.0.1 is listed, and not linked"},
		"no licence":      {func(b *cdx.BOM) { (*b.Components)[1].Licenses = nil }, "", "example.org/a has no licence"},
		"copyleft":        {func(b *cdx.BOM) { (*(*b.Components)[1].Licenses)[0].License.ID = "GPL-3.0" }, "", "example.org/a has a licence that is not allowed"},
		"no hash":         {func(b *cdx.BOM) { (*b.Components)[1].Hashes = nil }, "", "example.org/a has no hash"},
		"no purl":         {func(b *cdx.BOM) { (*b.Components)[1].PackageURL = "" }, "", `"example.org/a" is incomplete`},
		"twice":           {func(b *cdx.BOM) { (*b.Components)[2].BOMRef = (*b.Components)[1].BOMRef }, "", "is there twice"},
		"another binary":  {func(b *cdx.BOM) { (*b.Metadata.Component.Hashes)[0].Value = strings.Repeat("0", 64) }, "", "of another binary"},
		"no number":       {func(b *cdx.BOM) { b.SerialNumber = "urn:uuid:1" }, "", "serial number"},
		"no metadata":     {func(b *cdx.BOM) { b.Metadata = nil }, "", "want metadata.component"},
		"no dependencies": {func(b *cdx.BOM) { (*b.Dependencies)[0].Dependencies = nil }, "", "not those of the program"},
	} {
		t.Run(name, func(t *testing.T) {
			b, told, sum := sample(t)
			c.change(b)
			var out bytes.Buffer
			if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
				t.Fatal(err)
			}
			n, err := compare(out.Bytes(), []byte(told+c.told), sum)
			if c.wrong == "" && (err != nil || n != 3) {
				t.Errorf("%d modules, %v", n, err)
			}
			if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("%v: want %q", err, c.wrong)
			}
		})
	}
	if _, err := compare([]byte(`{"bomFormat": "CycloneDX", "specVersion": "1.6", "bill": 1}`), nil, sha256.Sum256(nil)); err == nil || !strings.Contains(err.Error(), "bill") {
		t.Errorf("a field that the schema does not have: %v", err)
	}
}

// TestSameBinarySameSBOM has two SBOMs of one binary be the same text.
func TestSameBinarySameSBOM(t *testing.T) {
	texts := make([][]byte, 2)
	for i := range texts {
		b, _, _ := sample(t)
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
}

// TestDocument has a text once, with all that it is of, and says everything that is wrong at once.
func TestDocument(t *testing.T) {
	a := *module(t, map[string]string{"LICENSE": text(t, "MIT") + "\r\n"}, ".")
	b := *module(t, map[string]string{"LICENSE": text(t, "MIT")}, ".")
	a.path, b.path = "example.org/a", "example.org/b"
	out, err := document(map[string]linked{"a": a, "b": b})
	if err != nil || strings.Count(string(out), "Permission is hereby granted") != 1 || !strings.Contains(string(out), "example.org/a LICENSE\nexample.org/b LICENSE\n") {
		t.Errorf("%v\n%s", err, out)
	}
	_, err = document(map[string]linked{"a": *module(t, nil, "."), "b": *module(t, map[string]string{"COPYING": "mine"}, ".")})
	if err == nil || !strings.Contains(err.Error(), "has no licence") || !strings.Contains(err.Error(), "is no licence that is known") {
		t.Error(err)
	}
}

// TestVuln has the script tell what was found from what could not be looked for.
func TestVuln(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		code int
		want int
		word bool
	}{
		"nothing known": {"", 0, 0, false},
		"vulnerable":    {"Your code is affected by 1 vulnerability.", 3, 3, false},
		"unreachable":   {`govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": dial tcp: no such host`, 1, 75, true},
		"broken code":   {"govulncheck: loading packages: there are errors with the provided package patterns", 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			fake := filepath.Join(t.TempDir(), "govulncheck")
			script := "#!/bin/sh\necho '" + c.said + "' >&2\nexit " + string(rune('0'+c.code)) + "\n"
			if err := os.WriteFile(fake, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), "./vuln", fake)
			out, _ := run.CombinedOutput()
			if code := run.ProcessState.ExitCode(); code != c.want || strings.Contains(string(out), "UNCHECKED") != c.word || !strings.Contains(string(out), c.said) {
				t.Errorf("ended with %d, want %d: %s", code, c.want, out)
			}
		})
	}
}

// TestLinked asks the go command about the tree that this is in.
func TestLinked(t *testing.T) {
	all, err := linkedFor("../..", programs, platforms[0]...)
	if err != nil {
		t.Fatal(err)
	}
	pebble := slices.IndexFunc(all, func(m linked) bool { return m.path == "github.com/cockroachdb/pebble/v2" })
	if all[0].path != standard || pebble < 0 || all[pebble].version == "" || len(all[pebble].packages) < 10 {
		t.Errorf("%d modules, pebble is number %d", len(all), pebble)
	}
	if slices.ContainsFunc(all, func(m linked) bool {
		return m.path == "pgregory.net/rapid" || strings.HasPrefix(m.path, "github.com/kinesin-io")
	}) {
		t.Error("what only tests need is listed, or kinesin itself")
	}
}
