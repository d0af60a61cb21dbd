package task

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of tags.
const (
	TagsMax          = 16
	TagNameBytesMax  = 64
	TagValueBytesMax = 256
)

// Tag is a name and a value that a task carries for its users: they filter by it, and Kinesin does not read
// it.
type Tag struct {
	Name  string `row:"1"`
	Value string `row:"2"`
}

// TagsOf returns tags in order of their names. It returns ErrInvalid, and says what is allowed, when there
// are too many, or for a name or value that is too long, not UTF-8 or has control characters. A name has no
// "=" and no spaces, so that it can be typed.
func TagsOf(values map[string]string) ([]Tag, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if len(values) > TagsMax {
		return nil, fmt.Errorf("%w tags: %d, want at most %d", ErrInvalid, len(values), TagsMax)
	}
	tags := make([]Tag, 0, len(values))
	for name, value := range values {
		if name == "" || len(name) > TagNameBytesMax || !isPlain(name) || strings.ContainsFunc(name, isNoTagName) {
			return nil, fmt.Errorf("%w tag name %.80q: want 1 to %d bytes of UTF-8 text without '=', spaces and control characters",
				ErrInvalid, name, TagNameBytesMax)
		}
		if len(value) > TagValueBytesMax || !isPlain(value) {
			return nil, fmt.Errorf("%w value of tag %q: %d bytes, want at most %d of UTF-8 text without control characters",
				ErrInvalid, name, len(value), TagValueBytesMax)
		}
		tags = append(tags, Tag{name, value})
	}
	slices.SortFunc(tags, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	return tags, nil
}

func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func isNoTagName(r rune) bool { return r == '=' || unicode.IsSpace(r) }

// TagValues returns tags as a map; nil for none.
func TagValues(tags []Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	values := make(map[string]string, len(tags))
	for _, tag := range tags {
		values[tag.Name] = tag.Value
	}
	return values
}
