package docs

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestPagesNameWhatIsThere finds files, folders and tests that CONTRIBUTING.md and docs/internals/reliability.md name
// and that are not there.
func TestPagesNameWhatIsThere(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	there := map[string]bool{}
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		there[path.Base(file)] = true
		for ; file != "."; file = path.Dir(file) {
			there[file] = true
		}
	}
	tests, err := exec.CommandContext(t.Context(), "git", "-C", "..", "grep", "-hoE", `^func (Test|Fuzz|Benchmark)[A-Za-z0-9_]+`, "--", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`^[\w./-]+\.(go|md|tf|sh|ya?ml|json|proto|toml|tpl)$|^\./[\w/.-]+$`)
	folder := regexp.MustCompile(`^[a-z][\w-]*(/[\w-]+)+$`)
	test := regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w+$`)
	for name, least := range map[string]int{"CONTRIBUTING.md": 50, "docs/internals/reliability.md": 100} {
		page, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(page), "")
		for _, span := range regexp.MustCompile("`[^`]+`").FindAllString(text, -1) {
			for word := range strings.FieldsSeq(strings.Trim(span, "`")) {
				bare := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(word, "./"), "/..."), "/")
				switch {
				case strings.Contains(word, "NAME"):
				case test.MatchString(word):
					found++
					if !strings.Contains(string(tests), "func "+word) {
						t.Errorf("%s names %s, which is no test", name, word)
					}
				case file.MatchString(word), folder.MatchString(strings.Trim(span, "`")):
					found++
					if !there[bare] && bare != "..." {
						t.Errorf("%s names %s, which is not there", name, word)
					}
				}
			}
		}
		if found < least {
			t.Errorf("only %d names found in %s", found, name)
		}
	}
}
