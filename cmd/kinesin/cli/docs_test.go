package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestEveryNameIsDocumented checks that the README or a page of docs has every command and every flag, as
// code.
func TestEveryNameIsDocumented(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages found: %v", len(pages), err)
	}
	var code strings.Builder
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range regexp.MustCompile("(?s)```.*?```|`[^`]+`").FindAllString(string(text), -1) {
			code.WriteString(span + "\n")
		}
	}
	names := 0
	want := func(kind, name string) {
		names++
		if !regexp.MustCompile(regexp.QuoteMeta(name) + `([^a-z-]|$)`).MatchString(code.String()) {
			t.Errorf("%s %s is in no page of docs and not in the README", kind, name)
		}
	}
	eachCommand((&app{}).root(), func(c *cobra.Command) {
		if c.HasParent() {
			want("command", strings.TrimPrefix(c.CommandPath(), "kinesin "))
		}
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				want("flag of "+c.CommandPath()+":", "--"+f.Name)
			}
		})
	})
	if names < 100 {
		t.Errorf("only %d commands and flags found", names)
	}
}

// eachCommand visits a command and those below it, but not hidden ones.
func eachCommand(c *cobra.Command, visit func(c *cobra.Command)) {
	visit(c)
	for _, below := range c.Commands() {
		if !below.Hidden {
			eachCommand(below, visit)
		}
	}
}
