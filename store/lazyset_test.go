package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyTheTableSaysWhatIsLazy looks for anybody who sets Op.Lazy by himself: the constructors in
// store/change.go do it, by the table in store/lazy.go, and the suites of the drivers, whose tasks are
// nobody's.
func TestOnlyTheTableSaysWhatIsLazy(t *testing.T) {
	change := filepath.Join("..", "store", "change.go")
	set := map[string]int{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "..":
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join("..", "store", "storetest")):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			set[path] = lazySet(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, n := range set {
		if n > 0 && path != change {
			t.Errorf("%s sets Op.Lazy %d times: let store make the write, by its table in lazy.go", path, n)
		}
	}
	if set[change] == 0 {
		t.Error("store/change.go sets Op.Lazy nowhere: this test looks for the wrong thing")
	}
}

// lazySet counts where a file gives a field Lazy a value.
func lazySet(file *ast.File) int {
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		switch v := node.(type) {
		case *ast.KeyValueExpr:
			if key, ok := v.Key.(*ast.Ident); ok && key.Name == "Lazy" {
				n++
			}
		case *ast.AssignStmt:
			for _, to := range v.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "Lazy" {
					n++
				}
			}
		}
		return true
	})
	return n
}
