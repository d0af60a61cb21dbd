package pebble

import (
	"encoding/binary"
	"hash/crc32"
)

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
