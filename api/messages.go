package api

import (
	"encoding/binary"
	"io"
)

// prefixBytes is the length of what stands before each message of a stream: flags, and the length of the message.
const prefixBytes = 5

// WholeMessages returns the body of a stream of messages such that a message which is there as a whole is read at once.
// Package connect writes the prefix of a message on its own, of which HTTP/2 makes a frame of its own: another system call
// here, and two or three at the server.
func WholeMessages(body io.ReadCloser) io.ReadCloser { return &wholeMessages{ReadCloser: body} }

type wholeMessages struct {
	io.ReadCloser

	left int // bytes of the message that is being read
}

// Read implements io.Reader. An HTTP transport reads into far more than a prefix.
func (m *wholeMessages) Read(p []byte) (n int, err error) {
	if m.left == 0 {
		if len(p) < prefixBytes {
			return 0, io.ErrShortBuffer
		}
		if n, err = io.ReadFull(m.ReadCloser, p[:prefixBytes]); err != nil {
			return n, err //nolint:wrapcheck // io.EOF has to stay itself
		}
		if m.left = int(binary.BigEndian.Uint32(p[1:])); m.left == 0 {
			return n, nil
		}
	}
	more, err := m.ReadCloser.Read(p[n:min(len(p), n+m.left)])
	m.left -= more
	return n + more, err //nolint:wrapcheck // io.EOF has to stay itself
}
