package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

const (
	// restoringDir holds the files of a restore until it is complete. It is inside the data directory, which
	// may be a file system of its own.
	restoringDir = "restoring"
	// StandbyDir holds the copy of a standby, in an otherwise empty data directory. No store opens there.
	StandbyDir = "standby"
	// lostAndFound is in each new file system of some kinds.
	lostAndFound = "lost+found"
)

// ErrNotEmpty refuses to write a store into a directory that is not empty.
var ErrNotEmpty = errors.New("is not empty")

// ErrStandby refuses to open a store where a standby keeps its copy.
var ErrStandby = errors.New("is that of a standby")

// Restore makes dir, which must be empty or absent, the data directory of a store. fill writes the files of a
// snapshot to the directory that it is given. The store is then opened once, and look may read it. When
// Restore returns nil all is on disk; otherwise dir is as it was. After an interrupted restore Open fails
// with store.ErrUnfinished.
func Restore(ctx context.Context, dir string, c Config, fill func(into string) error, look func(context.Context, *Driver) error) error {
	c = c.withDefaults()
	if err := checkEmpty(c.FS, dir, ""); err != nil {
		return err
	}
	return fillEmpty(ctx, dir, c, fill, look)
}

// CheckStandby returns an error if a data directory holds anything but the copy of a standby.
func CheckStandby(dir string, c Config) error {
	return checkEmpty(c.withDefaults().FS, dir, StandbyDir)
}

// Promote is Restore in a directory that holds the copy of a standby, from which fill takes the files.
func Promote(ctx context.Context, dir string, c Config, fill func(into string) error, look func(context.Context, *Driver) error) error {
	if err := CheckStandby(dir, c); err != nil {
		return err
	}
	return fillEmpty(ctx, dir, c.withDefaults(), fill, look)
}

func fillEmpty(ctx context.Context, dir string, c Config, fill func(into string) error, look func(context.Context, *Driver) error) error {
	files := c.FS
	_, statErr := files.Stat(dir)
	if err := makeDir(files, dir); err != nil {
		return fmt.Errorf("data directory %s cannot be made: %w", dir, err)
	}
	if err := c.closeToOthers(dir); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
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

// checkEmpty returns an error if there is anything in a directory but what is allowed.
func checkEmpty(files vfs.FS, dir, allowed string) error {
	names, err := files.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory %s cannot be read: %w", dir, err)
	}
	for _, name := range names {
		switch name {
		case lostAndFound, allowed:
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

// moveUp moves all files from a directory to the one above. While the lower directory exists the restore
// counts as unfinished.
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
	return removeSynced(files, to, from)
}

// removeSynced removes a directory inside dir, after the changes of dir are durable.
func removeSynced(files vfs.FS, dir, inside string) error {
	if err := syncDir(files, dir); err != nil {
		return err
	}
	if err := files.RemoveAll(inside); err != nil {
		return err
	}
	return syncDir(files, dir)
}

// emptyDir removes what a restore wrote to an empty directory, and restoringDir last.
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
	return removeSynced(files, dir, files.PathJoin(dir, restoringDir))
}

// tidy removes a snapshot that was being read when the process ended, and refuses an unfinished restore.
func (d *Driver) tidy() error {
	path := d.cfg.FS.PathJoin(d.dir, restoringDir)
	if _, err := d.cfg.FS.Stat(path); err == nil {
		return d.refuse(store.ErrUnfinished, "remove what is in it and restore the backup again")
	}
	if err := d.cfg.FS.RemoveAll(d.cfg.FS.PathJoin(d.dir, snapshotDir)); err != nil {
		return fmt.Errorf("remove an old snapshot: %w", err)
	}
	return nil
}
