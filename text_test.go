package kinesin

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// Columns that text may take. A tab counts as four.
const (
	commentColumnsMax  = 110
	proseColumnsMax    = 120
	verbatimColumnsMax = 160 // commands and output in Markdown
)

// TestTextIsNarrow keeps comments and documentation readable side by side with something else.
func TestTextIsNarrow(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "*.go", "*.md").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for line, problem := range tooWide(path, text) {
			t.Errorf("%s:%d: %s", path, line, problem)
		}
	}
}

func tooWide(path string, text []byte) map[int]string {
	wide := map[int]string{}
	isGo, verbatim, number := strings.HasSuffix(path, ".go"), false, 0
	if isGo && bytes.Contains(text[:min(len(text), 500)], []byte("// Code generated")) {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		number++
		trimmed := strings.TrimSpace(line)
		columns := utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    "))
		switch {
		case isGo:
			if strings.HasPrefix(trimmed, "//") && columns > commentColumnsMax && !isVerbatimComment(path, trimmed) {
				wide[number] = "a comment is wider than 110 columns"
			}
		case strings.HasPrefix(trimmed, "```"):
			verbatim = !verbatim
		case strings.HasPrefix(trimmed, "|"):
		case verbatim && columns > verbatimColumnsMax:
			wide[number] = "verbatim text is wider than 160 columns"
		case !verbatim && columns > proseColumnsMax && strings.Contains(trimmed, " "):
			wide[number] = "prose is wider than 120 columns"
		}
	}
	return wide
}

// isVerbatimComment reports whether a comment is a directive, or the output of an example.
func isVerbatimComment(path, comment string) bool {
	return !strings.HasPrefix(comment, "// ") || strings.HasSuffix(path, "_test.go") && strings.Contains(path, "example")
}

func TestWideTextIsFound(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for text, want := range map[string]int{
		"a.go\x00// " + long + "\n":                1,
		"a.go\x00\t\t// " + long[:90] + "\n":       0,
		"a.go\x00x := 1 + 2 + 3 // " + long + "\n": 0,
		"a.md\x00" + long + "\n":                   1,
		"a.md\x00| " + long + "\n":                 0,
		"a.md\x00```\n" + long + "\n```\n":         0,
	} {
		path, content, _ := strings.Cut(text, "\x00")
		if got := len(tooWide(path, []byte(content))); got != want {
			t.Errorf("%q: %d lines are too wide, want %d", text, got, want)
		}
	}
}
