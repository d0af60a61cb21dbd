package kinesin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// node is one package as `go list` sees it.
type node struct {
	ImportPath   string
	Doc          string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (n *node) own() bool {
	return n.ImportPath == module || strings.HasPrefix(n.ImportPath, module+"/")
}

// graph holds every package reached from this module's own, by import path.
type graph map[string]*node

// load asks the go command. The working directory is the module's root, as that of its tests is.
func load(ctx context.Context) (graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Doc,Standard,Imports,TestImports,XTestImports", "./...")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%w: %s", err, exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		n := new(node)
		if err := dec.Decode(n); errors.Is(err, io.EOF) {
			return g, nil
		} else if err != nil {
			return nil, err
		}
		g[n.ImportPath] = n
	}
}

// closure is everything that the package imports, directly or through others.
func (g graph) closure(path string) []string {
	seen := map[string]bool{}
	for next := []string{path}; len(next) > 0; {
		n := g[next[0]]
		next = next[1:]
		if n == nil {
			continue
		}
		for _, p := range n.Imports {
			if !seen[p] {
				seen[p] = true
				next = append(next, p)
			}
		}
	}
	all := make([]string, 0, len(seen))
	for p := range seen {
		all = append(all, p)
	}
	return all
}

// rules judge a graph.
type rules struct {
	table    []row
	planned  []string
	reserved map[string][]string
}

