package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// built are the settings of a build that decide what is linked.
var built = []string{"GOOS", "GOARCH", "CGO_ENABLED"}

// writeSBOM writes what a binary says of itself, with the licences of the module cache. The same binary has
// the same SBOM: there is no time in it, and its number comes from the binary.
func writeSBOM(root, binary, version, file string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	if !slices.Contains(programs, info.Path) {
		return fmt.Errorf("%s is %s: want one of %s", binary, info.Path, strings.Join(programs, ", "))
	}
	settings, env := map[string]string{}, []string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for _, name := range built {
		env = append(env, name+"="+settings[name])
	}
	modules, err := linkedFor(root, []string{info.Path}, env...)
	if err != nil {
		return err
	}
	by := map[string]linked{}
	for _, m := range modules {
		by[m.path] = m
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if version != "" {
		info.Main.Version = version
	}
	b := bom(info, settings, sum)
	var failed []error
	for _, d := range append([]*debug.Module{{Path: standard, Version: info.GoVersion}}, info.Deps...) {
		m, has := by[d.Path]
		if !has || m.path != standard && (m.version != d.Version || d.Replace != nil) {
			failed = append(failed, fmt.Errorf("%s %s is linked, and go.mod has %q: build the binary anew", d.Path, d.Version, m.version))
			continue
		}
		t, err := m.terms()
		if err != nil {
			failed = append(failed, err)
			continue
		}
		c, err := component(d, t.ids)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		*b.Components = append(*b.Components, c)
		needs := &(*b.Dependencies)[0]
		*needs.Dependencies = append(*needs.Dependencies, c.BOMRef)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// bom is all but the components: the program itself, and how it was built.
func bom(info *buildinfo.BuildInfo, settings map[string]string, sum [sha256.Size]byte) *cdx.BOM {
	b := cdx.NewBOM()
	id := sum // a UUID of the kind that is made of a hash
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	b.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	main := cdx.Component{
		BOMRef: path.Base(info.Path), Type: cdx.ComponentTypeApplication, Name: info.Path, Version: info.Main.Version,
		PackageURL: purl(info.Main.Path, info.Main.Version) + "#" + strings.TrimPrefix(info.Path, info.Main.Path+"/"),
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Properties: &[]cdx.Property{{Name: "go:version", Value: info.GoVersion}},
	}
	for _, name := range built {
		*main.Properties = append(*main.Properties, cdx.Property{Name: "go:" + name, Value: settings[name]})
	}
	b.Metadata = &cdx.Metadata{
		Component: &main,
		Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "github.com/kinesin-io/kinesin/tools/supply"}}},
	}
	b.Components = &[]cdx.Component{}
	b.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &[]string{}}}
	return b
}

// component is a module. Its hash is that of go.sum: a SHA-256 over the names and hashes of its files.
func component(d *debug.Module, ids []string) (cdx.Component, error) {
	version := d.Version
	if d.Path == standard {
		version = strings.TrimPrefix(version, "go")
	}
	ref := purl(d.Path, version)
	c := cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: d.Path, Version: d.Version, Scope: cdx.ScopeRequired, PackageURL: ref, Licenses: &cdx.Licenses{},
	}
	for _, id := range ids {
		*c.Licenses = append(*c.Licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	if d.Path == standard {
		return c, nil // go.sum does not have it: the toolchain brings it
	}
	encoded, is := strings.CutPrefix(d.Sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !is || len(sum) != sha256.Size {
		return c, fmt.Errorf("%s %s has the hash %q: want h1: and a SHA-256 in base64", d.Path, d.Version, d.Sum)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return c, nil
}

// purl names a module as package URLs do.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
