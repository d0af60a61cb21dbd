package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// engineFS is the file system that the engine gets. It adds four things to the one below:
//
//   - A log is taken off the marks before it is deleted or reused.
//   - The names in the directory are synced before the file that names the current manifest is created. The
//     engine syncs that name and the manifest's own together, and a crash could leave only one of them.
//   - A log that cannot be created, written, synced or closed ends the store. The engine panics on some of
//     these errors while it holds locks, and Go then reports a broken mutex instead of the error.
//   - Files take space only as they grow. The engine would reserve a tenth more than a memtable for each log
//     and keep up to memTablesMax+1 old logs for reuse, which is nearly all the space of a small store.
type engineFS struct {
	vfs.FS
	d *Driver
}

// Create implements vfs.FS.
func (e engineFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isMarker(e.PathBase(name)) {
		if err := syncDir(e.FS, e.d.dir); err != nil {
			return nil, err
		}
	}
	file, err := e.FS.Create(name, category)
	return e.wrap(name, file, err)
}

// Remove implements vfs.FS.
func (e engineFS) Remove(name string) error {
	if err := e.d.marks.forget(e.PathBase(name)); err != nil {
		return err
	}
	return e.FS.Remove(name)
}

// ReuseForWrite implements vfs.FS.
func (e engineFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := e.d.marks.forget(e.PathBase(from)); err != nil {
		return nil, err
	}
	file, err := e.FS.ReuseForWrite(from, to, category)
	return e.wrap(to, file, err)
}

// Unwrap returns the file system below.
func (e engineFS) Unwrap() vfs.FS { return e.FS }

func (e engineFS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	f := engineFile{File: file}
	if _, isLog := logNumber(e.PathBase(name)); isLog {
		f.fail = e.d.fail
	}
	if err = f.check("begin", err); err != nil {
		return nil, err
	}
	return f, nil
}

// engineFile is a file that the engine writes.
type engineFile struct {
	vfs.File

	fail func(error) // ends the store; nil unless the file is a log
}

func (f engineFile) check(what string, err error) error {
	if err != nil && f.fail != nil {
		f.fail(fmt.Errorf("%s log: %w", what, err))
	}
	return err
}

func (f engineFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.check("write", err)
}

func (f engineFile) Sync() error     { return f.check("sync", f.File.Sync()) }
func (f engineFile) SyncData() error { return f.check("sync", f.File.SyncData()) }
func (f engineFile) Close() error    { return f.check("close", f.File.Close()) }

// Preallocate reserves nothing.
func (engineFile) Preallocate(int64, int64) error { return nil }

// privateFS is the file system of the machine, on which all that is made is for its user alone, whatever the
// umask. The one below makes files with 0666.
type privateFS struct{ vfs.FS }

// Create implements vfs.FS.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := p.FS.Create(name, category)
	return private(name, file, err)
}

// OpenReadWrite implements vfs.FS.
func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := p.FS.OpenReadWrite(name, category, opts...)
	return private(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (p privateFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := p.FS.ReuseForWrite(from, to, category)
	return private(to, file, err)
}

// MkdirAll implements vfs.FS. Who asks for a directory does not choose its permissions.
func (p privateFS) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, dirPerm) }

// Lock implements vfs.FS.
func (p privateFS) Lock(name string) (io.Closer, error) {
	lock, err := p.FS.Lock(name)
	return private(name, lock, err)
}

// Unwrap returns the file system below.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// private takes a file that was just made from all but its user.
func private[F io.Closer](name string, file F, err error) (F, error) {
	if err == nil {
		if err = os.Chmod(name, filePerm); err != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return file, err
}
