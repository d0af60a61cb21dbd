package kinesin

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
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

// TestTextReadsWell keeps comments and documentation readable side by side with something else, and sentences
// with a subject.
func TestTextReadsWell(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "*.go", "*.md", "*.html").Output()
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
		if strings.HasSuffix(path, ".html") {
			if found := clauseInPage.Find(text); found != nil {
				t.Errorf("%s: %q begins with What, Who, Whose or That: begin with the thing it is about", path, found)
			}
			continue
		}
		for line, problem := range tooWide(path, text) {
			t.Errorf("%s:%d: %s", path, line, problem)
		}
		for _, line := range subjectless(path, text) {
			t.Errorf("%s:%d: a sentence begins with What, Who, Whose or That: begin with the thing it is about", path, line)
		}
	}
}

// subjectless finds the lines of comments, prose and the texts of programs on which a sentence begins with a
// clause in place of a subject, such as "What is full, waits." Headings, tables, questions and tests may.
func subjectless(path string, text []byte) (lines []int) {
	if isGenerated(text) {
		return nil
	}
	isGo, verbatim, number := strings.HasSuffix(path, ".go"), false, 0
	for line := range strings.Lines(string(text)) {
		number++
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			verbatim = !verbatim
		}
		comment, isComment := strings.CutPrefix(trimmed, "// ")
		switch {
		case isGo && !isComment:
			if !strings.HasSuffix(path, "_test.go") && clauseInText.MatchString(trimmed) && !strings.Contains(trimmed, "?") {
				lines = append(lines, number)
			}
		case !isGo && (verbatim || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "|")):
		case clauseAsSubject.MatchString(comment) && !strings.Contains(comment, "?"):
			lines = append(lines, number)
		}
	}
	return lines
}

var (
	clauseAsSubject = regexp.MustCompile("(^|[.!?] )(What|Who|Whose|That) [a-z`]")
	clauseInText    = regexp.MustCompile("[.!?] (What|Who|Whose|That) [a-z`]") // a title may begin with one
	clauseInPage    = regexp.MustCompile("(>|}}|=\"|[.!?] )(What|Who|Whose|That) [a-z`][^<{]*")
)

func tooWide(path string, text []byte) map[int]string {
	wide := map[int]string{}
	isGo, verbatim, number := strings.HasSuffix(path, ".go"), false, 0
	if isGo && isGenerated(text) {
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

func isGenerated(text []byte) bool {
	return bytes.Contains(text[:min(len(text), 500)], []byte("// Code generated"))
}

// isVerbatimComment reports whether a comment is a directive, or the output of an example.
func isVerbatimComment(path, comment string) bool {
	return !strings.HasPrefix(comment, "// ") || strings.HasSuffix(path, "_test.go") && strings.Contains(path, "example")
}

func TestSubjectlessSentencesAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"a.go\x00// Add adds. What is full waits.\n":      1,
		"a.go\x00// Add adds what is not full.\n":         0,
		"a.go\x00x := \"What is full\"\n":                 0,
		"a.go\x00x := \"Wait. What is full waits.\"\n":    1,
		"a_test.go\x00x := \"Wait. What is full waits.\"": 0,
		"a.md\x00That is so.\n":                           1,
		"a.md\x00# What it costs\n":                       0,
		"a.md\x00| What it costs |\n":                     0,
		"a.md\x00What does it cost? Little.\n":            0,
		"a.md\x00```\nWhat is this\n```\n":                0,
		"a.md\x00The queue is full. Who waits, waits\n":   1,
	} {
		path, text, _ := strings.Cut(text, "\x00")
		if got := subjectless(path, []byte(text)); len(got) != want {
			t.Errorf("%s: %q: lines %v, want %d", path, text, got, want)
		}
	}
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
