package blobs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const name = "mail/k6b/0102"

func openDir(t *testing.T) *Dir {
	t.Helper()
	d, err := OpenDir(filepath.Join(t.TempDir(), "new", "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func (d *Dir) names(t *testing.T) (all []string) {
	t.Helper()
	if err := d.List(t.Context(), func(e Entry) error { all = append(all, e.Name); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDirKeepsBlobs(t *testing.T) {
	t.Parallel()
	d, ctx := openDir(t), t.Context()
	for _, data := range [][]byte{[]byte("first"), bytes.Repeat([]byte{7}, 3<<20), {}} {
		if err := d.Put(ctx, name, data); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Get(ctx, name, int64(len(data))); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: got %d, %v", len(data), len(got), err)
		}
	}
	if got := d.names(t); !slices.Equal(got, []string{name}) {
		t.Errorf("list has %q", got)
	}
	if err := d.Put(ctx, name, []byte("1234")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(ctx, name, 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a blob of 4 bytes where 3 are allowed: %v", err)
	}
	if _, err := d.Get(ctx, "mail/other", 3); !errors.Is(err, ErrNotFound) {
		t.Errorf("a blob that is not there: %v", err)
	}
}

func TestDirDeletesBlobsAndTheirFolders(t *testing.T) {
	t.Parallel()
	d, ctx := openDir(t), t.Context()
	for _, n := range []string{name, "mail/k6c/0102"} {
		if err := d.Put(ctx, n, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time it is gone
		if err := d.Delete(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(d.path, "mail", "k6b")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a deleted blob: %v", err)
	}
	if got := d.names(t); !slices.Equal(got, []string{"mail/k6c/0102"}) {
		t.Errorf("list has %q", got)
	}
	if err := d.Put(ctx, name, []byte("x")); err != nil {
		t.Errorf("a Put after its folder was deleted: %v", err)
	}
}

func TestDirRefusesNames(t *testing.T) {
	t.Parallel()
	d, ctx := openDir(t), t.Context()
	for _, n := range []string{"", ".", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/"} {
		_, err := d.Get(ctx, n, 1)
		if d.Put(ctx, n, nil) == nil || err == nil || errors.Is(err, ErrNotFound) || d.Delete(ctx, n) == nil {
			t.Errorf("%q is taken", n)
		}
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(outside, []byte("s"), 0o600), os.Symlink(outside, filepath.Join(d.path, "link"))); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Get(ctx, "link", 10); err == nil {
		t.Errorf("a link out of the directory: got %q", got)
	}
}

// A reader sees all of a blob or none, wherever a Put fails, and what it wrote does not stay. The blob that
// had the name before is there until the new one is.
func TestDirPutThatFails(t *testing.T) {
	t.Parallel()
	steps := []string{"create", "write", "sync", "rename", "sync folder"}
	for _, step := range steps {
		for _, before := range []string{"", "before"} {
			d, ctx, broken := openDir(t), t.Context(), errors.New("disk full")
			if before != "" {
				if err := d.Put(ctx, name, []byte(before)); err != nil {
					t.Fatal(err)
				}
			}
			var seen []string
			d.fault = func(s string) error {
				if seen = append(seen, s); s == step {
					return broken
				}
				return nil
			}
			if err := d.Put(ctx, name, []byte("all of it")); !errors.Is(err, broken) {
				t.Errorf("%s fails: %v", step, err)
			}
			got, err := d.Get(ctx, name, 100)
			if errors.Is(err, ErrNotFound) {
				err = nil
			}
			if want := before; step != "sync folder" && (err != nil || string(got) != want) {
				t.Errorf("%s fails: got %q, %v, want %q", step, got, err, want)
			} else if step == "sync folder" && string(got) != "all of it" {
				t.Errorf("%s fails: got %q, %v", step, got, err)
			}
			if n := slices.Index(steps, step); !slices.Equal(seen, steps[:n+1]) {
				t.Errorf("%s fails: steps %q", step, seen)
			}
			d.fault = nil
			if all := d.names(t); len(all) > 1 || len(all) == 1 && all[0] != name {
				t.Errorf("%s fails: it leaves %q", step, all)
			}
		}
	}
}

func TestDirPutThatIsCancelled(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Put(ctx, name, []byte("x")); !errors.Is(err, context.Canceled) || len(d.names(t)) != 0 {
		t.Errorf("got %v", err)
	}
}