// violations is one sentence for each breach, in order.
func (r rules) violations(g graph) []string {
	var out []string
	used := map[string]bool{}
	for _, n := range g {
		if !n.own() {
			continue
		}
		out = append(out, r.checkReserved(n)...)
		row, found := r.find(short(n.ImportPath))
		if !found {
			out = append(out, short(n.ImportPath)+" is in no row of the table: say what it may import")
			continue
		}
		used[row.name] = true
		if n.Doc == "" && !row.generated {
			out = append(out, short(n.ImportPath)+" has no package comment")
		}
		out = append(out, row.check(g, n)...)
	}
	out = append(out, r.checkRows(used)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// find prefers the row that names the package itself.
func (r rules) find(name string) (row, bool) {
	i := slices.IndexFunc(r.table, func(w row) bool { return w.name == name })
	if i < 0 {
		i = slices.IndexFunc(r.table, func(w row) bool { return matches(w.name, name) })
	}
	if i < 0 {
		return row{}, false
	}
	return r.table[i], true
}

// checkRows refuses rows and plans that have outlived what they speak of.
func (r rules) checkRows(used map[string]bool) []string {
	var out []string
	for _, w := range r.table {
		if !used[w.name] && !slices.Contains(r.planned, w.name) {
			out = append(out, w.name+" is in the table but does not exist")
		}
	}
	for _, name := range r.planned {
		if used[name] {
			out = append(out, name+" exists: take it off the list of planned packages")
		}
	}
	return out
}

func (r rules) checkReserved(n *node) []string {
	var out []string
	for path, holders := range r.reserved {
		for _, p := range slices.Concat(n.Imports, n.TestImports, n.XTestImports) {
			if matches(path, p) && !slices.Contains(holders, short(n.ImportPath)) {
				out = append(out, fmt.Sprintf("%s imports %s, which is reserved for %v", short(n.ImportPath), p, holders))
			}
		}
	}
	return out
}

func (w row) check(g graph, n *node) []string {
	name := short(n.ImportPath)
	out := w.checkDirect(g, name, "", n.Imports, w.may)
	inTests := slices.Concat(w.may, w.tests, testKit, []string{name})
	out = append(out, w.checkDirect(g, name, "the tests of ", slices.Concat(n.TestImports, n.XTestImports), inTests)...)
	feature := featureOf(name)
	for _, p := range g.closure(n.ImportPath) {
		other := featureOf(short(p))
		switch {
		case matchesAny(w.never, short(p)):
			out = append(out, fmt.Sprintf("%s reaches %s, which it never may", name, short(p)))
		case feature != "" && other != "" && feature != other:
			out = append(out, fmt.Sprintf("%s reaches %s: no feature may need another", name, short(p)))
		case other != "" && matchesAny(kernel, name):
			out = append(out, fmt.Sprintf("%s reaches %s: the kernel needs no feature", name, short(p)))
		}
	}
	return out
}

// kernel is what a reader needs to know how a task is taken in, started and run. Features stand around it.
var kernel = []string{
	"task", "store", "store/*", "queue", "queue/*", "partition", "partition/*", "inbound", "inbound/*", "scheduler", "dispatcher", "hsc",
	"internal/catalog", "internal/catalog/*", "internal/control", "internal/controller", "internal/hold", "internal/lease", "internal/limit",
}

// featureOf returns the feature that a package belongs to; "" if it belongs to none.
func featureOf(name string) string {
	path, found := strings.CutPrefix(name, "internal/feature/")
	if !found {
		return ""
	}
	feature, _, _ := strings.Cut(path, "/")
	return feature
}

func (w row) checkDirect(g graph, name, who string, imports, may []string) []string {
	var out []string
	for _, p := range imports {
		own := short(p) != p
		switch {
		case own && !matchesAny(may, short(p)):
			out = append(out, fmt.Sprintf("%s%s may not import %s: it may import %v", who, name, short(p), may))
		case w.stdOnly && who == "" && !own && !standard(g, p):
			out = append(out, fmt.Sprintf("%s imports %s: it may import only the standard library", name, p))
		}
	}
	return out
}

func standard(g graph, path string) bool { return g[path] != nil && g[path].Standard }

// short cuts the module's path off its own packages.
func short(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// matches reports whether the pattern names the package: itself, "x/*" for all below x,
// "*" for all of this module, or the path of another module for all of its packages.
func matches(pattern, name string) bool {
	if dir, all := strings.CutSuffix(pattern, "*"); all {
		return strings.HasPrefix(name, dir)
	}
	if first, _, _ := strings.Cut(pattern, "/"); strings.Contains(first, ".") && first != "." {
		return name == pattern || strings.HasPrefix(name, pattern+"/")
	}
	return name == pattern
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// TestRulesCanFail judges made-up repositories, so that an empty answer of the
// test above means something.
func TestRulesCanFail(t *testing.T) {
	r := rules{
		table: []row{
			{name: "core", stdOnly: true},
			{name: "role", may: []string{"core"}},
			{name: "kit", may: []string{"core", "glue"}, never: []string{"driver", "cloud.example/sdk"}},
			{name: "glue", may: []string{"driver"}},
			{name: "driver", may: []string{"core"}},
			{name: "demo/*", may: []string{"kit"}},
			{name: "later"},
			{name: "internal/feature/one", may: []string{"core", "internal/feature/*"}},
			{name: "internal/feature/*"},
			{name: "scheduler", may: []string{"internal/feature/*"}},
		},
		planned:  []string{"later", "demo/*", "kit", "glue", "internal/feature/one", "internal/feature/*", "scheduler"},
		reserved: map[string][]string{"cloud.example/sdk": {"driver"}},
	}
	sound := func() graph { return graphOf("core: fmt", "role: core", "driver: core cloud.example/sdk/put") }

	for _, c := range []struct {
		name string
		add  []string
		want string
	}{
		{name: "sound"},
		{"import outside the row", []string{"role: driver"}, "role may not import driver: it may import [core]"},
		{"test import outside the row", []string{"role: core | kit"}, "the tests of role may not import kit"},
		{"test import of a driver", []string{"role: core | store/mem role"}, ""},
		{"unlisted package", []string{"stray: core"}, "stray is in no row of the table"},
		{"package below a pattern", []string{"demo/one: role"}, "demo/one may not import role"},
		{"third party in the domain", []string{"core: other.example/x"}, "core imports other.example/x: it may import only the standard library"},
		{"reserved module", []string{"role: cloud.example/sdk"}, "role imports cloud.example/sdk, which is reserved for [driver]"},
		{"reserved module in a test", []string{"role: core | cloud.example/sdk"}, "role imports cloud.example/sdk, which is reserved for [driver]"},
		{"own package through another", []string{"kit: glue", "glue: driver"}, "kit reaches driver, which it never may"},
		{"other module through another", []string{"kit: glue", "glue: driver"}, "kit reaches cloud.example/sdk/put, which it never may"},
		{"part of a feature", []string{"internal/feature/one: internal/feature/one/part", "internal/feature/one/part: fmt"}, ""},
		{"feature of a feature", []string{"internal/feature/one: internal/feature/two", "internal/feature/two: fmt"}, "internal/feature/one reaches internal/feature/two: no feature may need another"},
		{"feature in the kernel", []string{"scheduler: internal/feature/two", "internal/feature/two: fmt"}, "scheduler reaches internal/feature/two: the kernel needs no feature"},
		{"planned and there", []string{"later: fmt"}, "later exists: take it off the list of planned packages"},
		{"gone", []string{"-role"}, "role is in the table but does not exist"},
		{"no package comment", []string{"#role: core"}, "role has no package comment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := sound()
			maps.Copy(g, graphOf(c.add...))
			if name, gone := strings.CutPrefix(strings.Join(c.add, ""), "-"); gone {
				delete(g, module+"/"+name)
			}
			got := r.violations(g)
			if c.want == "" && !only(got, "exists: take it off") {
				t.Errorf("violations = %q, want none", got)
			}
			if !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, c.want) }) && c.want != "" {
				t.Errorf("violations = %q, want one that starts with %q", got, c.want)
			}
		})
	}
}

func only(got []string, text string) bool {
	return !slices.ContainsFunc(got, func(v string) bool { return !strings.Contains(v, text) })
}

// graphOf builds a graph from lines "package: imports | test imports". A leading "#" leaves the
// package comment out; words with a dot are other modules' packages, fmt is the standard library.
func graphOf(lines ...string) graph {
	g := graph{"fmt": {ImportPath: "fmt", Standard: true}}
	for _, line := range lines {
		name, rest, found := strings.Cut(line, ": ")
		if !found {
			continue
		}
		code, tests, _ := strings.Cut(rest, "|")
		name, bare := strings.CutPrefix(name, "#")
		n := &node{ImportPath: module + "/" + name, Doc: "Package p.", Imports: paths(code), TestImports: paths(tests)}
		if bare {
			n.Doc = ""
		}
		g[n.ImportPath] = n
	}
	return g
}

func paths(words string) []string {
	all := strings.Fields(words)
	for i, w := range all {
		if w != "fmt" && !strings.Contains(w, ".") {
			all[i] = module + "/" + w
		}
	}
	return all
}
