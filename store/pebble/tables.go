package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableNames are the data files of a store, in order.
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

// tablesIn are the data files in a directory, in order, whether the store knows them or not.
func tablesIn(files vfs.FS, dir string) ([]string, error) {
	names, err := files.List(dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	slices.Sort(names)
	return names, err
}

// openTable opens a data file by itself, beside the engine. read is told of the bytes of each read before it.
func openTable(files vfs.FS, path string, read func(n int) error) (*sstable.Reader, error) {
	file, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(toldFile{file, read})
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

// checkTable reads all blocks of a data file and compares them with their checksums.
func checkTable(files vfs.FS, path string, read func(n int) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p) // what the engine makes of some damage
		}
	}()
	table, err := openTable(files, path, read)
	if err != nil {
		return err
	}
	return errors.Join(table.ValidateBlockChecksums(), table.Close())
}

// toldFile tells of reads.
type toldFile struct {
	vfs.File

	read func(n int) error
}

func (f toldFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.read(len(p)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}
