package access

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// PatternBytesMax bounds a pattern.
const PatternBytesMax = 256

// lambdaForm is the form of a pattern of lambdas, whose names are task.CheckName's.
var lambdaForm = regexp.MustCompile(`^[A-Za-z0-9_-]{0,64}\*?$`)

// Pattern is the name of a lambda or collection, or the beginning of names, followed by a star.
type Pattern string

// Any is the pattern that matches every name, and no name.
const Any Pattern = "*"

// parsePattern checks a pattern.
func parsePattern(text string) (Pattern, error) {
	switch star := strings.IndexByte(text, '*'); {
	case text == "":
		return "", errors.New("empty pattern: want a name, or the beginning of names and a star, such as mail-*, or * for all")
	case len(text) > PatternBytesMax:
		return "", fmt.Errorf("pattern of %d bytes: want at most %d", len(text), PatternBytesMax)
	case star >= 0 && star < len(text)-1:
		return "", fmt.Errorf("pattern %.200q: want a star at the end only, such as mail-*", text)
	case strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "", fmt.Errorf("pattern %.200q: want printable characters", text)
	}
	return Pattern(text), nil
}

func parseLambdaPattern(text string) (Pattern, error) {
	p, err := parsePattern(text)
	if err == nil && !lambdaForm.MatchString(text) {
		err = fmt.Errorf("pattern %.200q matches no lambda: want 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-', or the first of them and a star", text)
	}
	return p, err
}

// Matches reports whether a name matches.
func (p Pattern) Matches(name string) bool {
	if prefix, found := strings.CutSuffix(string(p), "*"); found {
		return strings.HasPrefix(name, prefix)
	}
	return string(p) == name
}

// covers reports whether every name that matches q matches p.
func (p Pattern) covers(q Pattern) bool {
	prefix, found := strings.CutSuffix(string(p), "*")
	if !found {
		return p == q
	}
	return strings.HasPrefix(strings.TrimSuffix(string(q), "*"), prefix)
}

// and returns the pattern of the names that match both; meets: there are some.
func (p Pattern) and(q Pattern) (both Pattern, meets bool) {
	if p.covers(q) {
		return q, true
	}
	return p, q.covers(p)
}
