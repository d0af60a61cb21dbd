package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryNameIsDocumented checks that the README or a page of docs has every metric and every option of the
// SDK, as code. Commands and flags are on docs/reference/cli.md, which TestCommandsPage compares.
func TestEveryNameIsDocumented(t *testing.T) {
	code := documentedCode(t)
	for kind, names := range map[string][]string{"metric": metricNames(t), "option of the SDK": optionNames(t)} {
		if len(names) < 30 {
			t.Errorf("only %d names found: %s %v", len(names), kind, names)
		}
		for _, name := range names {
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(code) {
				t.Errorf("%s %s is in no page of docs and not in the README", kind, name)
			}
		}
	}
}

// TestEverySeriesIsOnItsPage checks docs/reference/metrics.md against the names in the code, as the test in server does
// against the series of a process.
func TestEverySeriesIsOnItsPage(t *testing.T) {
	page, err := os.ReadFile("reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range metricNames(t) {
		if !strings.Contains(string(page), "- `"+name+"` (") {
			t.Errorf("%s is not on docs/reference/metrics.md: its collector is not registered through Metrics.Registerer", name)
		}
	}
}

// TestLinks follows each link from a page to a file or a heading of this repository, and finds pages of docs that the
// index, docs/README.md, leaves out. Decision records are in architecture.md, by topic.
func TestLinks(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "*.md", "llms.txt").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]*)\)`)
	linked := map[string]map[string]bool{}
	for page := range strings.FieldsSeq(string(out)) {
		linked[page] = map[string]bool{}
		for _, l := range link.FindAllStringSubmatch(withoutCode(t, page), -1) {
			if strings.Contains(l[1], ":") {
				continue // another site's
			}
			file, heading, _ := strings.Cut(l[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			linked[page][target] = true
			info, err := os.Stat(filepath.Join("..", target))
			if err == nil && info.IsDir() && heading != "" {
				target += "/README.md" // which is shown for a folder
				_, err = os.Stat(filepath.Join("..", target))
			}
			if err != nil {
				t.Errorf("%s links %s, which is not there", page, l[1])
			} else if heading != "" && !slices.Contains(headings(withoutCode(t, target)), heading) {
				t.Errorf("%s links %s, which is no heading of %s", page, l[1], target)
			}
		}
	}
	if len(linked) < 50 {
		t.Errorf("only %d pages found", len(linked))
	}
	for page := range linked {
		index := "docs/README.md"
		if strings.HasPrefix(page, "docs/adr/") {
			index = "docs/internals/architecture.md"
		}
		if strings.HasPrefix(page, "docs/") && page != index && !linked[index][page] {
			t.Errorf("%s does not list %s", index, page)
		}
	}
}

// withoutCode returns a file of the repository without its code blocks, and its code spans without their backticks.
func withoutCode(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), ""), "`", "")
}

// headings returns the headings of a page as links name them.
func headings(page string) (all []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`\[(.*?)\]\(.*?\)`).ReplaceAllString(strings.ToLower(h[1]), "$1")
		text = regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(text, "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

// documentedCode returns the code spans and code blocks of the documentation.
func documentedCode(t *testing.T) string {
	t.Helper()
	pages, err := filepath.Glob("*/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages found: %v", len(pages), err)
	}
	var code []string
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, regexp.MustCompile("(?s)```.*?```|`[^`]+`").FindAllString(string(text), -1)...)
	}
	return strings.Join(code, "\n")
}

// metricNames returns the names of metrics in the code of the server: every string that looks like one.
func metricNames(t *testing.T) []string {
	t.Helper()
	isMetric := regexp.MustCompile(`^kinesin_[a-z0-9_]+$`)
	names := map[string]bool{}
	for _, dir := range []string{"server", "internal", "partition", "store", "queue", "inbound", "scheduler", "dispatcher", "hsc"} {
		eachFile(t, dir, func(file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					if name, err := strconv.Unquote(text.Value); err == nil && isMetric.MatchString(name) {
						names[name] = true
					}
				}
				return true
			})
		})
	}
	return slices.Sorted(maps.Keys(names))
}

// optionNames returns the exported functions of the SDK's packages that return an option.
func optionNames(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	eachFile(t, "sdk", func(file *ast.File) {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results.NumFields() != 1 {
				continue
			}
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && (strings.HasSuffix(result.Name, "Option") || result.Name == "Match") {
				names[f.Name.Name] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(names))
}

// eachFile parses the Go files below a folder of the repository that are no tests.
func eachFile(t *testing.T, dir string, visit func(file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
