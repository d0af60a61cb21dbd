package pebble

import (
	"errors"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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
