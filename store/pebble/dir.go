package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// Permissions of what is in a data directory, and of the directory.
const (
	filePerm fs.FileMode = 0o600
	dirPerm  fs.FileMode = 0o700
)

// manifestMarker begins the name of the file that names the current manifest. Without it a directory holds no
// store.
const manifestMarker = "marker.manifest"

func isMarker(name string) bool { return strings.HasPrefix(name, manifestMarker) }
func isTable(name string) bool  { return strings.HasSuffix(name, ".sst") }

// logNumber returns the number of a log by its name; ok is false for other files.
func logNumber(name string) (number uint64, ok bool) {
	text, isLog := strings.CutSuffix(name, ".log")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, isLog && err == nil
}

// listing holds the names in a data directory, in order.
type listing struct {
	names  []string
	tables []string          // data files among them
	logs   map[uint64]string // logs among them, by number
}

func listDir(files vfs.FS, dir string) (l listing, err error) {
	l.names, err = files.List(dir)
	slices.Sort(l.names)
	l.logs = map[uint64]string{}
	for _, name := range l.names {
		if number, isLog := logNumber(name); isLog {
			l.logs[number] = name
		}
		if isTable(name) {
			l.tables = append(l.tables, name)
		}
	}
	return l, err
}

// holdsStore reports whether there is a store in the directory, or a part of one.
func (l *listing) holdsStore() bool {
	return len(l.logs) > 0 || len(l.tables) > 0 || slices.ContainsFunc(l.names, func(name string) bool {
		return name == marksName || strings.HasPrefix(name, "MANIFEST-")
	})
}

// makeDir makes dir and what is missing above it, and syncs the new names.
func makeDir(files vfs.FS, dir string) error {
	if _, err := files.Stat(dir); err == nil {
		return nil
	}
	parent := files.PathDir(dir)
	if parent != dir {
		if err := makeDir(files, parent); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(dir, dirPerm); err != nil {
		return err
	}
	return syncDir(files, parent)
}

// forOthers are the permissions that the group of a file's user and all others have.
const forOthers fs.FileMode = 0o077

// closeToOthers takes from all but the user of this process the right to a data directory and to all that is
// in it, because its files hold payloads and the secret of public ids, in plain.
func (c Config) closeToOthers(dir string) error {
	if _, onMachine := c.FS.(privateFS); !onMachine {
		return nil
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	mended := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if errors.Is(err, fs.ErrNotExist) { // a server that still runs deleted it
				return nil
			}
			return err
		case entry.Name() == lostAndFound && entry.IsDir():
			return fs.SkipDir
		case !entry.IsDir() && !entry.Type().IsRegular():
			return nil
		}
		done, err := closeOne(path, entry)
		if done {
			mended++
		}
		return err
	})
	if mended > 0 {
		c.Logger.Warn("others could use the data directory or files in it; they are now for this user alone",
			slog.String("dir", dir), slog.Int("mended", mended))
	}
	return err
}

// closeOne takes the right to a file or directory from others, and reports whether they had it.
func closeOne(path string, entry fs.DirEntry) (mended bool, err error) {
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || info.Mode()&forOthers == 0 {
		return false, err
	}
	perm := filePerm
	if entry.IsDir() {
		perm = dirPerm
	}
	if err := os.Chmod(path, perm); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("others may use it (mode %04o), and that cannot be changed: %w; choose a directory below it, "+
			"which is then made for this user alone", info.Mode().Perm(), err)
	}
	return true, nil
}

// syncDir makes the names in a directory durable.
func syncDir(files vfs.FS, dir string) error {
	entry, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(entry.Sync(), entry.Close())
}

// lockDir keeps other processes out of a directory.
func lockDir(dir string, files vfs.FS) (*pebbledb.Lock, error) {
	lock, err := pebbledb.LockDirectory(dir, files)
	var pathErr *os.PathError
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.As(err, &pathErr):
		return nil, fmt.Errorf("data directory %s cannot be written: %w", dir, err)
	}
	return nil, fmt.Errorf("data directory %s is %w: stop the other one or choose another directory (%w)", dir, store.ErrInUse, err)
}

// lockExisting locks a directory that holds a store.
func (d *Driver) lockExisting() error {
	_, err := d.cfg.FS.Stat(d.dir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.dir, err)
	}
	found, err := listDir(d.cfg.FS, d.dir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.dir, err)
	}
	if !found.holdsStore() {
		return fmt.Errorf("data directory %s holds no store", d.dir)
	}
	d.lock, err = lockDir(d.dir, d.cfg.FS)
	return err
}

func readFile(files vfs.FS, path string) ([]byte, error) {
	file, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	return content, errors.Join(err, file.Close())
}
