package pebble

import "github.com/cockroachdb/pebble/v2/vfs"

// ordered is a file system that adds two steps before operations of the engine, so that a crash leaves
// nothing that a start refuses:
//
//   - A log goes, or is used again, when the marks need it no more.
//   - The file that names the manifest in use is made when the manifest's own name is on disk. The engine
//     syncs both names together, and directory entries reach the disk in any order.
type ordered struct {
	vfs.FS
	dir   string
	marks *logMarks
}

func (o ordered) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isMarker(o.PathBase(name)) {
		if err := syncEntries(o.FS, o.dir); err != nil {
			return nil, err
		}
	}
	return o.FS.Create(name, category)
}

func (o ordered) Remove(name string) error {
	if err := o.marks.forget(o.PathBase(name)); err != nil {
		return err
	}
	return o.FS.Remove(name)
}

func (o ordered) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.marks.forget(o.PathBase(from)); err != nil {
		return nil, err
	}
	return o.FS.ReuseForWrite(from, to, category)
}

// Unwrap returns the file system below.
func (o ordered) Unwrap() vfs.FS { return o.FS }
