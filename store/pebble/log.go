package pebble

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A crash may interrupt the last write of a log, so the engine takes the first record that fails its checksum
// for the end of the log. Damage before the end would then silently lose everything behind it. The engine
// notes synced offsets in later records against that, but counts only a part of the bytes (2.1.7,
// record/log_writer.go: filled blocks do not enter writtenOffset), so that large writes are unprotected.
// Therefore every group begins with a mark: the sequence number of the last batch that was known to be on
// disk.
//
// logCheck looks behind the damage for a mark which says that a batch was on disk that the part before the
// damage does not have. Nothing follows the end of a log, so logMarks notices what is missing there.

// A mark is markTag and a sequence number.
const (
	markTag = 'W'
	markLen = 1 + 8
)

func appendMark(dst []byte, synced uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, markTag), synced)
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

// A record of a log is a batch: sequence number (8), count of its entries (4), and the entries.
const (
	batchHeader = 12
	kindLogData = 3
)

// logCheck reads one log.
type logCheck struct {
	number uint32

	damaged bool   // a chunk failed its checks; what follows is behind the damage
	lost    bool   // something behind the damage proves that writes are missing which were on disk
	ended   bool   // the log has a trailer, as one has that was closed
	head    []byte // of the batch that is being read: its header, which may be split between two chunks
	open    uint64 // sequence number of the batch whose first chunk was read last
	openEnd uint64 // the sequence number behind that batch
	whole   uint64 // sequence number of the last whole batch before the damage; 0 for none
	end     uint64 // the sequence number behind that batch; 0 for none
	sound   int64  // the offset behind that batch
	behind  uint64 // sequence number of the first batch behind the damage; 0 for none
	offset  int64  // of the damage

	batch  func(content []byte) // if not nil, called with each whole batch, also with those behind the damage
	pieces []byte               // of the batch that is being read; empty between two
}

func (c *logCheck) read(file io.Reader) error {
	block := make([]byte, blockLen)
	for at := int64(0); !c.ended; at += blockLen {
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

// block reads the chunks of one block. Behind damage nothing says where the next chunk begins, so it tries
// every offset; the checksum makes a chunk by chance unlikely.
func (c *logCheck) block(b []byte, at int64) {
	for off := 0; len(b)-off >= shortHeader; {
		found, ok := c.chunk(b[off:])
		switch {
		case c.ended:
			return
		case !ok && len(b)-off < longHeader:
			return // padding
		case !ok:
			if !c.damaged {
				c.damaged, c.offset, c.pieces = true, at+int64(off), c.pieces[:0]
			}
			off++
			continue
		case c.damaged:
			c.lost = c.lost || c.proves(&found)
		default:
			c.count(&found, at+int64(off+found.size()))
		}
		c.assemble(&found)
		off += found.size()
	}
}

// chunk reads one chunk of this log, or its trailer.
func (c *logCheck) chunk(b []byte) (found chunk, ok bool) {
	number := binary.LittleEndian.Uint32(b[7:])
	if number == c.number+1 && b[4] == 0 && b[5] == 0 && b[6] != 0 && !c.damaged {
		c.ended = true
		return found, false
	}
	if number != c.number {
		return found, false
	}
	found, ok = chunkAt(b)
	return found, ok && found.header != manifestHeader
}

// count notes the whole batches before the damage; end is the offset behind the chunk.
func (c *logCheck) count(found *chunk, end int64) {
	if found.kind == chunkFull || found.kind == chunkFirst {
		c.head = c.head[:0]
	}
	c.head = append(c.head, found.content[:min(len(found.content), batchHeader-len(c.head))]...)
	if len(c.head) == batchHeader {
		c.open = binary.LittleEndian.Uint64(c.head)
		c.openEnd = c.open + uint64(binary.LittleEndian.Uint32(c.head[8:]))
	}
	if found.kind == chunkFull || found.kind == chunkLast {
		c.whole, c.end, c.sound = c.open, c.openEnd, end
	}
}

// assemble puts the chunks of a batch together. It passes over a batch whose first chunk was not found.
func (c *logCheck) assemble(found *chunk) {
	if c.batch == nil {
		return
	}
	if found.kind == chunkFull || found.kind == chunkFirst {
		c.pieces = c.pieces[:0]
	} else if len(c.pieces) == 0 {
		return
	}
	c.pieces = append(c.pieces, found.content...)
	if found.kind == chunkFull || found.kind == chunkLast {
		c.batch(c.pieces)
		c.pieces = c.pieces[:0]
	}
}

// proves reports whether the mark in a chunk behind the damage says that a batch was on disk which is itself
// behind the damage, or behind the last whole batch before it.
func (c *logCheck) proves(found *chunk) bool {
	seq, ok := batchSeq(found)
	if !ok {
		return false
	}
	if c.behind == 0 {
		c.behind = seq
	}
	synced, ok := batchMark(found.content)
	return ok && synced != 0 && ((c.whole != 0 && synced > c.whole) || synced >= c.behind)
}

// batchSeq returns the sequence number of a batch that begins in a chunk.
func batchSeq(found *chunk) (seq uint64, ok bool) {
	if (found.kind != chunkFull && found.kind != chunkFirst) || len(found.content) < batchHeader {
		return 0, false
	}
	return binary.LittleEndian.Uint64(found.content), true
}

// batchMark returns the mark of a batch, if it has one.
func batchMark(content []byte) (synced uint64, ok bool) {
	mark := content[min(batchHeader, len(content)):]
	if len(mark) < 2+markLen || mark[0] != kindLogData || mark[1] != markLen || mark[2] != markTag {
		return 0, false
	}
	return binary.LittleEndian.Uint64(mark[3:]), true
}

// Logs and manifests consist of blocks of 32 KiB, and blocks of chunks. A chunk is
//
//	0..3  checksum of what follows
//	4..5  length of the content
//	6     kind
//	7..   in a log: low half of the log's number (4), and then, in most kinds, a synced offset (8)
//	then  content: a record, or a part of one
//
// There are four kinds (full, first, middle, last) for each of the three lengths of the header.
const (
	blockLen       = 32 << 10
	manifestHeader = 7
	shortHeader    = 11
	longHeader     = 19
	chunkFull      = 0
	chunkFirst     = 1
	chunkLast      = 3
	chunkKinds     = 4
)

var chunkHeaders = [...]int{manifestHeader, shortHeader, longHeader}

// chunk is one piece of a log or a manifest.
type chunk struct {
	kind    byte // chunkFull, chunkFirst or chunkLast; 2 for one in between
	header  int  // bytes before the content
	content []byte
}

func (c *chunk) size() int { return c.header + len(c.content) }

// chunkAt returns the chunk at the begin of b; ok is false when there is none that is whole.
func chunkAt(b []byte) (c chunk, ok bool) {
	if len(b) < manifestHeader || b[6] == 0 || int(b[6]) > chunkKinds*len(chunkHeaders) {
		return c, false
	}
	c.kind, c.header = (b[6]-1)%chunkKinds, chunkHeaders[(b[6]-1)/chunkKinds]
	size := c.header + int(binary.LittleEndian.Uint16(b[4:]))
	if size > len(b) || !checksumFits(b[:size]) {
		return c, false
	}
	c.content = b[c.header:size]
	return c, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksumFits(chunk []byte) bool {
	sum := crc32.Checksum(chunk[6:], castagnoli)
	return binary.LittleEndian.Uint32(chunk) == (sum>>15|sum<<17)+0xa282ead8
}
