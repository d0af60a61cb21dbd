package api

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns a text in which what a terminal obeys or shows as something else is escaped: control
// characters but line feed and tab, characters that change the direction of text or have no width, and bytes
// that are no UTF-8. In JSON the escapes of characters stand for the same characters.
func Visible(text string) string {
	if isVisibleText(text) {
		return text
	}
	return string(AppendVisible(nil, []byte(text)))
}

// AppendVisible appends to dst what Visible returns for a text.
func AppendVisible(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = fmt.Appendf(dst, `\x%02x`, text[0])
		case isVisible(r):
			dst = append(dst, text[:size]...)
		case r > 0xFFFF:
			first, second := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, first, second)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		text = text[size:]
	}
	return dst
}

func isVisibleText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !isVisible(r) })
}

// isVisible reports whether a terminal shows a character as itself. Characters of the category Cf are those
// for directions, those without a width, and tags.
func isVisible(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= ' ' && r != 0x7f || r == '\n' || r == '\t'
	case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
		return false
	case r > 0xFFFF && unicode.Is(unicode.Variation_Selector, r): // those below choose between text and emoji
		return false
	}
	return !unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)
}
