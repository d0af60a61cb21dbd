package backup_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/backup"
)

var created = time.Date(2026, 11, 22, 17, 0, 0, 0, time.UTC)

// write makes a backup of files.
func write(t *testing.T, path string, files map[string]string, keep ...string) error {
	t.Helper()
	w, err := create(t, path)
	if err != nil {
		return err
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, content := range files {
		if err := add(t, w, name, content); err != nil {
			return err
		}
	}
	for _, f := range w.Have() {
		for _, name := range keep {
			if sum := sha256.Sum256([]byte("content of " + name)); f.Name == name {
				if err := w.Keep(name, sum[:]); err != nil {
					return err
				}
			}
		}
	}
	_, err = w.Commit(t.Context(), created.Add(time.Duration(seconds.Add(1))*time.Second))
	return err
}

// seconds makes each backup later than the one before.
var seconds atomic.Int64

func create(t *testing.T, path string) (*backup.Writer, error) {
	t.Helper()
	return backup.Create(t.Context(), path, time.Hour)
}

func add(t *testing.T, w *backup.Writer, name, content string) error {
	t.Helper()
	ctx := t.Context()
	if err := w.Begin(ctx, name, int64(len(content))); err != nil {
		return err
	}
	if err := w.Write(ctx, []byte(content)); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(content))
	return w.End(ctx, sum[:])
}

func extract(t *testing.T, path string) (backup.Manifest, map[string]string, error) {
	t.Helper()
	into := t.TempDir()
	m, err := backup.Extract(t.Context(), path, time.Time{}, into)
	found := map[string]string{}
	all, globErr := filepath.Glob(filepath.Join(into, "*"))
	for _, name := range all {
		content, readErr := os.ReadFile(name)
		if readErr != nil {
			t.Fatal(readErr)
		}
		found[filepath.Base(name)] = string(content)
	}
	if globErr != nil {
		t.Fatal(globErr)
	}
	return m, found, err
}

var twoFiles = map[string]string{"1.sst": "content of 1.sst", "marker.x": ""}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"b.tar", "b/"} {
		path := filepath.Join(t.TempDir(), "x") + name
		if err := write(t, path, twoFiles); err != nil {
			t.Fatal(err)
		}
		m, found, err := extract(t, path)
		if err != nil || len(found) != 2 || found["1.sst"] != "content of 1.sst" || !m.Created.After(created) || m.Bytes() != 16 {
			t.Errorf("%s: %v, %v, %v", name, m, found, err)
		}
	}
}

func TestALaterBackupKeepsWhatIsTheSame(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	for round, c := range []struct {
		files map[string]string
		keep  []string
	}{
		{files: map[string]string{"1.sst": "content of 1.sst", "2.sst": "content of 2.sst"}},
		{files: map[string]string{"3.sst": "content of 3.sst"}, keep: []string{"1.sst"}},
	} {
		if err := write(t, dir+"/", c.files, c.keep...); err != nil {
			t.Fatal(round, err)
		}
	}
	_, found, err := extract(t, dir)
	if err != nil || len(found) != 2 || found["1.sst"] == "" || found["3.sst"] == "" {
		t.Errorf("%v, %v", found, err)
	}
	if all := pieces(t, dir); len(all) != 3 {
		t.Errorf("%v: want a piece for each content", all)
	}
}

// pieces lists the pieces in a directory.
func pieces(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "pieces", "[0-9a-f]*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The files of a backup are for their owner alone, also where a file was there that others could read.
func TestFilesOfABackupAreForTheirOwner(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"archive", "dir" + string(filepath.Separator)} {
		path = filepath.Join(t.TempDir(), path[:len(path)-1]) + path[len(path)-1:]
		if filepath.Base(path) == "archive" {
			if err := os.WriteFile(path+".unfinished", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path+".unfinished", 0o666); err != nil { // whatever the umask
				t.Fatal(err)
			}
		}
		if err := write(t, path, twoFiles); err != nil {
			t.Fatal(err)
		}
		files := 0
		err := filepath.WalkDir(path, func(name string, entry os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %04o", name, info.Mode().Perm())
			}
			files++
			return err
		})
		if err != nil || files == 0 {
			t.Errorf("%d files, %v", files, err)
		}
	}
}

