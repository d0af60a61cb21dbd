package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
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

// TestEveryMutantApplies notices code that was rewritten under a mutant: then the mutant is made anew, or goes
// with what it broke.
func TestEveryMutantApplies(t *testing.T) {
	for _, m := range load(t) {
		if err := m.Check(root); err != nil {
			t.Error(err)
		}
	}
}

// TestEveryTestIsThere finds a mutant whose test was renamed before hundreds of others have run.
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

const mutant = `Mutant: one
Breaks: a sum is off by one
Class: time off
Test: -run ^TestAdd$ .
In: Add
-return a + b
+return %s
`

func one(t *testing.T, pkg, text string) *Mutant {
	t.Helper()
	all, err := parse(pkg, text)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d mutants, %v", len(all), err)
	}
	return &all[0]
}

func TestParse(t *testing.T) {
	good := fmt.Sprintf(mutant, "a")
	two := good + "\n" + strings.Replace(good, "one", "two", 1)
	if all, err := parse("store", two); err != nil || len(all) != 2 || all[1].Name != "two" || all[0].Test.String() != "go test -run '^TestAdd$' ." || all[0].Class != "time off" {
		t.Errorf("%+v, %v", all, err)
	}
	for want, text := range map[string]string{
		"before the first": "Breaks: x\n" + good,
		"before In":        strings.Replace(good, "In: Add\n", "", 1),
		"no In":            strings.Split(good, "In:")[0],
		"no line":          strings.Replace(good, "-return a + b\n", "", 1),
		"changes nothing":  fmt.Sprintf(mutant, "a + b"),
		"no Breaks":        strings.Replace(good, "Breaks: a sum is off by one\n", "", 1),
		"want one":         strings.Replace(good, "time off", "bad luck", 1),
		"no Test":          strings.Replace(good, "Test: -run ^TestAdd$ .\n", "", 1),
		"no -run":          strings.Replace(good, "-run ^TestAdd$ ", "", 1),
		"3: \"Klass":       strings.Replace(good, "Class", "Klass", 1),
		"are known":        strings.Replace(good, "-run", "-fun", 1),
	} {
		if _, err := parse("store", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// TestApply moves code under a mutant, which goes where its lines are now, and nowhere when they changed.
func TestApply(t *testing.T) {
	m := one(t, "p", "Mutant: one\nBreaks: x\nClass: time off\nTest: -run X .\nIn: T.M\n a()\n-if b() {\n-\tc()\n-}\n+c()\nIn: limit\n-limit = 5\n+limit = 6\n\n")
	const before, after = "\ta()\n\tif b() {\n\t\tc()\n\t}\n\td()\n", "\ta()\n\tc()\n\td()\n"
	m1 := func(body string) string { return "func (t *T[K]) M() {\n" + body + "}\n" }
	deeper := func(body string) string {
		return "\tif x {\n\t" + strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "\n", "\n\t") + "\n\t}\n"
	}
	five, six := "const (\n\tother = 4\n\tlimit = 5\n)\n", "const (\n\tother = 4\n\tlimit = 6\n)\n"
	for name, c := range map[string]struct{ text, want, err string }{
		"as it was":        {m1(before) + five, m1(after) + six, ""},
		"moved":            {five + "func other() {\n" + before + "}\n" + m1("\tx()\n"+before), six + "func other() {\n" + before + "}\n" + m1("\tx()\n"+after), ""},
		"indented":         {m1(deeper(before)) + five, m1(deeper(after)) + six, ""},
		"twice":            {m1(before+deeper(before)) + five, "", "2 times"},
		"rewritten":        {m1("\ta()\n\tc()\n") + five, "", "no such lines"},
		"of another type":  {strings.Replace(m1(before), "*T", "*U", 1) + five, "", "declares no T.M"},
		"of other systems": {"//go:build !" + runtime.GOOS + "\n\npackage p\n" + m1(before) + five, "", "declares no T.M"},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "p"), 0o700); err != nil {
			t.Fatal(err)
		}
		head := "package p\n\n"
		if strings.HasPrefix(c.text, "//") {
			head = ""
		}
		if err := os.WriteFile(filepath.Join(dir, "p", "f.go"), []byte(head+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		changed, err := m.Apply(dir)
		if c.err == "" && (err != nil || changed["p/f.go"] != head+c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %q, %v; want %q %s", name, changed["p/f.go"], err, c.want, c.err)
		}
	}
}

func TestWhatDoesNotParseIsNoMutant(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "add.go"), []byte("package add\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for with, want := range map[string]bool{"a": true, "a +": false} {
		if err := one(t, ".", fmt.Sprintf(mutant, with)).Check(dir); (err == nil) != want {
			t.Errorf("return %s: %v", with, err)
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
		"add.go": "package add\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n",
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
		m := one(t, ".", fmt.Sprintf(mutant, instead))
		m.Hangs = c.hangs
		if got := r.Run(t.Context(), m); got.Status != c.want {
			t.Errorf("return %s: %+v, want %d", instead, got, c.want)
		}
	}
	gone := one(t, ".", strings.Replace(fmt.Sprintf(mutant, "a"), "In: Add", "In: Sub", 1))
	if got := r.Run(t.Context(), gone); got.Status != Broken || !strings.Contains(got.Why.Error(), "does not apply") {
		t.Errorf("a mutant whose declaration is gone: %+v", got)
	}
	here := []string{"."}
	if errs := r.Baseline(t.Context(), []Test{{Packages: here, Run: "^TestAdd$"}}); errs != nil {
		t.Errorf("baseline: %v", errs)
	}
	if errs := r.Baseline(t.Context(), []Test{{Packages: here, Run: "^TestFails$"}, {Packages: here, Run: "^TestNone$"}}); len(errs) != 2 {
		t.Errorf("baseline of a test that fails and of one that is not there: %v", errs)
	}
}
