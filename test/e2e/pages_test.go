package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// TestPages runs the commands of the pages on concepts and how-to, each page on a server of its own, and compares what they print with
// what the page shows. A page may start that server itself.
func TestPages(t *testing.T) {
	t.Parallel()
	elsewhere := []string{"backup", "settings-in-a-file"} // what runs their commands: TestBackupGuide, TestTheExampleOfApply
	path := filepath.Dir(harness.Kinesin(t))
	for _, dir := range []string{"concepts", "how-to"} {
		pages, err := filepath.Glob(filepath.Join("..", "..", "docs", dir, "*.md"))
		if err != nil || len(pages) < 8 {
			t.Fatalf("%d pages: %v", len(pages), err)
		}
		for _, page := range pages {
			name := strings.TrimSuffix(filepath.Base(page), ".md")
			if slices.Contains(elsewhere, name) {
				continue
			}
			t.Run(dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				harness.RunPage(t, harness.Page{File: page, Path: path, Dir: t.TempDir()})
			})
		}
	}
}
