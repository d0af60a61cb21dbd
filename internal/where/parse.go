package where

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/task"
)

// ErrSyntax means that an expression cannot be read. The text says where, and what was expected.
var ErrSyntax = errors.New("bad filter")

// Parse reads an expression; an empty one selects all. Durations in it count from now. It returns ErrSyntax.
func Parse(expression string, now task.Instant) (*Filter, error) {
	if len(expression) > TextBytesMax {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrSyntax, len(expression), TextBytesMax)
	}
	if !utf8.ValidString(expression) {
		return nil, fmt.Errorf("%w: it is not UTF-8 text", ErrSyntax)
	}
	p := &parser{rest: expression, whole: expression, now: now}
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.token.kind == end {
		return &Filter{}, nil
	}
	root, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.token.kind != end {
		return nil, p.wants("and, or, or the end")
	}
	return &Filter{root}, nil
}

type tokenKind uint8

const (
	end    tokenKind = iota
	word             // bare
	quoted           // a string in quotes
	sign             // an operator, a parenthesis or a comma
)

type token struct {
	kind tokenKind
	text string
	at   int // bytes before it
}

// parser reads an expression by recursive descent, one token ahead.
type parser struct {
	whole string
	rest  string // after token
	token token
	terms int
	now   task.Instant
}

// at returns an error about a place, which people count from 1 in characters.
func (p *parser) at(bytes int, format string, args ...any) error {
	return fmt.Errorf("%w at character %d: %s", ErrSyntax, utf8.RuneCountInString(p.whole[:bytes])+1, fmt.Sprintf(format, args...))
}

func (p *parser) wants(what string) error {
	if p.token.kind == end {
		return p.at(p.token.at, "it ends here; want %s", what)
	}
	return p.at(p.token.at, "found %s; want %s", quoteShort(p.token.text), what)
}

func quoteShort(text string) string {
	const most = 40
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}

const (
	blanks   = " \t\r\n"
	signs    = "()=!~<>,"
	notAWord = blanks + signs + `"'`
)

// next reads the next token.
func (p *parser) next() error {
	p.rest = strings.TrimLeft(p.rest, blanks)
	at := len(p.whole) - len(p.rest)
	switch {
	case p.rest == "":
		p.token = token{at: at}
		return nil
	case p.rest[0] == '"' || p.rest[0] == '\'':
		return p.nextQuoted(at)
	}
	n := strings.IndexAny(p.rest, notAWord)
	kind := word
	switch {
	case n < 0:
		n = len(p.rest)
	case n == 0:
		kind, n = sign, 1
		if len(p.rest) > 1 && slices.Contains([]string{"!=", "<=", ">="}, p.rest[:2]) {
			n = 2
		}
	}
	p.token, p.rest = token{kind, p.rest[:n], at}, p.rest[n:]
	return nil
}

// nextQuoted reads a string in double or single quotes. A backslash makes the next character stand for
// itself.
func (p *parser) nextQuoted(at int) error {
	var b strings.Builder
	quote := p.rest[0]
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.token, p.rest = token{quoted, b.String(), at}, p.rest[i+1:]
			return nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return p.at(at, "a string begins here, and its closing %c is missing", quote)
}

func (p *parser) isWord(text string) bool {
	return p.token.kind == word && strings.EqualFold(p.token.text, text)
}

func (p *parser) isSign(text string) bool { return p.token.kind == sign && p.token.text == text }

func (p *parser) or(depth int) (node, error) {
	parts, err := p.joined("or", p.and, depth)
	if err != nil || len(parts) > 1 {
		return some(parts), err
	}
	return parts[0], nil
}

