//go:build linux || darwin

package executor

import (
	"io"
	"strings"
	"sync"
)

// sharedWriter writes the stderr of many commands to the worker's own stderr.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write never fails: commands must go on although nobody reads the worker's stderr any more.
func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.w.Write(p)
	return len(p), nil
}

// tailWriter forwards the output of a command and keeps its end.
type tailWriter struct {
	to   io.Writer
	mu   sync.Mutex // a process that outlives the command may still write
	tail []byte
}

// Write forwards p.
func (t *tailWriter) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.tail = append(t.tail, p[max(0, len(p)-tailBytesMax):]...)
	if over := len(t.tail) - tailBytesMax; over > 0 {
		t.tail = t.tail[:copy(t.tail, t.tail[over:])]
	}
	t.mu.Unlock()
	return t.to.Write(p)
}

// String returns the end of the output, as valid UTF-8.
func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.tail), ""))
}

// payloadReader gives a payload to a command in one piece.
type payloadReader struct{ payload []byte }

// Read implements io.Reader.
func (r *payloadReader) Read(p []byte) (int, error) {
	if len(r.payload) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.payload)
	r.payload = r.payload[n:]
	return n, nil
}

// WriteTo writes the rest of the payload without a copy.
func (r *payloadReader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.payload)
	r.payload = r.payload[n:]
	return int64(n), err
}
