package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// wheelTags are the platforms of wheels. The program needs no C library, so one wheel is for both of Linux.
var wheelTags = map[platform]string{
	{"linux", "amd64"}:  "manylinux2014_x86_64.musllinux_1_1_x86_64",
	{"linux", "arm64"}:  "manylinux2014_aarch64.musllinux_1_1_aarch64",
	{"darwin", "amd64"}: "macosx_11_0_x86_64",
	{"darwin", "arm64"}: "macosx_11_0_arm64",
}

// pyVersion has the form that Python gives a version: 0.1.0rc1 for 0.1.0-rc.1.
var pyVersion = strings.NewReplacer("-alpha.", "a", "-beta.", "b", "-rc.", "rc")

// versions finds where the files of a client name their version.
var versions = regexp.MustCompile(`(?m)(kinesin-server==|^__version__ = "|^  "version": ")[^"]*`)

// stamp sets the version of a client in one of its files.
func stamp(text []byte, version string) []byte {
	return versions.ReplaceAll(text, []byte("${1}"+version))
}

// pyPackage is a package of Python: what its pyproject.toml says, and its files.
type pyPackage struct {
	Name         string
	Description  string
	License      string
	Readme       string
	Dependencies []string
	Classifiers  []string
	Scripts      map[string]string
	Python       string                       `toml:"requires-python"`
	Extras       map[string][]string          `toml:"optional-dependencies"`
	EntryPoints  map[string]map[string]string `toml:"entry-points"`

	version  string
	readme   []byte
	modules  []file
	licences []file // whose names have no folder
}

// python writes the client as a wheel and as its sources, and for each platform but Windows a wheel that carries the program.
func (r *release) python() error {
	client, project, err := r.pyPackage("clients/python", "kinesin")
	if err != nil {
		return err
	}
	client.licences = client.licences[:1] // it carries nobody else's code
	if err := r.wheel(client, "any"); err != nil {
		return err
	}
	if err := r.sdist(client, project); err != nil {
		return err
	}
	for _, p := range r.platforms {
		if p.os == "windows" {
			continue
		}
		server, _, err := r.pyPackage("clients/python/server", "kinesin_server")
		if err != nil {
			return err
		}
		sbom, err := os.ReadFile(filepath.Join(r.out, r.sbom("kinesin", p)))
		if err != nil {
			return err
		}
		server.modules = append(server.modules,
			file{name: "kinesin_server/bin/kinesin", mode: 0o755, text: r.programs[p]["kinesin"]},
			file{name: server.base() + ".dist-info/sboms/kinesin.cdx.json", text: sbom})
		if err := r.wheel(server, wheelTags[p]); err != nil {
			return err
		}
	}
	return nil
}

// pyPackage reads a package, whose version becomes that of the release, and returns its pyproject.toml with it.
func (r *release) pyPackage(dir, module string) (p *pyPackage, project []byte, err error) {
	if project, err = r.read(path.Join(dir, "pyproject.toml")); err != nil {
		return nil, nil, err
	}
	version := pyVersion.Replace(r.version)
	project = stamp(project, version)
	var decoded struct{ Project *pyPackage }
	if err := toml.Unmarshal(project, &decoded); err != nil {
		return nil, nil, fmt.Errorf("%s/pyproject.toml: %w", dir, err)
	}
	p = decoded.Project
	p.version = version
	if p.licences, err = r.licences(""); err != nil {
		return nil, nil, err
	}
	if p.Readme != "" {
		if p.readme, err = r.readme(dir); err != nil {
			return nil, nil, err
		}
	}
	p.modules, err = r.tree(dir, module, func(name string) bool { return path.Ext(name) == ".py" || path.Base(name) == "py.typed" })
	for i, f := range p.modules {
		p.modules[i].text = stamp(f.text, version)
	}
	return p, project, err
}

// base is how the files of a package begin.
func (p *pyPackage) base() string { return strings.ReplaceAll(p.Name, "-", "_") + "-" + p.version }

// wheel writes a wheel for platforms, of which those with one program have dots between them.
func (r *release) wheel(p *pyPackage, platforms string) error {
	info := p.base() + ".dist-info/"
	tags := "py3-none-" + strings.ReplaceAll(platforms, ".", "\nTag: py3-none-")
	wheel := fmt.Sprintf("Wheel-Version: 1.0\nGenerator: kinesin\nRoot-Is-Purelib: %t\nTag: %s\n", platforms == "any", tags)
	files := append(slices.Clone(p.modules),
		file{name: info + "METADATA", text: p.metadata()}, file{name: info + "WHEEL", text: []byte(wheel)}, file{name: info + "entry_points.txt", text: p.entryPoints()})
	for _, f := range p.licences {
		files = append(files, file{name: info + "licenses/" + f.name, text: f.text})
	}
	var record bytes.Buffer
	for i, f := range files {
		sum := sha256.Sum256(f.text)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.text))
		files[i].mode = cmp.Or(f.mode, 0o644)
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	files = append(files, file{name: info + "RECORD", mode: 0o644, text: record.Bytes()})
	var out bytes.Buffer
	if err := zipped(&out, files, r.time); err != nil {
		return err
	}
	return r.write(p.base()+"-py3-none-"+platforms+".whl", out.Bytes())
}

// sdist writes the sources of a package, of which pip makes the same wheel.
func (r *release) sdist(p *pyPackage, project []byte) error {
	files := append(slices.Clone(p.modules), p.licences...)
	files = append(files, file{name: "PKG-INFO", text: p.metadata()}, file{name: "README.md", text: p.readme}, file{name: "pyproject.toml", text: project})
	for i := range files {
		files[i].name, files[i].mode = p.base()+"/"+files[i].name, 0o644
	}
	var out bytes.Buffer
	if err := tarGz(&out, files, r.time); err != nil {
		return err
	}
	return r.write(p.base()+".tar.gz", out.Bytes())
}

// metadata describes a package, as https://packaging.python.org/en/latest/specifications/core-metadata has it.
func (p *pyPackage) metadata() []byte {
	var text bytes.Buffer
	add := func(name string, values ...string) {
		for _, value := range values {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	add("Metadata-Version", "2.4")
	add("Name", p.Name)
	add("Version", p.version)
	add("Summary", p.Description)
	add("License-Expression", p.License)
	for _, f := range p.licences {
		add("License-File", f.name)
	}
	add("Classifier", p.Classifiers...)
	add("Requires-Python", p.Python)
	add("Requires-Dist", p.Dependencies...)
	for _, extra := range slices.Sorted(maps.Keys(p.Extras)) {
		add("Provides-Extra", extra)
		for _, needed := range p.Extras[extra] {
			add("Requires-Dist", needed+"; extra == '"+extra+"'")
		}
	}
	if p.readme != nil {
		fmt.Fprintf(&text, "Description-Content-Type: text/markdown\n\n%s", p.readme)
	}
	return text.Bytes()
}

// entryPoints lists commands, and what plugs into other programs.
func (p *pyPackage) entryPoints() []byte {
	groups := map[string]map[string]string{"console_scripts": p.Scripts}
	maps.Copy(groups, p.EntryPoints)
	var text bytes.Buffer
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if len(groups[group]) == 0 {
			continue
		}
		fmt.Fprintf(&text, "[%s]\n", group)
		for _, name := range slices.Sorted(maps.Keys(groups[group])) {
			fmt.Fprintf(&text, "%s = %s\n", name, groups[group][name])
		}
	}
	return text.Bytes()
}
