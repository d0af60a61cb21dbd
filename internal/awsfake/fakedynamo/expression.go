package fakedynamo

import (
	"slices"
	"strings"
)

// expr is a condition.
type expr struct {
	op   string  // "and", "or", "=", "<", "between", "attribute_exists" or "attribute_not_exists"
	path string  // of all but "and" and "or": an attribute
	with []value // what the attribute is compared with
	args []*expr // of "and" and "or"
}

// holds reports whether a condition holds for an item, which is nil when there is none. A nil condition
// holds.
func (e *expr) holds(m item) bool {
	if e == nil {
		return true
	}
	switch e.op {
	case "and":
		return e.args[0].holds(m) && e.args[1].holds(m)
	case "or":
		return e.args[0].holds(m) || e.args[1].holds(m)
	case "attribute_exists":
		return m[e.path] != nil
	case "attribute_not_exists":
		return m[e.path] == nil
	}
	v := m[e.path]
	if v == nil || typeOf(v) != typeOf(e.with[0]) {
		return false
	}
	order := strings.Compare(sortText(v), sortText(e.with[0]))
	switch e.op {
	case "=":
		return order == 0
	case "<":
		return order < 0
	}
	return order >= 0 && typeOf(v) == typeOf(e.with[1]) && sortText(v) <= sortText(e.with[1])
}

// and returns the condition that both hold, either of which may be nil.
func (e *expr) and(other *expr) *expr {
	switch {
	case e == nil:
		return other
	case other == nil:
		return e
	}
	return &expr{op: "and", args: []*expr{e, other}}
}

// parts returns the conditions that all have to hold.
func (e *expr) parts() []*expr {
	switch {
	case e == nil:
		return nil
	case e.op == "and":
		return append(e.args[0].parts(), e.args[1].parts()...)
	}
	return []*expr{e}
}

// mentions reports whether a condition is about one of the attributes.
func (e *expr) mentions(attributes []string) bool {
	if e == nil {
		return false
	}
	return slices.Contains(attributes, e.path) || slices.ContainsFunc(e.args, func(arg *expr) bool { return arg.mentions(attributes) })
}

// tokens splits a text into words, placeholders, names in quotes and marks.
func tokens(s string) (all []string) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		n := 1 // a mark
		switch {
		case s[0] == '"' || s[0] == '\'':
			n += strings.IndexByte(s[1:], s[0]) + 1
		case s[0] == ':':
			n += wordLength(s[1:])
		case wordLength(s) > 0:
			n = wordLength(s)
		}
		all, s = append(all, s[:n]), s[n:]
	}
	return all
}

func wordLength(s string) int {
	return len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
}

// parser reads an expression or a statement, and refuses what is not modelled.
type parser struct {
	text   string
	rest   []string        // tokens
	values item            // of an expression: its placeholders
	used   map[string]bool // placeholders
	params []value         // of a statement: the values of its question marks, in order
}

// newParser returns a parser of the expressions of one call, which share their placeholders.
func newParser(values item) (*parser, error) {
	normal, err := normalItem(values)
	return &parser{values: normal, used: map[string]bool{}}, err
}

// finish refuses placeholders that no expression used.
func (p *parser) finish() error {
	for name := range p.values {
		if !p.used[name] {
			return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", name)
		}
	}
	return nil
}

// peek returns the next token; empty at the end.
func (p *parser) peek() string {
	if len(p.rest) == 0 {
		return ""
	}
	return p.rest[0]
}

func (p *parser) take() string {
	token := p.peek()
	p.rest = p.rest[min(1, len(p.rest)):]
	return token
}

// accept takes a token if it is next, in any case.
func (p *parser) accept(token string) bool {
	if !strings.EqualFold(p.peek(), token) {
		return false
	}
	p.take()
	return true
}

func (p *parser) expect(tokens ...string) error {
	for _, token := range tokens {
		if !p.accept(token) {
			return p.unknown()
		}
	}
	return nil
}

