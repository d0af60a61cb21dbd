package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// restoringDir is where a restore puts files until they are all there, inside the data directory, which may
// be a file system of its own.
const restoringDir = "restoring"

// manifestMarker begins the name of the file without which a directory holds no store.
const manifestMarker = "marker.manifest"

// lostAndFound is in each new file system of some kinds.
const lostAndFound = "lost+found"

// ErrNotEmpty refuses to restore into a directory that holds something.
var ErrNotEmpty = errors.New("is not empty")

// Restore makes dir, which must be empty or not there, the data directory of a store with the files that fill
// writes, as a snapshot had them, to the directory that it is given. The store is opened once, and look may
// read it. Without an error all is on disk; with one dir is as it was. A restore that is interrupted leaves
// what Open refuses with store.ErrUnfinished.
func Restore(ctx context.Context, dir string, c Config, fill func(into string) error, look func(context.Context, *Driver) error) error {
	files := c.withDefaults().FS
	if err := checkEmpty(files, dir); err != nil {
		return err
	}
	_, statErr := files.Stat(dir)
	if err := makeDir(files, dir); err != nil {
		return fmt.Errorf("data directory %s cannot be made: %w", dir, err)
	}
	into := files.PathJoin(dir, restoringDir)
	if err := makeDir(files, into); err != nil {
		return fmt.Errorf("data directory %s cannot be written: %w", dir, err)
	}
	err := restore(ctx, into, c, fill, look)
	if err == nil {
		err = moveUp(files, into, dir)
	}
	if err != nil {
		err = errors.Join(err, emptyDir(files, dir))
		if statErr != nil { // it was not there
			err = errors.Join(err, files.Remove(dir))
		}
	}
	return err
}

func checkEmpty(files vfs.FS, dir string) error {
	names, err := files.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory %s cannot be read: %w", dir, err)
	}
	for _, name := range names {
		switch name {
		case lostAndFound:
		case restoringDir:
			return fmt.Errorf("data directory %s %w: it holds an %w; remove what is in it first", dir, ErrNotEmpty, store.ErrUnfinished)
		default:
			return fmt.Errorf("data directory %s %w: it holds %s; name one that is empty or not there", dir, ErrNotEmpty, name)
		}
	}
	return nil
}

func restore(ctx context.Context, into string, c Config, fill func(string) error, look func(context.Context, *Driver) error) error {
	if err := fill(into); err != nil {
		return err
	}
	names, err := c.withDefaults().FS.List(into)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(names, isMarker) {
		return fmt.Errorf("%w: the backup holds no store", store.ErrCorrupt)
	}
	c.unmarked = true
	d, err := Open(into, c)
	if err != nil {
		return fmt.Errorf("open what was restored: %w", err)
	}
	return errors.Join(look(ctx, d), d.Close())
}

// moveUp moves all files from one directory to the one above. Until that is done the directory itself marks
// the restore as unfinished.
func moveUp(files vfs.FS, from, to string) error {
	names, err := files.List(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := files.Rename(files.PathJoin(from, name), files.PathJoin(to, name)); err != nil {
			return err
		}
	}
	if err := syncEntries(files, to); err != nil {
		return err
	}
	if err := files.RemoveAll(from); err != nil {
		return err
	}
	return syncEntries(files, to)
}

func isMarker(name string) bool { return strings.HasPrefix(name, manifestMarker) }

// emptyDir removes what a restore wrote to a directory that was empty, and last what marks it as unfinished.
func emptyDir(files vfs.FS, dir string) error {
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == lostAndFound || name == restoringDir {
			continue
		}
		if err := files.RemoveAll(files.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	if err := syncEntries(files, dir); err != nil {
		return err
	}
	if err := files.RemoveAll(files.PathJoin(dir, restoringDir)); err != nil {
		return err
	}
	return syncEntries(files, dir)
}

// tidy removes what a snapshot left that was being read when the process ended, and refuses an unfinished
// restore.
func (d *Driver) tidy() error {
	path := d.cfg.FS.PathJoin(d.dir, restoringDir)
	if _, err := d.cfg.FS.Stat(path); err == nil {
		return fmt.Errorf("data directory %s: %w: remove what is in it and restore the backup again", d.dir, store.ErrUnfinished)
	}
	if err := d.cfg.FS.RemoveAll(d.cfg.FS.PathJoin(d.dir, snapshotDir)); err != nil {
		return fmt.Errorf("remove an old snapshot in data directory %s: %w", d.dir, err)
	}
	return nil
}
