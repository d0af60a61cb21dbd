package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/store"
)

// checkManifest refuses a manifest with damage that no crash explains. The engine takes an invalid record for
// the torn end of the last write and goes on with the records before it. In a damaged manifest these may
// describe an empty store, although all its data files are there.
func (d *Driver) checkManifest(path string) error {
	content, err := readFile(d.cfg.FS, path)
	if err != nil {
		return err
	}
	at := 0
	for at < len(content) {
		if left := blockLen - at%blockLen; left < manifestHeader {
			at += left // padding
			continue
		}
		found, ok := manifestChunk(content, at)
		if !ok {
			break
		}
		at += found.size()
	}
	if at < len(content) && !tornAt(content, at) {
		return fmt.Errorf("%w: %s is damaged at byte %d of %d", store.ErrCorrupt, path, at, len(content))
	}
	return nil
}

// manifestChunk returns the chunk at an offset of a manifest; ok is false when there is none.
func manifestChunk(content []byte, at int) (found chunk, ok bool) {
	block := min(len(content), at-at%blockLen+blockLen)
	found, ok = chunkAt(content[at:block])
	return found, ok && found.header == manifestHeader
}

// tornAt reports whether a crash may have left the invalid chunk at an offset: it is the last one, and it is
// short or its end was never written.
func tornAt(content []byte, at int) bool {
	for next := at + 1; next < len(content); next++ {
		if _, ok := manifestChunk(content, next); ok {
			return false
		}
	}
	rest := content[at:]
	if len(rest) < manifestHeader {
		return true
	}
	short := manifestHeader+int(binary.LittleEndian.Uint16(rest[4:])) > len(rest)
	return short && !checksumFits(rest) || bytes.HasSuffix(rest, make([]byte, manifestHeader))
}

// unfinishedLogBytesMax is more than the log of a store that is being created holds.
const unfinishedLogBytesMax = 4 << 10

// clearUnfinished removes what a crash left of a store that was being created. Nothing in it was
// acknowledged, and names reach the disk in any order, so that the engine refuses some of the remains. It
// removes nothing when the directory holds more than such a store can: somebody has put files there since.
func (d *Driver) clearUnfinished() error {
	marks, _, err := readMarks(d.cfg.FS, d.dir)
	if err != nil || !marks.New {
		return nil //nolint:nilerr // checkLogs reports it
	}
	found, err := listDir(d.cfg.FS, d.dir)
	if err != nil || len(found.tables) > 0 {
		return err
	}
	var unfinished []string
	for _, name := range found.names {
		path := d.cfg.FS.PathJoin(d.dir, name)
		if _, isLog := logNumber(name); isLog {
			if info, err := d.cfg.FS.Stat(path); err != nil || info.Size() > unfinishedLogBytesMax {
				return err
			}
		} else if !strings.HasPrefix(name, "MANIFEST-") && !strings.HasPrefix(name, "OPTIONS-") && !strings.HasPrefix(name, "marker.") {
			continue
		}
		unfinished = append(unfinished, path)
	}
	for _, path := range unfinished {
		if err := d.cfg.FS.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
