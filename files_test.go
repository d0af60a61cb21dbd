package kinesin

import (
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oneWay are the packages whose files refer to each other one way, as packages do: each can be read after
// those that it builds on, and none has to be read twice.
var oneWay = []string{
	"dispatcher",
	"hsc",
	"inbound",
	"inbound/ingest",
	"inbound/intake",
	"inbound/jobs",
	"inbound/periodic",
	"internal/catalog",
	"internal/catalog/lambdas",
	"internal/chains",
	"internal/controller",
	"internal/groups",
	"internal/node",
	"internal/sqsclient",
	"partition/fleet",
	"queue/mem",
	"queue/sqs",
	"scheduler",
	"store",
	"store/dynamo",
	"web",
}

func TestFilesReferOneWay(t *testing.T) {
	t.Parallel()
	for _, dir := range oneWay {
		refers := fileReferences(t, dir)
		if len(refers) < 5 {
			t.Errorf("%s: only %d files that refer to others", dir, len(refers))
		}
		if circle := circleOf(refers); circle != nil {
			t.Errorf("files of %s refer to each other in a circle: %s; move what they share to a file below both", dir, strings.Join(circle, " → "))
		}
	}
}

// fileName finds the names of files in docs/files.md.
var fileName = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)

// TestFilesPageIsTrue compares docs/files.md with the packages: it names each of their files once, and none
// below one that it builds on.
func TestFilesPageIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range oneWay {
		_, section, found := strings.Cut(string(page), "\n## "+dir+"\n")
		if !found {
			t.Errorf("docs/files.md: no section %s", dir)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		lines := map[string]int{}
		for n, line := range strings.Split(section, "\n") {
			for _, name := range fileName.FindAllString(line, -1) {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil || lines[name] > 0 {
					t.Errorf("docs/files.md: %s has no %s, or it is there twice", dir, name)
				}
				lines[name] = n + 1
			}
		}
		all, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range all {
			name := filepath.Base(path)
			if lines[name] == 0 && name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("docs/files.md does not name %s", path)
			}
		}
		for from, refers := range fileReferences(t, dir) {
			for _, to := range refers {
				if lines[to] > lines[from] {
					t.Errorf("docs/files.md: %s/%s is below %s, which it refers to", dir, from, to)
				}
			}
		}
	}
}

// fileReferences returns to which other files of its package each file refers. Other packages are not loaded:
// what is declared here resolves without them.
func fileReferences(t *testing.T, dir string) map[string][]string {
	t.Helper()
	fset, files, _ := parsed(t, dir)
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Error: func(error) {}} // of imports
	pkg, _ := conf.Check(dir, fset, files, info)
	refers := map[string][]string{}
	for id, o := range info.Uses {
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if o.Pkg() == pkg && o.Pos().IsValid() && from != to && !slices.Contains(refers[from], to) {
			refers[from] = append(refers[from], to)
		}
	}
	return refers
}

// circleOf returns a circle, its first element again at its end; nil if there is none.
func circleOf(refers map[string][]string) []string {
	done := map[string]bool{}
	var path []string
	var visit func(string) []string
	visit = func(f string) []string {
		if i := slices.Index(path, f); i >= 0 {
			return append(slices.Clone(path[i:]), f)
		}
		if done[f] {
			return nil
		}
		path = append(path, f)
		for _, to := range refers[f] {
			if circle := visit(to); circle != nil {
				return circle
			}
		}
		path = path[:len(path)-1]
		done[f] = true
		return nil
	}
	for f := range refers {
		if circle := visit(f); circle != nil {
			return circle
		}
	}
	return nil
}

func TestACircleOfFilesIsFound(t *testing.T) {
	t.Parallel()
	if c := circleOf(map[string][]string{"a": {"b", "c"}, "b": {"c"}}); c != nil {
		t.Errorf("found %v where there is none", c)
	}
	if c := circleOf(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}}); len(c) != 3 || c[0] != c[2] {
		t.Errorf("found %v, want the circle of b and c", c)
	}
	if refers := fileReferences(t, "scheduler"); !slices.Contains(refers["run.go"], "loop.go") || !slices.Contains(refers["loop.go"], "buffer.go") {
		t.Errorf("run.go refers to %v, loop.go to %v", refers["run.go"], refers["loop.go"])
	}
}
