package livefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// folder is a directory with two files whose value is their joined contents; "bad" in one of them is refused.
type folder struct {
	t       *testing.T
	a, b    string
	virtual *clock.Virtual
	told    []error
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	dir := t.TempDir()
	f := &folder{t: t, a: filepath.Join(dir, "a"), b: filepath.Join(dir, "b"), virtual: clock.NewVirtual(0, 1)}
	f.write(f.a, "one")
	f.write(f.b, "two")
	return f
}

func (f *folder) write(path, text string) {
	f.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

var errBad = errors.New("bad")

func (f *folder) open() (*Files[string], error) {
	return Open(Config[string]{
		Paths: []string{f.a, f.b}, BytesMax: 10, Clock: f.virtual.Process(0),
		Changed: func(err error) { f.told = append(f.told, err) },
		Parse: func(contents [][]byte) (string, error) {
			text := string(contents[0]) + "," + string(contents[1])
			if strings.Contains(text, "bad") {
				return "", errBad
			}
			return text, nil
		},
	})
}

func (f *folder) mustOpen() *Files[string] {
	f.t.Helper()
	files, err := f.open()
	if err != nil {
		f.t.Fatal(err)
	}
	return files
}

func (f *folder) want(files *Files[string], text string, told int) {
	f.t.Helper()
	f.virtual.Advance(LookEvery)
	if got := files.Get(); got != text || len(f.told) != told {
		f.t.Errorf("value %q, told %v; want %q, told %d times", got, f.told, text, told)
	}
}

func TestAChangeIsSeenAtTheNextLook(t *testing.T) {
	f := newFolder(t)
	files := f.mustOpen()
	f.write(f.b, "three")
	if got := files.Get(); got != "one,two" {
		t.Errorf("at once: %q, want no look yet", got)
	}
	f.want(files, "one,three", 1)
	f.want(files, "one,three", 1)
	if f.told[0] != nil {
		t.Error(f.told[0])
	}
}

func TestTheLastGoodValueHolds(t *testing.T) {
	f := newFolder(t)
	files := f.mustOpen()
	f.write(f.a, "bad")
	f.want(files, "one,two", 1)
	f.want(files, "one,two", 1) // told once
	if !errors.Is(f.told[0], ErrFile) || !errors.Is(f.told[0], errBad) || !strings.Contains(f.told[0].Error(), f.a) {
		t.Error(f.told[0])
	}
	if err := os.Remove(f.a); err != nil {
		t.Fatal(err)
	}
	f.want(files, "one,two", 2)
	f.write(f.a, "one")
	f.want(files, "one,two", 3) // as it was, which is told
	if f.told[2] != nil {
		t.Error(f.told[2])
	}
}

// Volumes of Kubernetes change like this: a link points to another directory.
func TestALinkThatMoves(t *testing.T) {
	f := newFolder(t)
	dir := t.TempDir()
	f.write(filepath.Join(dir, "v2"), "new")
	f.write(filepath.Join(dir, "v1"), "old")
	link := filepath.Join(dir, "data")
	if err := os.Symlink("v1", link); err != nil {
		t.Fatal(err)
	}
	f.a = link
	files := f.mustOpen()
	if err := errors.Join(os.Symlink("v2", link+"2"), os.Rename(link+"2", link)); err != nil {
		t.Fatal(err)
	}
	f.want(files, "new,two", 1)
}

func TestWhatCannotBeOpened(t *testing.T) {
	for name, spoil := range map[string]func(f *folder){
		"no such file":    func(f *folder) { f.a += "nowhere" },
		"no regular file": func(f *folder) { f.a = filepath.Dir(f.a) },
		"longer than 10":  func(f *folder) { f.write(f.b, strings.Repeat("x", 11)) },
		"bad":             func(f *folder) { f.write(f.b, "bad") },
	} {
		f := newFolder(t)
		spoil(f)
		_, err := f.open()
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := newFolder(t)
	f.write(f.b, strings.Repeat("x", 10))
	f.mustOpen()
}

func TestManyAskAtATime(t *testing.T) {
	f := newFolder(t)
	files := f.mustOpen()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 100 {
				if i == 0 {
					f.virtual.Advance(LookEvery)
				}
				if got := files.Get(); got != "one,two" {
					t.Errorf("%q", got)
				}
			}
		})
	}
	group.Wait()
}
