package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licences, by their SPDX ids, of what may be linked. They want their text passed on, and no
// source but that of the module itself. Another one is a decision, and comes with the change that needs it.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib"}

// spdx are names of the classifier that SPDX has another id for.
var spdx = map[string]string{"BSD-0-Clause": "0BSD", "BSD-2-Clause-FreeBSD": "BSD-2-Clause", "BSD-2-Clause-NetBSD": "BSD-2-Clause"}

// sureMin is how much of a text has to be that of a licence.
const sureMin = 0.9

var known = sync.OnceValues(assets.DefaultClassifier)

// licencesIn are the ids of the licences in a text, sorted: none if it has none that is known.
func licencesIn(text []byte) ([]string, error) {
	c, err := known()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range c.Match(text).Matches {
		if m.MatchType != "License" && m.MatchType != "Header" || m.Confidence < sureMin {
			continue
		}
		id := m.Name
		if other, has := spdx[id]; has {
			id = other
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// terms are what a module may be used under: the ids of its licences, and the texts to pass on.
type terms struct {
	ids   []string
	texts map[string][]byte // by the file's name in the module
}

// terms fails when a licence is missing, not known or not allowed.
func (m *linked) terms() (t terms, err error) {
	files, err := m.legal()
	if err != nil {
		return t, err
	}
	t.texts = map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return t, err
		}
		name, err := filepath.Rel(m.dir, file)
		if err != nil {
			return t, err
		}
		t.texts[filepath.ToSlash(name)] = text
		if !isLicence(filepath.Base(file)) {
			continue
		}
		ids, err := licencesIn(text)
		if err != nil {
			return t, err
		}
		if len(ids) == 0 {
			return t, fmt.Errorf("%s: %s is no licence that is known", m.path, name)
		}
		t.ids = append(t.ids, ids...)
	}
	slices.Sort(t.ids)
	t.ids = slices.Compact(t.ids)
	if len(t.ids) == 0 {
		return t, fmt.Errorf("%s has no licence", m.path)
	}
	for _, id := range t.ids {
		if !slices.Contains(allowed, id) {
			return t, fmt.Errorf("%s is under %s: want one of %s, or a decision and a line in tools/supply/licences.go", m.path, id, strings.Join(allowed, ", "))
		}
	}
	return t, nil
}

// platforms are those that a release is made for. They link the same, up to what is for one of them alone.
var platforms = [][]string{
	{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0"},
	{"GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0"},
	{"GOOS=darwin", "GOARCH=amd64", "CGO_ENABLED=0"},
	{"GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"},
	{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"},
}

// licences writes the list, or compares it with the one that is there.
func licences(root, file string, check bool, out io.Writer) error {
	all := map[string]linked{}
	for _, env := range platforms {
		modules, err := linkedFor(root, programs, env...)
		if err != nil {
			return err
		}
		for _, m := range modules {
			m.packages = append(m.packages, all[m.path].packages...)
			all[m.path] = m
		}
	}
	scripts, err := vendored(root)
	if err != nil {
		return err
	}
	for _, m := range scripts {
		all[m.path] = m
	}
	text, err := document(all)
	if err != nil {
		return err
	}
	if !check {
		fmt.Fprintf(out, "%s: %d modules\n", file, len(all))
		return os.WriteFile(file, text, 0o644)
	}
	switch have, err := os.ReadFile(file); {
	case err != nil:
		return err
	case !bytes.Equal(have, text):
		return fmt.Errorf("%s is not up to date: run `make licenses`, and commit what it changes", file)
	}
	fmt.Fprintf(out, "%s is up to date: %d modules\n", file, len(all))
	return nil
}

// document has a table, and then each text once, with the modules that it is of.
func document(all map[string]linked) ([]byte, error) {
	var table, texts bytes.Buffer
	var failed []error
	of := map[string][]string{} // files by text
	var order []string
	for _, path := range sorted(all) {
		m := all[path]
		t, err := m.terms()
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(&table, "%s\n", strings.TrimSpace(fmt.Sprintf("%-72s %-38s %s", titled(&m), m.version, strings.Join(t.ids, ", "))))
		for _, name := range sorted(t.texts) {
			text := plain(t.texts[name])
			if of[text] == nil {
				order = append(order, text)
			}
			of[text] = append(of[text], titled(&m)+" "+name)
		}
	}
	for _, text := range order {
		rule := strings.Repeat("=", 80)
		fmt.Fprintf(&texts, "\n%s\n%s\n%s\n\n%s\n", rule, strings.Join(of[text], "\n"), rule, text)
	}
	const head = "kinesin is under the Apache License 2.0: see LICENSE. Into its programs these modules of others are linked,\n" +
		"under these licences, whose texts and notices follow. `make licenses` writes this file.\n\n"
	return append(append([]byte(head), table.Bytes()...), texts.Bytes()...), errors.Join(failed...)
}

func titled(m *linked) string {
	if m.path == standard {
		return "the standard library of Go"
	}
	return m.path
}

// plain is a text without what only differs by editors.
func plain(text []byte) string {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
