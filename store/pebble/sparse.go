package pebble

import "github.com/cockroachdb/pebble/v2/vfs"

// unreserved is a file system whose files take space as they grow. The engine reserves a tenth more than a
// full memtable for every log, and keeps up to memTablesMax+1 old ones for reuse: of a store with few tasks
// that is nearly all the space.
type unreserved struct{ vfs.FS }

func (u unreserved) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return growing{f}, nil
}

func (u unreserved) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.ReuseForWrite(from, to, category)
	if err != nil {
		return nil, err
	}
	return growing{f}, nil
}

// Unwrap returns the file system below.
func (u unreserved) Unwrap() vfs.FS { return u.FS }

// growing is a file that takes space when it is written.
type growing struct{ vfs.File }

// Preallocate reserves nothing.
func (growing) Preallocate(int64, int64) error { return nil }
