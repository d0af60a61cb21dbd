// Package mutants breaks the code on purpose, by one small mutant at a time, and checks that the tests notice:
// each mutant names the tests that have to fail with it. One that survives, that no longer applies or that does
// not compile is a failure of the suite. Nothing is written to the checkout: the go command is given the broken
// file as an overlay.
//
// A mutant names the declaration that it changes, and no file and no line, so it still applies when code moves:
//
//	Mutant: lease-receipt-goes-back
//	Breaks: a heartbeat through a process whose clock is behind shortens the lease
//	Class: time off
//	Test: -run ^TestAHeartbeatThroughAClockThatIsBehindShortensNothing$ ./internal/lease
//	In: Book.Renew
//	-l.Receipt, l.Heard, l.Came = max(l.Receipt, now), heard, heard
//	+l.Receipt, l.Heard, l.Came = now, heard, heard
//
// The lines with a - or a space must be in the declaration once. How deep they are indented there does not matter.
package mutants

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
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

// Mutant is one bug.
type Mutant struct {
	Name    string
	Package string // the folder of the code, below the root
	Breaks  string // what is wrong with the code
	Class   string // one of Classes
	Canary  string // B1 to B15, if it is one of those
	// Hangs is the time limit of a mutant that makes its tests hang: running out of that time counts as a
	// failure. 0: it does not.
	Hangs   time.Duration
	Test    Test
	changes []change
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

// Load reads all mutants of a folder, in order of their names. Those of the package store/pebble are in
// store/pebble.txt.
func Load(dir string) ([]Mutant, error) {
	var all []Mutant
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".txt" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(dir, strings.TrimSuffix(file, ".txt"))
		if err != nil {
			return err
		}
		some, err := parse(filepath.ToSlash(pkg), string(text))
		if err != nil {
			return fmt.Errorf("%s:%w", file, err)
		}
		all = append(all, some...)
		return nil
	})
	slices.SortFunc(all, func(a, b Mutant) int { return cmp.Compare(a.Name, b.Name) })
	for i := range all {
		if i > 0 && all[i].Name == all[i-1].Name {
			err = errors.Join(err, fmt.Errorf("%s: there are two of this name, in %s and %s", all[i].Name, all[i-1].Package, all[i].Package))
		}
	}
	if len(all) == 0 && err == nil {
		err = fmt.Errorf("no mutants in %s", dir)
	}
	return all, err
}

// parse reads the mutants of a package.
func parse(pkg, text string) (all []Mutant, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if name, is := strings.CutPrefix(line, "Mutant: "); is {
			all = append(all, Mutant{Name: name, Package: pkg})
			continue
		}
		switch last := len(all) - 1; {
		case last >= 0:
			err = all[last].line(line)
		case line != "":
			err = fmt.Errorf("%q before the first Mutant: NAME", line)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
	}
	for i := range all {
		if err := all[i].complete(); err != nil {
			return nil, fmt.Errorf(" %s: %w", all[i].Name, err)
		}
	}
	return all, nil
}

// line reads a field or a line of a change.
func (m *Mutant) line(line string) error {
	if line != "" && !strings.ContainsRune("-+ ", rune(line[0])) {
		return m.field(line)
	}
	last := len(m.changes) - 1
	if last < 0 {
		if line == "" {
			return nil
		}
		return fmt.Errorf("%q before In: DECLARATION", line)
	}
	c, text := &m.changes[last], line[min(1, len(line)):]
	if line == "" || line[0] != '+' {
		c.old = append(c.old, text)
	}
	if line == "" || line[0] != '-' {
		c.anew = append(c.anew, text)
	}
	return nil
}

// complete checks a mutant of which all lines are read.
func (m *Mutant) complete() error {
	for i := range m.changes {
		c := &m.changes[i]
		for len(c.old) > 0 && len(c.anew) > 0 && c.old[len(c.old)-1] == "" && c.anew[len(c.anew)-1] == "" { // before what comes next
			c.old, c.anew = c.old[:len(c.old)-1], c.anew[:len(c.anew)-1]
		}
		switch {
		case len(c.old) == 0:
			return fmt.Errorf("no line of %s that is there: give one with a -, or one beside the change with a space", c.in)
		case slices.Equal(c.old, c.anew):
			return fmt.Errorf("it changes nothing in %s", c.in)
		}
	}
	switch {
	case m.Breaks == "":
		return errors.New("no Breaks: say what is wrong with the code")
	case !slices.Contains(Classes, m.Class):
		return fmt.Errorf("class %q: want one of %q", m.Class, Classes)
	case len(m.Test.Packages) == 0:
		return errors.New("no Test: name the packages and -run of the test that has to fail")
	case len(m.changes) == 0:
		return errors.New("no In: name a declaration, and below it the lines to change")
	}
	return nil
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
	case "In":
		m.changes = append(m.changes, change{in: value})
	default:
		err = fmt.Errorf("%q: want Mutant, Breaks, Class, Canary, Hangs, Test or In, or a line of code behind -, + or a space", line)
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
