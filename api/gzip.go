package api

import (
	"compress/gzip"
	"fmt"
	"io"

	"connectrpc.com/connect"
)

// Limits of what a compressed request becomes. Text compresses ten times; what expands much more is made to
// fill memory.
const (
	expandMax       = 32
	expandFreeBytes = 1 << 20 // expands as much as it likes
)

// boundedGzip replaces connect's decompression, whose only limit is the size of a message.
func boundedGzip() connect.HandlerOption {
	return connect.WithCompression("gzip",
		func() connect.Decompressor { return &expander{} },
		func() connect.Compressor { return gzip.NewWriter(io.Discard) })
}

// expander decompresses a request and gives up when it expands too much.
type expander struct {
	gzip.Reader

	from     counter
	expanded int64
}

// Reset implements connect.Decompressor.
func (e *expander) Reset(r io.Reader) error {
	e.from, e.expanded = counter{r: r}, 0
	return e.Reader.Reset(&e.from)
}

// Read implements connect.Decompressor.
func (e *expander) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	e.expanded += int64(n)
	if e.expanded > expandFreeBytes && e.expanded > expandMax*e.from.n {
		return 0, fmt.Errorf("the request expands to more than %d times its size: send it without compression", expandMax)
	}
	return n, err
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
