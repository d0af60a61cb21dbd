package docs

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	threatRow  = regexp.MustCompile(`(?m)^\| \*\*(.+?)\*\* \|(.*)\|$`)
	threatTest = regexp.MustCompile("`(Test\\w+)`(?: \\(`([\\w/]+)`\\))?")
)

// TestThreatModelIsTested looks for the tests that docs/internals/threat-model.md names: each asset has one, or says
// why not, and each is in the folder that the page says behind it, or behind the next ones of the same folder.
func TestThreatModelIsTested(t *testing.T) {
	page, err := os.ReadFile("internals/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := threatRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 15 {
		t.Fatalf("%d assets found", len(rows))
	}
	for _, row := range rows {
		asset, cells := row[1], strings.Split(row[2], " | ")
		if len(cells) != 3 {
			t.Errorf("%s: %d cells behind the asset, want 3", asset, len(cells))
			continue
		}
		named := threatTest.FindAllStringSubmatch(cells[2], -1)
		if len(named) == 0 && !strings.HasPrefix(strings.TrimSpace(cells[2]), "no test: ") {
			t.Errorf("%s: no test, and not why: write `TestX` (`folder`), or no test: …", asset)
		}
		folder := ""
		for _, n := range slices.Backward(named) {
			folder = cmp.Or(n[2], folder)
			if !hasTest(t, folder, n[1]) {
				t.Errorf("%s: there is no %s in the folder %q", asset, n[1], folder)
			}
		}
	}
	if hasTest(t, ".", "TestThatNobodyWrote") || !hasTest(t, "task", "TestMessageSeals") {
		t.Error("tests are not found, or all are")
	}
}

// hasTest reports whether a folder has a test of that name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
