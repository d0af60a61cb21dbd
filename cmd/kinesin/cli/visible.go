package cli

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// visible is a writer of text for people. Payloads, keys and error texts come from others, and may hold what
// a terminal obeys or shows as something else: control characters, and characters that change the direction
// of text or have no width. It writes those as escapes, which in JSON stand for the same characters.
type visible struct {
	w io.Writer

	mu   sync.Mutex
	rest []byte // the beginning of a character whose end comes with the next Write
}

// Write implements io.Writer. Its count is that of p.
func (v *visible) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.rest) == 0 && isPlain(p) {
		return v.w.Write(p)
	}
	text := slices.Concat(v.rest, p)
	v.rest = nil
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1 && !utf8.FullRune(text):
			v.rest, size = append([]byte(nil), text...), len(text)
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case !isVisible(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
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

// isVisible reports whether a terminal shows a character as itself. Characters of the category Cf are those
// for directions, and those without a width; beyond 16 bits they are tags, of which nothing is left out.
func isVisible(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return true
	case unicode.IsControl(r):
		return false
	}
	return r > 0xFFFF || !unicode.Is(unicode.Cf, r) && r != '\u2028' && r != '\u2029'
}
