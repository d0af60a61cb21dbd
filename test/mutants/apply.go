package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// change replaces lines of a declaration.
type change struct {
	in        string // the declaration, such as claim, Service.claim or leaseMax
	old, anew []string
}

// declaration is where a file declares something.
type declaration struct {
	file     string // below the root
	from, to int    // its lines, from 0
}

// edit is what becomes of the lines of a file.
type edit struct {
	declaration
	with []string
}

// Apply returns the changed files of a mutant, by their paths below root.
func (m *Mutant) Apply(root string) (changed map[string]string, err error) {
	var edits []edit
	files := map[string][]string{}
	for i := range m.changes {
		e, err := m.changes[i].edit(root, m.Package, files)
		if err != nil {
			return nil, fmt.Errorf("%s does not apply: %w", m.Name, err)
		}
		edits = append(edits, e)
	}
	// From the last line to the first, so that no edit moves the lines of another.
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	changed = map[string]string{}
	for _, e := range edits {
		files[e.file] = slices.Concat(files[e.file][:e.from], e.with, files[e.file][e.to:])
		changed[e.file] = strings.Join(files[e.file], "\n")
	}
	return changed, nil
}

// Check returns an error if the mutant does not apply below root, if what it makes of a file is no Go, or if a
// package that it tests is not there.
func (m *Mutant) Check(root string) error {
	for _, folder := range m.Test.Packages {
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	changed, err := m.Apply(root)
	for file, text := range changed {
		if _, bad := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: what it makes does not parse: %w", m.Name, bad))
		}
	}
	return err
}

// edit finds the one place of a change in the package. It puts the lines of the files that it reads into files.
func (c *change) edit(root, pkg string, files map[string][]string) (edit, error) {
	places, err := declarations(root, pkg, c.in, files)
	if err != nil {
		return edit{}, err
	}
	var found []edit
	for _, d := range places {
		lines := files[d.file]
		for at := d.from; at+len(c.old) <= d.to; at++ {
			if indent, is := c.matches(lines[at : at+len(c.old)]); is {
				found = append(found, edit{declaration{d.file, at, at + len(c.old)}, indented(indent, c.anew)})
			}
		}
	}
	switch {
	case len(places) == 0:
		return edit{}, fmt.Errorf("%s declares no %s", pkg, c.in)
	case len(found) == 0:
		return edit{}, fmt.Errorf("%s of %s has no such lines any more:\n%s", c.in, pkg, strings.Join(c.old, "\n"))
	case len(found) > 1:
		return edit{}, fmt.Errorf("%s of %s has these lines %d times, so the change needs a line beside them:\n%s", c.in, pkg, len(found), strings.Join(c.old, "\n"))
	}
	return found[0], nil
}

// matches reports whether lines are the old ones of the change, all of them as much deeper by tabs.
func (c *change) matches(lines []string) (indent string, is bool) {
	indent = strings.Repeat("\t", max(0, depth(lines[0])-depth(c.old[0])))
	return indent, slices.Equal(indented(indent, c.old), lines)
}

func depth(line string) int { return len(line) - len(strings.TrimLeft(line, "\t")) }

func indented(indent string, lines []string) []string {
	deeper := slices.Clone(lines)
	for i, line := range deeper {
		if line != "" {
			deeper[i] = indent + line
		}
	}
	return deeper
}

// declarations finds what a package declares by a name in the files that are built here. Files of other systems
// may declare it as well.
func declarations(root, pkg, name string, files map[string][]string) ([]declaration, error) {
	paths, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	var found []declaration
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		built, err := build.Default.MatchFile(filepath.Split(p))
		if err != nil {
			return nil, err
		}
		if !built || strings.HasSuffix(p, "_test.go") || !strings.Contains(string(text), name[strings.LastIndex(name, ".")+1:]) {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, p, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		file := path.Join(pkg, filepath.Base(p))
		for _, decl := range parsed.Decls {
			if slices.Contains(names(decl), name) {
				files[file] = strings.Split(string(text), "\n")
				found = append(found, declaration{file, set.Position(decl.Pos()).Line - 1, set.Position(decl.End()).Line})
			}
		}
	}
	return found, nil
}

// names returns what a declaration declares; a method as T.M, whether its receiver is a pointer or not.
func names(decl ast.Decl) (all []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		of := ""
		ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
			if id, is := n.(*ast.Ident); is && of == "" {
				of = id.Name
			}
			return of == ""
		})
		return []string{of + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				all = append(all, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					all = append(all, id.Name)
				}
			}
		}
	}
	return all
}

// writeOverlay puts the changed files into dir, and returns the path of the overlay file by which the go
// command reads them instead.
func writeOverlay(root, dir string, changed map[string]string) (string, error) {
	replace := map[string]string{}
	for path, text := range changed {
		with := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		replace[filepath.Join(root, path)] = with
		if err := os.WriteFile(with, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
