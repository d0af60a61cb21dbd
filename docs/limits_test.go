package docs

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLimitsAreThoseOfTheCode compares values of docs/reference/limits.md and of docs/internals/states.md with the
// constants that their lines name.
func TestLimitsAreThoseOfTheCode(t *testing.T) {
	page, err := os.ReadFile("reference/limits.md")
	states, err2 := os.ReadFile("internals/states.md")
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	constants, compared := map[string]*types.Scope{}, 0
	for _, row := range regexp.MustCompile("(?m)^- (.*): ([^`]*), (`.*`)$").FindAllStringSubmatch(string(page)+string(states), -1) {
		values := regexp.MustCompile(`; | to `).Split(row[2], -1)
		names := strings.Fields(strings.ReplaceAll(row[3], "`", ""))
		for i, name := range names {
			compared++
			dir := strings.TrimSuffix(name, path.Ext(name))
			if constants[dir] == nil {
				constants[dir] = constantsOf(dir)
			}
			c, ok := constants[dir].Lookup(strings.TrimPrefix(path.Ext(name), ".")).(*types.Const)
			if len(values) != len(names) || !ok || !constant.Compare(written(values[i]), token.EQL, constant.ToFloat(c.Val())) {
				t.Errorf("%s: the page has %s, and the code %v", row[1], row[2], c)
			}
		}
	}
	if compared < 75 {
		t.Errorf("only %d limits were compared", compared)
	}
}

// written returns what "1,000", "32 KiB" or "5 min" stands for; of a duration in nanoseconds.
func written(value string) constant.Value {
	number, unit, _ := strings.Cut(strings.ReplaceAll(value, ",", ""), " ")
	of := map[string]int64{"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "days": 86400e9, "years": 365 * 86400e9}
	return constant.ToFloat(constant.BinaryOp(constant.MakeFromLiteral(number, token.FLOAT, 0), token.MUL, constant.MakeInt64(of[unit])))
}

// constantsOf reads the constants of a folder's package, which may name others of it and those of package time.
func constantsOf(dir string) *types.Scope {
	set := token.NewFileSet()
	files, _ := filepath.Glob(filepath.Join("..", dir, "*.go"))
	var parsed []*ast.File
	for _, name := range files {
		if file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution); err == nil && !strings.HasSuffix(name, "_test.go") {
			parsed = append(parsed, file)
		}
	}
	config := types.Config{Importer: onlyTime{}, IgnoreFuncBodies: true, Error: func(error) {}} // of names of other packages
	pkg, _ := config.Check(dir, set, parsed, nil)
	return pkg.Scope()
}

// onlyTime imports the units of package time, and no other package.
type onlyTime struct{}

func (onlyTime) Import(dir string) (*types.Package, error) {
	if dir != "time" {
		return nil, errors.New("not needed for constants")
	}
	pkg := types.NewPackage(dir, dir)
	for name, n := range map[string]int64{"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9} {
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, name, types.Typ[types.Int64], constant.MakeInt64(n)))
	}
	pkg.MarkComplete()
	return pkg, nil
}
