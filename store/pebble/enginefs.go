package pebble

import (
	"fmt"

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
