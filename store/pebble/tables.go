package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableNames returns the names of a store's data files, in order.
func tableNames(db *pebbledb.DB) ([]string, error) {
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, level := range levels {
		for i := range level {
			names = append(names, level[i].BackingSSTNum.String()+".sst")
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// openTable opens a data file without the engine. It calls read before each read, with the number of bytes.
func openTable(files vfs.FS, path string, read func(n int) error) (*sstable.Reader, error) {
	file, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(observedFile{file, read})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	var o pebbledb.Options
	o.EnsureDefaults()
	table, err := sstable.NewReader(context.Background(), readable, o.MakeReaderOptions())
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	return table, nil
}

// checkTable compares all blocks of a data file with their checksums.
func checkTable(files vfs.FS, path string, read func(n int) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p) // the engine panics on some damage
		}
	}()
	table, err := openTable(files, path, read)
	if err != nil {
		return err
	}
	return errors.Join(table.ValidateBlockChecksums(), table.Close())
}

// observedFile calls read before each read.
type observedFile struct {
	vfs.File

	read func(n int) error
}

func (f observedFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.read(len(p)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}
