package pebble

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log may end in a write that a crash interrupted, so Pebble takes the first record that fails its checksum
// for the end. Damage further up would lose everything behind it without a word. Pebble guards against that
// with the offset it had synced, noted in later records, but counts only a part of the bytes (2.1.7,
// record/log_writer.go: blocks that were filled do not enter writtenOffset), so that large writes go
// unguarded. Therefore every group carries a mark as the first thing in its batch: the sequence number of the
// last batch that was known to be on disk.
//
// logCheck looks for a mark behind the damage which says that a batch not found before the damage was on
// disk. What is missing at the end of a log, where nothing is behind it, is noticed by logMarks.

// markTag and a sequence number are a mark.
const (
	markTag = 'W'
	markLen = 1 + 8
)

func appendMark(dst []byte, synced uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, markTag), synced)
}

// logNames are the logs in a directory, by number.
func logNames(files vfs.FS, dir string) (names map[uint64]string, err error) {
	all, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	names = map[uint64]string{}
	for _, name := range all {
		if number, ok := logNumber(files.PathBase(name)); ok {
			names[number] = files.PathBase(name)
		}
	}
	return names, nil
}

// logNumber is the number of a log by its name; ok is false for other files.
func logNumber(name string) (number uint64, ok bool) {
	text, isLog := strings.CutSuffix(name, ".log")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, isLog && err == nil
}

// readLog checks one log.
func readLog(files vfs.FS, path string, number uint64, c *logCheck) error {
	file, err := files.Open(path)
	if err != nil {
		return err
	}
	c.number = uint32(number)
	return errors.Join(c.read(file), file.Close())
}

// The format of a log: blocks of 32 KiB with chunks that do not cross them. A chunk is
//
//	0..3   checksum of what follows it
//	4..5   length of the content
//	6      kind
//	7..10  low half of the log's number
//	11..18 synced offset; the first log of a new store has chunks without it
//	19..   content: a batch or a part of one, which begins with sequence number (8) and count (4)
const (
	logBlockLen = 32 << 10
	chunkHeader = 19
	shortHeader = 11 // of the kinds below chunkFull, which are the same four in the same order
	shortKinds  = 4
	chunkFull   = 9
	chunkFirst  = 10
	chunkMiddle = 11
	chunkLast   = 12
	batchHeader = 12
	kindLogData = 3
)

// logCheck reads one log.
type logCheck struct {
	number uint32

	damaged bool   // a chunk failed its checks; what follows is behind it
	lost    bool   // something behind the damage proves that writes are missing which were on disk
	ended   bool   // the log says that it ends here, as one does that was closed
	open    uint64 // sequence number of the batch whose first chunk was read last
	openEnd uint64 // the one behind it
	whole   uint64 // of the last whole batch before the damage; 0 for none
	end     uint64 // the one behind it; 0 for none
	sound   int64  // offset behind it
	behind  uint64 // of the first batch behind the damage; 0 for none
	offset  int64  // of the damage

	batch  func(content []byte) // called with each whole batch, also behind the damage, unless nil
	pieces []byte               // of the batch that is being read; empty between two
}

func (c *logCheck) read(file io.Reader) error {
	block := make([]byte, logBlockLen)
	for at := int64(0); !c.ended; at += logBlockLen {
		n, err := io.ReadFull(file, block)
		if n > 0 {
			c.block(block[:n], at)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block reads the chunks of one block. Behind damage nothing says where the next chunk begins, so every
// offset is tried: that a chunk of this log is there by chance is as unlikely as that its checksum is.
func (c *logCheck) block(b []byte, at int64) {
	for off := 0; len(b)-off >= shortHeader; {
		kind, content, size := c.chunk(b[off:])
		switch {
		case c.ended:
			return
		case kind == 0 && len(b)-off < chunkHeader:
			return // too short for a chunk with a long header: padding
		case kind == 0:
			if !c.damaged {
				c.damaged, c.offset, c.pieces = true, at+int64(off), c.pieces[:0]
			}
			off++
			continue
		case c.damaged:
			c.lost = c.lost || c.proves(kind, content)
			c.assemble(kind, content)
		default:
			c.count(kind, content, at+int64(off+size))
			c.assemble(kind, content)
		}
		off += size
	}
}

var logTable = crc32.MakeTable(crc32.Castagnoli)

// chunk reads one chunk; kind is 0 when there is none of this log.
func (c *logCheck) chunk(b []byte) (kind byte, content []byte, size int) {
	length := int(binary.LittleEndian.Uint16(b[4:]))
	kind = b[6]
	number := binary.LittleEndian.Uint32(b[7:])
	if number == c.number+1 && length == 0 && kind != 0 && !c.damaged {
		c.ended = true
		return 0, nil, 0
	}
	header := chunkHeader
	if kind < chunkFull {
		kind, header = kind+shortKinds, shortHeader
	}
	size = header + length
	if kind < chunkFull || kind > chunkLast || number != c.number || size > len(b) {
		return 0, nil, 0
	}
	sum := crc32.Checksum(b[6:size], logTable)
	if binary.LittleEndian.Uint32(b) != (sum>>15|sum<<17)+0xa282ead8 {
		return 0, nil, 0
	}
	return kind, b[header:size], size
}

// count notes the whole batches before the damage; end is the offset behind the chunk.
func (c *logCheck) count(kind byte, content []byte, end int64) {
	if seq, ok := batchSeq(kind, content); ok {
		c.open, c.openEnd = seq, seq+uint64(binary.LittleEndian.Uint32(content[8:]))
	}
	if kind == chunkFull || kind == chunkLast {
		c.whole, c.end, c.sound = c.open, c.openEnd, end
	}
}

// assemble puts the chunks of a batch together. One whose beginning was not found is passed over.
func (c *logCheck) assemble(kind byte, content []byte) {
	if c.batch == nil {
		return
	}
	if kind == chunkFull || kind == chunkFirst {
		c.pieces = c.pieces[:0]
	} else if len(c.pieces) == 0 {
		return
	}
	c.pieces = append(c.pieces, content...)
	if kind == chunkFull || kind == chunkLast {
		c.batch(c.pieces)
		c.pieces = c.pieces[:0]
	}
}

// proves looks at a chunk behind the damage: does its mark say that a batch was on disk that is
// behind the last whole one before the damage, or a batch that is itself behind the damage?
func (c *logCheck) proves(kind byte, content []byte) bool {
	seq, ok := batchSeq(kind, content)
	if !ok {
		return false
	}
	if c.behind == 0 {
		c.behind = seq
	}
	synced, ok := batchMark(content)
	return ok && synced != 0 && ((c.whole != 0 && synced > c.whole) || synced >= c.behind)
}

// batchSeq is the sequence number of a batch that begins in a chunk.
func batchSeq(kind byte, content []byte) (seq uint64, ok bool) {
	if (kind != chunkFull && kind != chunkFirst) || len(content) < batchHeader {
		return 0, false
	}
	return binary.LittleEndian.Uint64(content), true
}

// batchMark is the mark of a batch, if it is ours and its beginning is long enough.
func batchMark(content []byte) (synced uint64, ok bool) {
	mark := content[min(batchHeader, len(content)):]
	if len(mark) < 2+markLen || mark[0] != kindLogData || mark[1] != markLen || mark[2] != markTag {
		return 0, false
	}
	return binary.LittleEndian.Uint64(mark[3:]), true
}
