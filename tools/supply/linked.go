package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are the packages whose binaries are shipped.
var programs = []string{"github.com/kinesin-io/kinesin/cmd/kinesin", "github.com/kinesin-io/kinesin/cmd/kinesin-bench"}

// standard is the name under which the standard library goes.
const standard = "std"

// linked is a module of which at least one package is linked.
type linked struct {
	path, version string
	dir           string
	packages      []string // folders of the packages that are linked
}

// linkedFor asks the go command what a build of these packages would link, with some of its variables (GOOS=…). The first is
// the standard library, without a version: it is that of whatever Go builds.
func linkedFor(root string, packages []string, env ...string) ([]linked, error) {
	list := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return "", fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
		}
		return strings.TrimSpace(string(out)), err
	}
	goroot, err := list("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	out, err := list(append([]string{"list", "-deps", "-f", `{{with .Module}}{{if not .Main}}{{.Path}}|{{.Version}}|{{.Dir}}|{{$.Dir}}{{end}}{{end}}`}, packages...)...)
	if err != nil {
		return nil, err
	}
	modules := map[string]*linked{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 4 {
			continue // of the standard library, or of kinesin itself
		}
		m := modules[fields[0]]
		if m == nil {
			m = &linked{path: fields[0], version: fields[1], dir: fields[2]}
			modules[m.path] = m
		}
		m.packages = append(m.packages, fields[3])
	}
	all := []linked{{path: standard, dir: goroot, packages: []string{goroot}}}
	for _, m := range modules {
		all = append(all, *m)
	}
	slices.SortFunc(all[1:], func(a, b linked) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// embedded is the folder of what others wrote and a package of this module embeds: each in a folder
// NAME@VERSION, with its licence.
const embedded = "web/static/vendor"

// vendored are the packages of npm that are embedded in the program.
func vendored(root string) (all []linked, err error) {
	entries, err := os.ReadDir(filepath.Join(root, embedded))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, version, is := strings.Cut(e.Name(), "@")
		if !is || !e.IsDir() {
			return nil, fmt.Errorf("%s/%s: want a folder NAME@VERSION", embedded, e.Name())
		}
		dir := filepath.Join(root, embedded, e.Name())
		all = append(all, linked{path: "npm: " + name, version: version, dir: dir, packages: []string{dir}})
	}
	return all, nil
}

// legal are the files of a module that say under what terms it may be used, from the folders of the packages
// that are linked up to its own.
func (m *linked) legal() (files []string, err error) {
	folders := map[string]bool{}
	for _, folder := range m.packages {
		for !folders[folder] {
			folders[folder] = true
			if folder == m.dir {
				break
			}
			folder = filepath.Dir(folder)
		}
	}
	for folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && (isLicence(e.Name()) || isNotice(e.Name())) {
				files = append(files, filepath.Join(folder, e.Name()))
			}
		}
	}
	slices.Sort(files)
	return files, nil
}

func isLicence(name string) bool { return begins(name, "license", "licence", "copying", "unlicense") }

// isNotice is for what has to be passed on besides, and is no licence.
func isNotice(name string) bool { return begins(name, "notice", "patents") }

func begins(name string, words ...string) bool {
	name = strings.ToLower(name)
	return filepath.Ext(name) != ".go" && slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(name, word) })
}
