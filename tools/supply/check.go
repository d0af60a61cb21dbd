package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// checked fails when an SBOM is not what the schema wants, or not that of the binary: it reads the file, and
// asks `go version -m`, so that what the writer believes is worth nothing here.
func checked(file, binary string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	told, err := exec.Command("go", "version", "-m", binary).Output()
	if err != nil {
		return fmt.Errorf("go version -m %s: %w", binary, err)
	}
	n, err := compare(text, told, sha256.Sum256(program))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	fmt.Fprintf(out, "%s: %d modules, as go version -m %s has them\n", file, n, binary)
	return nil
}

var (
	serial = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	sha    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func compare(text, told []byte, sum [sha256.Size]byte) (modules int, err error) {
	var b cdx.BOM
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return 0, err
	}
	var wrong []error
	want := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	want(b.BOMFormat == cdx.BOMFormat && b.SpecVersion == cdx.SpecVersion1_6 && b.JSONSchema == "http://cyclonedx.org/schema/bom-1.6.schema.json",
		"it is %s %s by %s: want CycloneDX 1.6 by its schema", b.BOMFormat, b.SpecVersion, b.JSONSchema)
	want(serial.MatchString(b.SerialNumber) && b.Version == 1, "serial number %q, version %d", b.SerialNumber, b.Version)
	if b.Metadata == nil || b.Metadata.Component == nil || b.Components == nil || b.Dependencies == nil || len(*b.Dependencies) != 1 {
		return 0, errors.Join(append(wrong, errors.New("want metadata.component, components, and dependencies of one"))...)
	}
	main := b.Metadata.Component
	want(main.Type == cdx.ComponentTypeApplication && main.Hashes != nil && (*main.Hashes)[0].Value == hex.EncodeToString(sum[:]), "it is of another binary")

	refs := map[string]bool{main.BOMRef: true}
	have := []string{}
	for i := range *b.Components {
		c := &(*b.Components)[i]
		want(c.Type == cdx.ComponentTypeLibrary && c.Name != "" && c.Version != "" && strings.HasPrefix(c.PackageURL, "pkg:golang/"+c.Name+"@"), "component %q is incomplete", c.Name)
		want(!refs[c.BOMRef] && c.BOMRef != "", "bom-ref %q is there twice", c.BOMRef)
		refs[c.BOMRef] = true
		want(c.Licenses != nil && len(*c.Licenses) > 0, "component %s has no licence", c.Name)
		for _, l := range value(c.Licenses) {
			want(l.License != nil && slices.Contains(allowed, l.License.ID), "component %s has a licence that is not allowed", c.Name)
		}
		if c.Name != standard {
			want(len(value(c.Hashes)) == 1 && sha.MatchString((*c.Hashes)[0].Value), "component %s has no hash", c.Name)
		}
		have = append(have, c.Name+" "+c.Version)
	}
	needs := (*b.Dependencies)[0]
	want(needs.Ref == main.BOMRef && len(value(needs.Dependencies)) == len(*b.Components), "the dependencies are not those of the program")
	for _, ref := range value(needs.Dependencies) {
		want(refs[ref], "dependency %q is no component", ref)
	}
	linked := toldModules(string(told))
	slices.Sort(have)
	for _, m := range linked {
		want(slices.Contains(have, m), "%s is linked, and not listed", m)
	}
	for _, m := range have {
		want(slices.Contains(linked, m), "%s is listed, and not linked", m)
	}
	return len(have), errors.Join(wrong...)
}

// toldModules reads what `go version -m` prints.
func toldModules(text string) (modules []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && strings.HasPrefix(fields[1], "go") && !strings.HasPrefix(line, "\t"):
			modules = append(modules, standard+" "+fields[1])
		case len(fields) >= 3 && (fields[0] == "dep" || fields[0] == "=>"):
			modules = append(modules, fields[1]+" "+fields[2])
		}
	}
	slices.Sort(modules)
	return modules
}

// value is what a field has that may be missing.
func value[S ~[]E, E any](s *S) S {
	if s == nil {
		return nil
	}
	return *s
}
