package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// The manifest is a log of which files make up the store. The engine takes a record of it that is invalid for
// the torn end of its last write, and goes on with what stands before it. If the file was damaged, that may
// be a store without its tables, all of whose tasks are gone. So we look before it does.
//
// A manifest consists of blocks, as a log does, and those of chunks: checksum (4), length of the content (2),
// kind (1), content.
const (
	editHeader = 7
	editFull   = 1
	editLast   = 4
)

// checkManifest refuses a manifest with damage that no crash explains.
func (d *Driver) checkManifest(path string) error {
	file, err := d.cfg.FS.Open(path)
	if err != nil {
		return d.openError(err)
	}
	content, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return d.openError(err)
	}
	if at, ok := soundChunks(content); !ok && !tornAt(content, at) {
		return d.openError(fmt.Errorf("%w: %s is damaged at byte %d of %d", store.ErrCorrupt, path, at, len(content)))
	}
	return nil
}

// soundChunks returns where the first invalid chunk is, if there is one.
func soundChunks(content []byte) (at int, ok bool) {
	for at < len(content) {
		if left := logBlockLen - at%logBlockLen; left < editHeader {
			at += left // padding
			continue
		}
		n := chunkAt(content, at)
		if n == 0 {
			return at, false
		}
		at += n
	}
	return at, true
}

// chunkAt is the size of the valid chunk that begins there, 0 if there is none.
func chunkAt(content []byte, at int) int {
	if at+editHeader > len(content) {
		return 0
	}
	size := editHeader + int(binary.LittleEndian.Uint16(content[at+4:]))
	end := at + size
	if kind := content[at+6]; kind < editFull || kind > editLast || end > len(content) || at%logBlockLen+size > logBlockLen {
		return 0
	}
	if !checksumFits(content[at:end]) {
		return 0
	}
	return size
}

func checksumFits(chunk []byte) bool {
	c := crc32.Checksum(chunk[6:], logTable)
	return binary.LittleEndian.Uint32(chunk) == (c>>15|c<<17)+0xa282ead8
}

// tornAt reports whether the invalid chunk can be what a crash left of the last write: it is the last one,
// and it is short or its end was never written.
func tornAt(content []byte, at int) bool {
	for next := at + 1; next < len(content); next++ {
		if chunkAt(content, next) != 0 {
			return false
		}
	}
	rest := content[at:]
	if len(rest) < editHeader {
		return true
	}
	short := editHeader+int(binary.LittleEndian.Uint16(rest[4:])) > len(rest)
	return short && !checksumFits(rest) || bytes.HasSuffix(rest, make([]byte, editHeader))
}

// hasTables reports whether there are data files in a directory.
func hasTables(files vfs.FS, dir string) bool {
	names, err := tablesIn(files, dir)
	return err == nil && len(names) > 0
}

// checkEmpty refuses a directory without a manifest where there are files that one would know.
func (d *Driver) checkEmpty() error {
	logs, err := logNames(d.cfg.FS, d.dir)
	if err != nil {
		return d.openError(err)
	}
	if len(logs) > 0 || hasTables(d.cfg.FS, d.dir) {
		return d.openError(fmt.Errorf("%w: there are logs or data files, and no manifest that knows them", store.ErrCorrupt))
	}
	return nil
}

// unfinishedLogBytesMax is more than is in the log of a store that is being made.
const unfinishedLogBytesMax = 4 << 10

// clearUnfinished removes what a crash left of a store that was being made, of which nothing was
// acknowledged: directory entries reach the disk in any order, and the engine refuses some of the outcomes.
// It leaves alone what holds more than such a store can: somebody has put files there since.
func (d *Driver) clearUnfinished() error {
	marks, _, err := readMarks(d.cfg.FS, d.dir)
	if err != nil || !marks.New {
		return nil //nolint:nilerr // checkLogs says what is wrong
	}
	names, err := d.cfg.FS.List(d.dir)
	if err != nil {
		return d.openError(err)
	}
	var unfinished []string
	for _, name := range names {
		path := d.cfg.FS.PathJoin(d.dir, name)
		if _, isLog := logNumber(name); isLog {
			if info, err := d.cfg.FS.Stat(path); err != nil || info.Size() > unfinishedLogBytesMax {
				return err
			}
		} else if strings.HasSuffix(name, ".sst") {
			return nil
		} else if !strings.HasPrefix(name, "MANIFEST-") && !strings.HasPrefix(name, "OPTIONS-") && !strings.HasPrefix(name, "marker.") {
			continue
		}
		unfinished = append(unfinished, path)
	}
	for _, path := range unfinished {
		if err := d.cfg.FS.Remove(path); err != nil {
			return d.openError(err)
		}
	}
	return nil
}

// holdsStore reports whether there is a store among the files of a directory, or what is left of one.
func holdsStore(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, isLog := logNumber(name)
		return isLog || name == marksName || strings.HasPrefix(name, "MANIFEST-") || strings.HasSuffix(name, ".sst")
	})
}