// joined returns the parts between which a word stands; at least one without an error.
func (p *parser) joined(by string, parse func(depth int) (node, error), depth int) (parts []node, err error) {
	for isFirst := true; isFirst || p.isWord(by); isFirst = false {
		if !isFirst {
			if err := p.next(); err != nil {
				return nil, err
			}
		}
		part, err := parse(depth)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (p *parser) and(depth int) (node, error) {
	parts, err := p.joined("and", p.factor, depth)
	if err != nil || len(parts) > 1 {
		return all(parts), err
	}
	return parts[0], nil
}

func (p *parser) factor(depth int) (node, error) {
	if depth > depthMax {
		return nil, p.at(p.token.at, "nested deeper than %d levels", depthMax)
	}
	switch {
	case p.isWord("not"):
		if err := p.next(); err != nil {
			return nil, err
		}
		of, err := p.factor(depth + 1)
		return not{of}, err
	case p.isSign("("):
		if err := p.next(); err != nil {
			return nil, err
		}
		inside, err := p.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.isSign(")") {
			return nil, p.wants("and, or, or )")
		}
		return inside, p.next()
	}
	return p.term()
}

func (p *parser) term() (node, error) {
	if p.terms++; p.terms > TermsMax {
		return nil, p.at(p.token.at, "more than %d comparisons", TermsMax)
	}
	f, err := p.field()
	if err != nil {
		return nil, err
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	t := &term{field: f}
	if err := p.operator(t); err != nil {
		return nil, err
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if t.op == "in" {
		return t, p.list(t)
	}
	if err := p.value(t); err != nil {
		return nil, err
	}
	if prefix, is := strings.CutPrefix(strings.Join(t.texts, ""), begins); is && t.op == "~" {
		t.op, t.texts = begins, []string{prefix}
	}
	return t, nil
}

func (p *parser) field() (field, error) {
	if p.token.kind != word {
		return field{}, p.wants("a field (" + FieldNames() + ")")
	}
	name := p.token.text
	if tag, is := strings.CutPrefix(name, tagPrefix); is {
		if tag == "" || len(tag) > task.TagNameBytesMax {
			return field{}, p.at(p.token.at, "%s is no tag; want tag.NAME with a name of 1 to %d bytes", quoteShort(name), task.TagNameBytesMax)
		}
		return tagField(tag), nil
	}
	for _, f := range fields {
		if f.name == name {
			return f, nil
		}
	}
	return field{}, p.at(p.token.at, "unknown field %s; want one of %s", quoteShort(name), FieldNames())
}

// FieldNames returns the names of all fields, for people.
func FieldNames() string {
	names := make([]string, 0, len(fields)+1)
	for _, f := range fields {
		names = append(names, f.name)
	}
	return strings.Join(slices.Insert(names, 5, tagPrefix+"NAME"), ", ")
}

// operators has those of each kind of field.
var operators = map[kind][]string{ //nolint:gochecknoglobals // a table
	text:    {"=", "!=", "~", "in"},
	state:   {"=", "!=", "in"},
	number:  {"=", "!=", "<", "<=", ">", ">=", "in"},
	instant: {"=", "!=", "<", "<=", ">", ">="},
}

func (p *parser) operator(t *term) error {
	allowed := operators[t.field.kind]
	op := p.token.text
	if p.isWord("in") {
		op = "in"
	}
	if p.token.kind != quoted && slices.Contains(allowed, op) {
		t.op = op
		return nil
	}
	return p.wants("an operator of " + t.field.name + ": " + strings.Join(allowed, " "))
}

// list reads the values of `in`.
func (p *parser) list(t *term) error {
	if !p.isSign("(") {
		return p.wants("( and the values of in, such as (a, b)")
	}
	for {
		if err := p.next(); err != nil {
			return err
		}
		if len(t.texts)+len(t.numbers) == ValuesMax {
			return p.at(p.token.at, "in has more than %d values", ValuesMax)
		}
		if err := p.value(t); err != nil {
			return err
		}
		switch {
		case p.isSign(")"):
			return p.next()
		case !p.isSign(","):
			return p.wants(", or )")
		}
	}
}

// value reads a value of the kind of the field.
func (p *parser) value(t *term) error {
	if p.token.kind != word && p.token.kind != quoted {
		return p.wants(wanted(t.field))
	}
	v := p.token.text
	switch t.field.kind {
	case state:
		if _, err := task.ParseState(v); err != nil {
			return p.wants(wanted(t.field))
		}
		t.texts = append(t.texts, v)
	case number:
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return p.wants(wanted(t.field))
		}
		t.numbers = append(t.numbers, int64(n))
	case instant:
		at, is := p.instant(v)
		if !is {
			return p.wants(wanted(t.field))
		}
		t.numbers = append(t.numbers, int64(at))
	case text:
		t.texts = append(t.texts, v)
	}
	return p.next()
}

func wanted(f field) string {
	switch f.kind {
	case state:
		return fmt.Sprintf("a state: one of %v", task.States())
	case number:
		return f.name + " as a number such as 3"
	case instant:
		return f.name + " as a time such as 2027-01-31T09:00:00Z, or as a duration from now such as -1h, +10m or -3d"
	case text:
	}
	return f.name + ` as a word or a string in quotes`
}

// instant reads a time, or a duration from now.
func (p *parser) instant(v string) (task.Instant, bool) {
	if d, err := api.ParseSignedDuration(v); err == nil {
		return p.now.Add(d), true
	}
	at, err := time.Parse(time.RFC3339Nano, v)
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return 0, false
	}
	return task.InstantOf(at), true
}
