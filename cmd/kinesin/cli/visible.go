package cli

import (
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api"
)

// visible is a writer of text for people. Payloads, keys and error texts come from others, and may hold what
// a terminal obeys or shows as something else: control characters, and characters that change the direction
// of text or have no width. It writes those as api.Visible does.
type visible struct {
	w      io.Writer
	before func() // is called before each Write, unless it is nil

	mu   sync.Mutex
	rest []byte // the beginning of a character whose end comes with the next Write
}

// Write implements io.Writer. Its count is that of p.
func (v *visible) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.before != nil {
		v.before()
	}
	if len(v.rest) == 0 && isPlain(p) {
		return v.w.Write(p)
	}
	text := slices.Concat(v.rest, p)
	v.rest = nil
	if cut := len(text) - incomplete(text); cut < len(text) {
		v.rest, text = slices.Clone(text[cut:]), text[:cut]
	}
	out := api.AppendVisible(make([]byte, 0, len(text)), text)
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isPlain reports whether a text is of ASCII characters that a terminal shows, as most is.
func isPlain(p []byte) bool {
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// incomplete returns how many bytes at the end are the beginning of a character.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.RuneStart(text[len(text)-n]) {
			if utf8.FullRune(text[len(text)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}