// TestNothingHalf gives a writer what is wrong, over a backup that was there before.
func TestNothingHalf(t *testing.T) {
	t.Parallel()
	sum, ctx := sha256.Sum256([]byte("abc")), t.Context()
	for name, step := range map[string]func(w *backup.Writer) error{
		"another sum": func(w *backup.Writer) error {
			return errors.Join(w.Begin(ctx, "9.sst", 3), w.Write(ctx, []byte("abd")), w.End(ctx, sum[:]))
		},
		"less": func(w *backup.Writer) error {
			return errors.Join(w.Begin(ctx, "9.sst", 4), w.Write(ctx, []byte("abc")), w.End(ctx, sum[:]))
		},
		"more": func(w *backup.Writer) error {
			return errors.Join(w.Begin(ctx, "9.sst", 2), w.Write(ctx, []byte("abc")))
		},
		"no begin":      func(w *backup.Writer) error { return w.Write(ctx, []byte("abc")) },
		"path":          func(w *backup.Writer) error { return w.Begin(ctx, "../9.sst", 3) },
		"absolute path": func(w *backup.Writer) error { return w.Begin(ctx, "/9.sst", 3) },
		"not there":     func(w *backup.Writer) error { return w.Keep("9.sst", sum[:]) },
		"changed":       func(w *backup.Writer) error { return w.Keep("1.sst", sum[:]) },
		"twice": func(w *backup.Writer) error {
			err := errors.Join(add(t, w, "9.sst", "abc"), add(t, w, "9.sst", "abc"))
			_, commitErr := w.Commit(ctx, created)
			return errors.Join(err, commitErr)
		},
	} {
		for _, form := range []string{"b.tar", "b/"} {
			path := filepath.Join(t.TempDir(), form)
			if form == "b/" {
				path += "/"
			}
			if err := write(t, path, twoFiles); err != nil {
				t.Fatal(err)
			}
			w, err := create(t, path)
			if err != nil {
				t.Fatal(err)
			}
			if err := step(w); !errors.Is(err, backup.ErrDamaged) {
				t.Errorf("%s, %s: %v, want ErrDamaged", name, form, err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if _, found, err := extract(t, path); err != nil || found["1.sst"] != twoFiles["1.sst"] {
				t.Errorf("%s, %s: the backup before is %v, %v", name, form, found, err)
			}
		}
	}
}

func TestOneWriterOfAnArchiveAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b.tar")
	w, err := create(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create(t, path); !errors.Is(err, backup.ErrPlace) {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestFlippedBytesAreFound damages bytes of a directory's files in turn, and of an archive all that is not
// padding.
func TestFlippedBytesAreFound(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	if err := write(t, dir+"/", twoFiles); err != nil {
		t.Fatal(err)
	}
	points, err := filepath.Glob(filepath.Join(dir, "points", "[0-9]*"))
	if err != nil || len(points) != 1 {
		t.Fatal(points, err)
	}
	for _, path := range append(pieces(t, dir), points...) {
		each(t, path, func(at int) {
			if _, _, err := extract(t, dir); err == nil {
				t.Errorf("%s: byte %d", filepath.Base(path), at)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "b.tar")
	if err := write(t, file, twoFiles); err != nil {
		t.Fatal(err)
	}
	each(t, file, func(at int) {
		if m, found, err := extract(t, file); err == nil && (found["1.sst"] != twoFiles["1.sst"] || len(m.Files) != 2) {
			t.Errorf("archive: byte %d: %v", at, found)
		}
	})
}

// stride leaves bytes out: every try syncs.
const stride = 11

// each calls f with a byte of the file flipped, one after the other.
func each(t *testing.T, path string, f func(at int)) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(content); at += stride {
		content[at] ^= 0x10
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f(at)
		content[at] ^= 0x10
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// syncs are the files and directories below a folder that were synced, each with what was there then.
var syncs struct {
	sync.Mutex

	below string // empty: none
	all   []synced
}

type synced struct {
	path  string
	bytes int64           // of the file
	files map[string]bool // all that was in the folder
}

func TestMain(m *testing.M) {
	backup.OnSync(func(path string) {
		syncs.Lock()
		defer syncs.Unlock()
		if syncs.below == "" || !strings.HasPrefix(path, syncs.below) {
			return
		}
		s := synced{path: filepath.Clean(path), files: map[string]bool{}}
		if info, err := os.Stat(path); err == nil {
			s.bytes = info.Size()
		}
		_ = filepath.WalkDir(syncs.below, func(at string, _ os.DirEntry, _ error) error {
			s.files[at] = true
			return nil
		})
		syncs.all = append(syncs.all, s)
	})
	os.Exit(m.Run())
}

// wantSynced finds the sync of a path at which holds was true, and returns how many syncs came before it.
func wantSynced(t *testing.T, what, path string, holds func(s *synced) bool) int {
	t.Helper()
	syncs.Lock()
	defer syncs.Unlock()
	for i := range syncs.all {
		if s := &syncs.all[i]; s.path == path && holds(s) {
			return i
		}
	}
	t.Errorf("%s: %s was not synced", what, path)
	return -1
}

// TestABackupIsOnDiskBeforeItCounts follows the syncs of an archive: it is whole before it has its name. What is
// extracted is synced before the names of it. That a place syncs what is put is for the tests of sdk/blobs.
func TestABackupIsOnDiskBeforeItCounts(t *testing.T) {
	t.Parallel()
	const content = "content of 1.sst"
	base := t.TempDir()
	syncs.Lock()
	syncs.below = base
	syncs.Unlock()
	has := func(path string) func(s *synced) bool {
		return func(s *synced) bool { return s.files[path] }
	}
	dir, archive := filepath.Join(base, "b")+"/", filepath.Join(base, "b.tar")
	for _, path := range []string{dir, archive} {
		if err := write(t, path, map[string]string{"1.sst": content}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(archive)
	if err != nil {
		t.Fatal(err)
	}
	wantSynced(t, "archive", archive+".unfinished", func(s *synced) bool { return s.bytes == info.Size() && !has(archive)(s) })
	wantSynced(t, "name of the archive", base, has(archive))

	for i, path := range []string{dir, archive} {
		into := filepath.Join(base, fmt.Sprint("into", i))
		if err := os.Mkdir(into, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Extract(t.Context(), path, time.Time{}, into); err != nil {
			t.Fatal(err)
		}
		last := wantSynced(t, "names of what was extracted", into, func(*synced) bool { return true })
		file := wantSynced(t, "extracted file", filepath.Join(into, "1.sst"), func(s *synced) bool { return s.bytes == int64(len(content)) })
		if file > last {
			t.Errorf("%s: the names were synced before the file", path)
		}
	}
}

// TestATruncatedFileOfAnOlderBackupIsNotKept cuts files of a backup, or removes them. The next one does not
// count on them.
func TestATruncatedFileOfAnOlderBackupIsNotKept(t *testing.T) {
	t.Parallel()
	harm := map[string]func(path string) error{
		"cut":     func(path string) error { return os.Truncate(path, 3) },
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"longer":  func(path string) error { return os.Truncate(path, 100) },
		"removed": os.Remove,
	}
	for what, change := range harm {
		dir := filepath.Join(t.TempDir(), "b")
		if err := write(t, dir+"/", map[string]string{"1.sst": "content of 1.sst", "2.sst": "content of 2.sst"}); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte("content of 1.sst"))
		if err := change(filepath.Join(dir, "pieces", hex.EncodeToString(sum[:]))); err != nil {
			t.Fatal(err)
		}
		w, err := create(t, dir+"/")
		if err != nil {
			t.Fatal(err)
		}
		if have := w.Have(); len(have) != 1 || have[0].Name != "2.sst" {
			t.Errorf("%s: has %v, want the file that is whole", what, have)
		}
		if err := w.Keep("1.sst", sum[:]); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: kept: %v", what, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := write(t, dir+"/", map[string]string{"1.sst": "content of 1.sst"}, "2.sst"); err != nil {
			t.Fatal(err)
		}
		if _, found, err := extract(t, dir); err != nil || len(found) != 2 {
			t.Errorf("%s: the next backup has %v, %v", what, found, err)
		}
	}
}
