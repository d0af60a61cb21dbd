package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

func load(t *testing.T) []Mutant {
	t.Helper()
	all, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEveryPatchApplies notices code that moved on under a patch: then the patch is made anew, or goes with
// what it broke.
func TestEveryPatchApplies(t *testing.T) {
	for _, m := range load(t) {
		if _, err := m.Apply(root); err != nil {
			t.Error(err)
		}
	}
}

// TestEveryTestIsThere finds a patch whose test was renamed before hundreds of others have run.
func TestEveryTestIsThere(t *testing.T) {
	names := regexp.MustCompile(`(Test|Fuzz|Example)\w+`)
	for _, m := range load(t) {
		top, _, _ := strings.Cut(m.Test.Run, "/")
		for _, name := range names.FindAllString(top, -1) {
			if !slices.ContainsFunc(m.Test.Packages, func(dir string) bool { return declares(t, filepath.Join(root, dir), "func "+name) }) {
				t.Errorf("%s: there is no %s in %v", m.Name, name, m.Test.Packages)
			}
		}
	}
}

// declares reports whether a test file of the package has the text.
func declares(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(content), text)
	})
}

func TestTheCanariesAreThere(t *testing.T) {
	found := map[string]bool{}
	for _, m := range load(t) {
		found[m.Canary] = true
	}
	for n := 1; n <= 15; n++ {
		canary := fmt.Sprintf("B%d", n)
		if !found[canary] {
			t.Errorf("canary %s: there is no mutant", canary)
		}
	}
}

// TestTheMutantsAreSpread checks that no class of bugs and no package with durable rules is left out.
func TestTheMutantsAreSpread(t *testing.T) {
	all := load(t)
	classes, packages := map[string]int{}, map[string]int{}
	for i := range all {
		classes[all[i].Class]++
		hunks, err := all[i].hunks()
		if err != nil {
			t.Error(err)
		}
		for _, h := range hunks {
			packages[filepath.Dir(h.path)]++
		}
	}
	for _, class := range Classes {
		if classes[class] < 5 {
			t.Errorf("%d mutants of class %q", classes[class], class)
		}
	}
	for _, dir := range []string{
		"task", "store", "store/pebble", "store/dynamo", "queue", "queue/mem", "queue/sqs", "inbound", "scheduler", "dispatcher", "hsc", "internal/lease",
		"internal/controller", "partition", "partition/fleet", "internal/catalog", "internal/node",
	} {
		if packages[dir] == 0 {
			t.Errorf("no mutant breaks %s", dir)
		}
	}
	if len(all) < 150 {
		t.Errorf("%d mutants, want 150 at least", len(all))
	}
}

const patch = `Breaks: a sum is off by one
Class: time off
Test: -run ^TestAdd$ .

--- a/add.go
+++ b/add.go
@@ -1,3 +1,3 @@
 package add
 
-func Add(a, b int) int { return a + b }
+func Add(a, b int) int { return %s }
`

func TestHeaders(t *testing.T) {
	good := fmt.Sprintf(patch, "a")
	if m, err := parse("one", []byte(good)); err != nil || m.Test.String() != "go test -run '^TestAdd$' ." || m.Class != "time off" {
		t.Errorf("%+v, %v", m, err)
	}
	for want, text := range map[string]string{
		"no diff":            "Breaks: x\nClass: time off\nTest: -run X .\n",
		"no Breaks":          strings.Replace(good, "Breaks: a sum is off by one\n", "", 1),
		"want one":           strings.Replace(good, "time off", "bad luck", 1),
		"no Test":            strings.Replace(good, "Test: -run ^TestAdd$ .\n", "", 1),
		"no -run":            strings.Replace(good, "-run ^TestAdd$ ", "", 1),
		"want Breaks, Class": strings.Replace(good, "Class", "Klass", 1),
		"are known":          strings.Replace(good, "-run", "-fun", 1),
	} {
		if _, err := parse("one", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// TestApply moves code under a patch: it goes where its lines are now, and nowhere when they changed.
func TestApply(t *testing.T) {
	dir := t.TempDir()
	m, err := parse("one", []byte("Breaks: x\nClass: time off\nTest: -run X .\n\n--- a/f.go\n+++ b/f.go\n@@ -4,3 +4,3 @@\n a\n-b\n+c\n d\n@@ -9 +9 @@\n-e\n+f\n"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a\nb\nd\ne\n":                     "a\nc\nd\nf\n",
		"x\nx\nx\nx\nx\nx\na\nb\nd\n\ne\n": "x\nx\nx\nx\nx\nx\na\nc\nd\n\nf\n",
		"a\nb\nd\n1\n2\na\nb\nd\ne\n":      "a\nb\nd\n1\n2\na\nc\nd\nf\n", // nearest to line 4
		"a\nb\ne\n":                        "",
		"a\nb\nd\n":                        "",
	} {
		if err := os.WriteFile(filepath.Join(dir, "f.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := m.Apply(dir); changed["f.go"] != want || (err == nil) != (want != "") {
			t.Errorf("%q became %q, %v; want %q", text, changed["f.go"], err, want)
		}
	}
}

// TestStatusOfAMutant runs mutants of a small module of its own.
func TestStatusOfAMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a module ten times")
	}
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module add\n\ngo 1.26\n",
		"add.go": "package add\n\nfunc Add(a, b int) int { return a + b }\n",
		"add_test.go": "package add\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 2) != 4 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\n" +
			"func TestFails(t *testing.T) { t.Error(\"always\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &Runner{Root: dir, Timeout: 2 * time.Second}
	for instead, c := range map[string]struct {
		want  Status
		hangs time.Duration
	}{
		"a + b + 1": {Caught, 0}, "a * b": {Survived, 0}, "a +": {Broken, 0},
		"func() int { for { } }()": {Broken, 0}, "func() int { for b >= 0 { }; return 0 }()": {Caught, time.Second},
	} {
		m, err := parse("one", []byte(fmt.Sprintf(patch, instead)))
		if err != nil {
			t.Fatal(err)
		}
		m.Hangs = c.hangs
		if got := r.Run(t.Context(), &m); got.Status != c.want {
			t.Errorf("return %s: %+v, want %d", instead, got, c.want)
		}
	}
	moved, err := parse("one", []byte(strings.ReplaceAll(fmt.Sprintf(patch, "a"), "package add", "package plus")))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Run(t.Context(), &moved); got.Status != Broken || !strings.Contains(got.Why.Error(), "does not apply") {
		t.Errorf("a patch whose context is gone: %+v", got)
	}
	here := []string{"."}
	if errs := r.Baseline(t.Context(), []Test{{Packages: here, Run: "^TestAdd$"}}); errs != nil {
		t.Errorf("baseline: %v", errs)
	}
	if errs := r.Baseline(t.Context(), []Test{{Packages: here, Run: "^TestFails$"}, {Packages: here, Run: "^TestNone$"}}); len(errs) != 2 {
		t.Errorf("baseline of a test that fails and of one that is not there: %v", errs)
	}
}