func (p *parser) unknown() error { return notModelled("%q at %q", p.text, strings.Join(p.rest, " ")) }

// parse reads all of a text.
func (p *parser) parse(text string, read func() error) error {
	p.text, p.rest = text, tokens(text)
	if err := read(); err != nil {
		return err
	}
	if len(p.rest) > 0 {
		return p.unknown()
	}
	return nil
}

// condition parses a condition, a filter or a key condition; nil gives nil.
func (p *parser) condition(text *string) (e *expr, err error) {
	if text == nil {
		return nil, nil //nolint:nilnil // no condition is a condition that holds
	}
	err = p.parse(*text, func() error {
		e, err = p.or()
		return err
	})
	return e, err
}

// projection parses a list of attributes; nil gives nil, which means all.
func (p *parser) projection(text *string) (names []string, err error) {
	if text == nil {
		return nil, nil
	}
	err = p.parse(*text, func() error {
		for {
			name, err := p.attribute()
			names = append(names, name)
			if err != nil || !p.accept(",") {
				return err
			}
		}
	})
	return names, err
}

// assignments parses the update expression SET a=:a, b=:b.
func (p *parser) assignments(text string) (set item, err error) {
	set = item{}
	return set, p.parse(text, func() error {
		if err := p.expect("set"); err != nil {
			return err
		}
		for {
			if err := p.assignment(set); err != nil || !p.accept(",") {
				return err
			}
		}
	})
}

// assignment reads a=VALUE.
func (p *parser) assignment(set item) error {
	name, err := p.attribute()
	if err != nil {
		return err
	}
	if err := p.expect("="); err != nil {
		return err
	}
	set[name], err = p.value()
	return err
}

func (p *parser) or() (*expr, error) {
	left, err := p.and()
	for err == nil && p.accept("or") {
		var right *expr
		right, err = p.and()
		left = &expr{op: "or", args: []*expr{left, right}}
	}
	return left, err
}

func (p *parser) and() (*expr, error) {
	left, err := p.comparison()
	for err == nil && p.accept("and") {
		var right *expr
		right, err = p.comparison()
		left = left.and(right)
	}
	return left, err
}

func (p *parser) comparison() (e *expr, err error) {
	e = &expr{}
	if e.path, err = p.attribute(); err != nil {
		return nil, err
	}
	if e.path == "attribute_exists" || e.path == "attribute_not_exists" {
		e.op = e.path
		if err := p.expect("("); err != nil {
			return nil, err
		}
		if e.path, err = p.attribute(); err != nil {
			return nil, err
		}
		return e, p.expect(")")
	}
	switch e.op = strings.ToLower(p.take()); e.op {
	case "=", "<":
		e.with = make([]value, 1)
	case "between":
		e.with = make([]value, 2)
	default:
		return nil, p.unknown()
	}
	for i := range e.with {
		if i > 0 {
			if err := p.expect("and"); err != nil {
				return nil, err
			}
		}
		if e.with[i], err = p.value(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (p *parser) attribute() (string, error) {
	if wordLength(p.peek()) == 0 {
		return "", p.unknown()
	}
	return p.take(), nil
}

// value reads a placeholder or the next parameter.
func (p *parser) value() (value, error) {
	switch token := p.peek(); {
	case token == "?" && p.values == nil:
		p.take()
		if len(p.params) == 0 {
			return nil, invalid("Number of parameters in request and statement don't match.")
		}
		v := p.params[0]
		p.params = p.params[1:]
		return v, nil
	case strings.HasPrefix(token, ":") && p.values != nil:
		p.take()
		p.used[token] = true
		if p.values[token] == nil {
			return nil, invalid("Invalid expression: An expression attribute value used in expression is not defined; attribute value: %s", token)
		}
		return p.values[token], nil
	}
	return nil, p.unknown()
}
