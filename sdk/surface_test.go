package sdk_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/kinesin-io/kinesin"

// TestSDKShowsNoInternalType reads the declarations that users of the SDK see. A type of an internal package,
// or of the generated messages, is none that they could name.
func TestSDKShowsNoInternalType(t *testing.T) {
	for _, dir := range []string{".", "admin", "sdktest", "sqsinbound"} {
		for _, hidden := range hiddenTypes(t, dir) {
			t.Errorf("the package in %s shows %s", dir, hidden)
		}
	}
}

// hiddenTypes lists what the exported declarations of a package name of packages that users cannot import or
// should not know.
func hiddenTypes(t *testing.T, dir string) []string {
	t.Helper()
	set, files, hidden := parsed(t, dir)
	p, err := doc.NewFromFiles(set, files, path.Join(module, "sdk", dir))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	look := func(what string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is {
				if x, named := s.X.(*ast.Ident); named && hidden[x.Name] {
					found = append(found, x.Name+"."+s.Sel.Name+" in "+what)
				}
			}
			return true
		})
	}
	functions := p.Funcs
	for _, typ := range p.Types {
		look(typ.Name, typ.Decl)
		functions = append(append(functions, typ.Funcs...), typ.Methods...)
	}
	for _, f := range functions {
		look(f.Name, f.Decl.Type)
	}
	return found
}

// parsed parses a package without its tests. hidden has the names by which it imports what users should not
// see.
func parsed(t *testing.T, dir string) (set *token.FileSet, files []*ast.File, hidden map[string]bool) {
	t.Helper()
	set, hidden = token.NewFileSet(), map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if strings.Contains(imported, "/internal/") || strings.HasPrefix(imported, module+"/api/") {
				hidden[imported[strings.LastIndex(imported, "/")+1:]] = true
			}
		}
	}
	return set, files, hidden
}
