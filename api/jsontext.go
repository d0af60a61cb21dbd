package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const wantText = "want text in UTF-8"

// CheckJSONText refuses JSON with what is no text: half of a surrogate pair, such as \ud800, or bytes that are
// no UTF-8. Decoders put U+FFFD in their place, so that different keys would become one. The error names the
// field. Malformed JSON is left to the decoder.
func CheckJSONText(data []byte) error {
	if at := invalidByte(data); at >= 0 {
		return notText(data, at, fmt.Sprintf(`byte \x%02x is no UTF-8`, data[at]))
	}
	for at := 0; ; {
		next := bytes.IndexByte(data[at:], '\\')
		if next < 0 {
			return nil
		}
		at += next
		first, isUnicode := unicodeEscape(data[at:])
		switch {
		case !isUnicode:
			at += len(`\"`)
		case !utf16.IsSurrogate(first):
			at += len(`\u0000`)
		default:
			second, _ := unicodeEscape(data[at+len(`\u0000`):])
			if utf16.DecodeRune(first, second) == unicode.ReplacementChar {
				return notText(data, at, fmt.Sprintf(`\u%04x is half of a surrogate pair`, first))
			}
			at += len(`\u0000\u0000`)
		}
		if at >= len(data) {
			return nil
		}
	}
}

// invalidByte returns the index of the first byte that is no UTF-8; -1: there is none.
func invalidByte(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// unicodeEscape returns the UTF-16 unit of an escape such as \u00e4 at the beginning of a text.
func unicodeEscape(text []byte) (unit rune, is bool) {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[len(`\u`):len(`\u0000`)]), 16, 16)
	return rune(n), err == nil
}

// notText says what is wrong with the text at an index of a JSON value, and where that is; nil: the value is
// malformed before it.
func notText(data []byte, at int, what string) error {
	var open []jsonPlace // the objects and lists around
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		if err != nil {
			return nil //nolint:nilerr // the decoder says it
		}
		top := len(open) - 1
		isName := top >= 0 && !open[top].isList && !open[top].named
		if d.InputOffset() > int64(at) {
			where := pathOf(open)
			if isName {
				where = "a name in " + where
			}
			return fmt.Errorf("%s: %s; %s", where, what, wantText+", or with \\u escapes of whole characters")
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			open = append(open, jsonPlace{isList: token == json.Delim('[')})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
			top--
		default:
			if isName {
				open[top].name, open[top].named = fmt.Sprint(token), true
				continue
			}
		}
		if top >= 0 { // a value is over
			open[top].named = false
			open[top].index++
		}
	}
}

// jsonPlace is where a reader of JSON is in an object or a list.
type jsonPlace struct {
	isList, named bool // named: the value of a name is next
	index         int
	name          string
}

// pathOf names a value, such as items[0].key.
func pathOf(open []jsonPlace) string {
	const charsMax = 200
	var path strings.Builder
	for _, p := range open {
		switch {
		case p.isList:
			fmt.Fprintf(&path, "[%d]", p.index)
		case p.named && path.Len() > 0:
			path.WriteString("." + p.name)
		case p.named:
			path.WriteString(p.name)
		}
		if path.Len() > charsMax {
			return Visible(path.String()[:charsMax]) + "…"
		}
	}
	if path.Len() == 0 {
		return "the body"
	}
	return Visible(path.String())
}
