package jsonform

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// scanner reads valid JSON from left to right, each byte once, however deep the objects are.
type scanner struct {
	data []byte
	at   int
}

// skip goes behind a byte if that is next, and reports whether it is.
func (s *scanner) skip(c byte) bool {
	for isSpace(s.data[s.at]) {
		s.at++
	}
	if s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// isNull reports whether the next value is null.
func (s *scanner) isNull() bool {
	if !s.skip('n') {
		return false
	}
	s.at--
	return true
}

// value returns the next value or name, and goes behind it.
func (s *scanner) value() []byte {
	for isSpace(s.data[s.at]) {
		s.at++
	}
	start, depth := s.at, 0
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			for s.at++; s.data[s.at] != '"'; s.at++ {
				if s.data[s.at] == '\\' {
					s.at++
				}
			}
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == '}' || c == ']' || c == ',' || c == ':' || isSpace(c)):
			return s.data[start:s.at]
		case c == '}' || c == ']':
			depth--
		}
	}
	return s.data[start:]
}

// members calls f with the name of each member of an object, in order, before its value. where names the object in
// errors.
func (s *scanner) members(where any, f func(name string) error) error {
	if !s.skip('{') {
		return fmt.Errorf("%v: %s is no JSON object", where, Shown(s.value()))
	}
	for !s.skip('}') {
		s.skip(',')
		name, _ := unquoted(s.value())
		s.skip(':')
		if err := f(name); err != nil {
			return err
		}
	}
	return nil
}

// elements calls f before each element of a list, in order, unless the value is none.
func (s *scanner) elements(f func(n int) error) (isList bool, err error) {
	if !s.skip('[') {
		return false, nil
	}
	for n := 0; !s.skip(']'); n++ {
		s.skip(',')
		if err := f(n); err != nil {
			return true, err
		}
	}
	return true, nil
}

// unquoted returns the text that a JSON value is; false: it is none.
func unquoted(raw []byte) (text string, is bool) {
	switch {
	case raw[0] != '"':
		return "", false
	case bytes.IndexByte(raw, '\\') < 0:
		return string(raw[1 : len(raw)-1]), true
	}
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// Shown returns the beginning of a value, for an error.
func Shown(raw []byte) string {
	const bytesMax = 40
	if len(raw) <= bytesMax {
		return string(raw)
	}
	return string(bytes.ToValidUTF8(raw[:bytesMax], nil)) + "…"
}
