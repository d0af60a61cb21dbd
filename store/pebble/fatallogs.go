package pebble

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fatalLogs is a file system that ends the store when a log cannot be made, written, synced or closed. The
// engine panics on some of that, in places where Go then reports a broken mutex and not what the disk
// answered.
type fatalLogs struct {
	vfs.FS
	fail func(error)
}

func (l fatalLogs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := l.FS.Create(name, category)
	return l.watched(name, file, err)
}

func (l fatalLogs) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := l.FS.ReuseForWrite(from, to, category)
	return l.watched(to, file, err)
}

func (l fatalLogs) watched(name string, file vfs.File, err error) (vfs.File, error) {
	if _, isLog := logNumber(l.PathBase(name)); !isLog {
		return file, err
	}
	w := watchedLog{file, l.fail}
	if err = w.check("begin", err); err != nil {
		return nil, err
	}
	return w, nil
}

// Unwrap returns the file system below.
func (l fatalLogs) Unwrap() vfs.FS { return l.FS }

// watchedLog is a log whose failures end the store.
type watchedLog struct {
	vfs.File

	fail func(error)
}

func (w watchedLog) check(what string, err error) error {
	if err != nil {
		w.fail(fmt.Errorf("%s log: %w", what, err))
	}
	return err
}

func (w watchedLog) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	return n, w.check("write", err)
}

func (w watchedLog) Sync() error     { return w.check("sync", w.File.Sync()) }
func (w watchedLog) SyncData() error { return w.check("sync", w.File.SyncData()) }
func (w watchedLog) Close() error    { return w.check("close", w.File.Close()) }
