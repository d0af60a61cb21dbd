// Package mutants breaks the code on purpose, one small patch at a time, and checks that the tests notice:
// each patch names the tests that have to fail with it. A patch that survives, that no longer applies or that
// does not compile is a failure of the suite. Nothing is written to the checkout: the go command is given the
// broken file as an overlay.
package mutants

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Classes are the kinds of bugs.
var Classes = []string{
	"order of steps", "condition dropped", "error ignored", "lock missing", "lazy write", "time off", "bound gone", "stale value", "outcome guessed",
}

// Mutant is one patch: a header of `Field: text` lines, then a unified diff.
type Mutant struct {
	Name   string
	Breaks string // what is wrong with the code
	Class  string // one of Classes
	Canary string // B1 to B15, if it is one of those
	// Hangs is the time limit of a mutant that makes its tests hang: running out of that time counts as a
	// failure. 0: it does not.
	Hangs time.Duration
	Test  Test
	diff  []byte
}

// Test is the `go test` command that has to fail.
type Test struct {
	Packages []string
	Run      string
	Race     bool
	Short    bool
	CPU      string
}

// String returns the command line.
func (t Test) String() string {
	parts := append([]string{"go", "test"}, t.buildFlags()...)
	if t.Short {
		parts = append(parts, "-short")
	}
	if t.CPU != "" {
		parts = append(parts, "-cpu="+t.CPU)
	}
	return strings.Join(append(append(parts, "-run", "'"+t.Run+"'"), t.Packages...), " ")
}

func (t Test) buildFlags() []string {
	if t.Race {
		return []string{"-race"}
	}
	return nil
}

// Load reads all mutants of a folder, in order of their names.
func Load(dir string) ([]Mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var all []Mutant
	var errs []error
	for _, path := range paths {
		m, err := read(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(path), err))
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		errs = append(errs, fmt.Errorf("no *.patch in %s", dir))
	}
	return all, errors.Join(errs...)
}

func read(path string) (Mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Mutant{}, err
	}
	return parse(strings.TrimSuffix(filepath.Base(path), ".patch"), text)
}

func parse(name string, text []byte) (Mutant, error) {
	m := Mutant{Name: name}
	header, diff, found := bytes.Cut(text, []byte("\n--- "))
	if !found {
		return m, errors.New("no diff: want header lines, then a unified diff that begins with ---")
	}
	m.diff = append([]byte("--- "), diff...)
	for lines := bufio.NewScanner(bytes.NewReader(header)); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := m.field(lines.Text()); err != nil {
			return m, err
		}
	}
	switch {
	case m.Breaks == "":
		return m, errors.New("no Breaks: say what is wrong with the code")
	case !slices.Contains(Classes, m.Class):
		return m, fmt.Errorf("class %q: want one of %q", m.Class, Classes)
	case len(m.Test.Packages) == 0:
		return m, errors.New("no Test: name the packages and -run of the test that has to fail")
	}
	return m, nil
}

func (m *Mutant) field(line string) (err error) {
	name, value, _ := strings.Cut(line, ":")
	switch value = strings.TrimSpace(value); name {
	case "Breaks":
		m.Breaks = value
	case "Class":
		m.Class = value
	case "Canary":
		m.Canary = value
	case "Hangs":
		m.Hangs, err = time.ParseDuration(value)
	case "Test":
		m.Test, err = parseTest(value)
	default:
		err = fmt.Errorf("header line %q: want Breaks, Class, Canary, Hangs or Test", line)
	}
	return err
}

// parseTest reads the arguments of a `go test`.
func parseTest(line string) (Test, error) {
	var t Test
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&t.Run, "run", "", "")
	flags.BoolVar(&t.Race, "race", false, "")
	flags.BoolVar(&t.Short, "short", false, "")
	flags.StringVar(&t.CPU, "cpu", "", "")
	if err := flags.Parse(strings.Fields(line)); err != nil {
		return t, fmt.Errorf("test %q: %w; -run, -race, -short, -cpu and packages are known", line, err)
	}
	if t.Packages = flags.Args(); t.Run == "" {
		return t, fmt.Errorf("test %q: no -run", line)
	}
	return t, nil
}
