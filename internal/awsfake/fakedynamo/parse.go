package fakedynamo

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// expr is a node of a condition, or an operand in one.
type expr struct {
	op    string // "path", "value", a comparison, "and", "or", "not", "between", "in", or a function
	path  string // of "path": attributes at the top level only
	value value  // of "value"
	args  []*expr
}

// scope is what the placeholders of the expressions of one call stand for.
type scope struct {
	names   map[string]string
	values  item
	params  []value // of a statement, for its question marks in order
	partiQL bool
	used    map[string]bool
}

func newScope(names map[string]string, values item) (*scope, error) {
	normalized, err := normalItem(values)
	return &scope{names: names, values: normalized, used: map[string]bool{}}, err
}

// finish refuses placeholders that no expression used.
func (s *scope) finish() error {
	for name := range s.names {
		if !s.used[name] {
			return invalid("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", name)
		}
	}
	for name := range s.values {
		if !s.used[name] {
			return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", name)
		}
	}
	return nil
}

type parser struct {
	*scope

	tokens []token
}

func (s *scope) parser(text string) (*parser, error) {
	if strings.TrimSpace(text) == "" {
		return nil, invalid("Invalid expression: The expression can not be empty;")
	}
	tokens, err := lex(text)
	return &parser{s, tokens}, err
}

// condition parses a whole condition, filter or key condition; nil gives nil.
func (s *scope) condition(text *string) (*expr, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // no condition is a condition that holds
	}
	p, err := s.parser(*text)
	if err != nil {
		return nil, err
	}
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	return e, p.end()
}

// projection parses a list of attributes; nil gives nil, which is all.
func (s *scope) projection(text *string) ([]string, error) {
	if text == nil {
		return nil, nil
	}
	p, err := s.parser(*text)
	if err != nil {
		return nil, err
	}
	var paths []string
	for {
		path, err := p.attribute()
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
		if !p.mark(",") {
			return paths, p.end()
		}
	}
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != endToken {
		p.tokens = p.tokens[1:]
	}
	return t
}

// mark takes the punctuation if it is next.
func (p *parser) mark(text string) bool {
	if t := p.peek(); t.kind != markToken || t.text != text {
		return false
	}
	p.take()
	return true
}

// word takes the keyword if it is next.
func (p *parser) word(text string) bool {
	if t := p.peek(); t.kind != wordToken || !strings.EqualFold(t.text, text) {
		return false
	}
	p.take()
	return true
}

func (p *parser) want(mark string) error {
	if !p.mark(mark) {
		return p.syntax()
	}
	return nil
}

func (p *parser) end() error {
	if p.peek().kind != endToken {
		return p.syntax()
	}
	return nil
}

func (p *parser) syntax() error {
	if p.partiQL {
		return invalid("Statement wasn't well formed, can't be processed: Unexpected token %q", p.peek().text)
	}
	return invalid("Invalid expression: Syntax error; token: %q", p.peek().text)
}

func (p *parser) or() (*expr, error) { return p.chain("or", p.and) }

func (p *parser) and() (*expr, error) { return p.chain("and", p.not) }

func (p *parser) chain(word string, part func() (*expr, error)) (*expr, error) {
	left, err := part()
	for err == nil && p.word(word) {
		var right *expr
		right, err = part()
		left = &expr{op: word, args: []*expr{left, right}}
	}
	return left, err
}

func (p *parser) not() (*expr, error) {
	if p.word("not") {
		e, err := p.not()
		return &expr{op: "not", args: []*expr{e}}, err
	}
	if p.mark("(") {
		e, err := p.or()
		if err != nil {
			return nil, err
		}
		return e, p.want(")")
	}
	return p.comparison()
}

func (p *parser) comparison() (*expr, error) {
	left, err := p.operand()
	if err != nil || isPredicate(left.op) {
		return left, err
	}
	switch {
	case p.word("between"):
		return p.between(left)
	case p.word("in"):
		return p.in(left)
	case p.partiQL && p.word("is"):
		return p.isMissing(left)
	}
	op := p.peek()
	if op.kind != markToken || !slices.Contains([]string{"=", "<>", "!=", "<", "<=", ">", ">="}, op.text) || (op.text == "!=" && !p.partiQL) {
		return nil, p.syntax()
	}
	p.take()
	right, err := p.operand()
	return &expr{op: strings.Replace(op.text, "!=", "<>", 1), args: []*expr{left, right}}, err
}

func (p *parser) between(left *expr) (*expr, error) {
	low, err := p.operand()
	if err != nil {
		return nil, err
	}
	if !p.word("and") {
		return nil, p.syntax()
	}
	high, err := p.operand()
	return &expr{op: "between", args: []*expr{left, low, high}}, err
}

func (p *parser) in(left *expr) (*expr, error) {
	closing := ")"
	if !p.mark("(") {
		closing = "]"
		if err := p.want("["); err != nil {
			return nil, err
		}
	}
	list, err := p.list(closing)
	return &expr{op: "in", args: append([]*expr{left}, list...)}, err
}

func (p *parser) isMissing(left *expr) (*expr, error) {
	negated := p.word("not")
	if !p.word("missing") {
		return nil, notModelled("IS %q in a statement", p.peek().text)
	}
	e := &expr{op: "attribute_not_exists", args: []*expr{left}}
	if negated {
		e.op = "attribute_exists"
	}
	return e, nil
}

// list parses operands up to the closing mark.
func (p *parser) list(closing string) ([]*expr, error) {
	var all []*expr
	for {
		e, err := p.operand()
		if err != nil {
			return nil, err
		}
		all = append(all, e)
		if p.mark(closing) {
			return all, nil
		}
		if err := p.want(","); err != nil {
			return nil, err
		}
	}
}

// functions and how many arguments each has.
var functions = map[string]int{ //nolint:gochecknoglobals // a table
	"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2, "contains": 2, "size": 1, "if_not_exists": 2,
}

func isPredicate(op string) bool {
	switch op {
	case "attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains":
		return true
	}
	return false
}

func (p *parser) operand() (*expr, error) {
	t := p.peek()
	if t.kind == wordToken && len(p.tokens) > 1 && p.tokens[1] == (token{markToken, "("}) {
		return p.call()
	}
	if v, found, err := p.literal(); found || err != nil {
		return &expr{op: "value", value: v}, err
	}
	path, err := p.attribute()
	return &expr{op: "path", path: path}, err
}

func (p *parser) call() (*expr, error) {
	name := strings.ToLower(p.take().text)
	count, known := functions[name]
	if !known {
		return nil, notModelled("function %s", name)
	}
	p.take()
	args, err := p.list(")")
	if err == nil && len(args) != count {
		err = invalid("Invalid expression: Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(args))
	}
	if err == nil && args[0].op != "path" && name != "contains" {
		err = invalid("Invalid expression: Operator or function requires a document path; operator or function: %s", name)
	}
	return &expr{op: name, args: args}, err
}

// literal takes a value if one is next: a placeholder or, in a statement, a parameter or a constant.
func (p *parser) literal() (v value, found bool, err error) {
	switch t := p.peek(); {
	case t.kind == valueToken && !p.partiQL:
		p.take()
		p.used[t.text] = true
		if v, found = p.values[t.text]; !found {
			return nil, false, invalid("Invalid expression: An expression attribute value used in expression is not defined; attribute value: %s", t.text)
		}
		return v, true, nil
	case !p.partiQL:
		return nil, false, nil
	case t == token{markToken, "?"}:
		p.take()
		if len(p.params) == 0 {
			return nil, false, invalid("Number of parameters in request and statement don't match.")
		}
		v, p.params = p.params[0], p.params[1:]
		return v, true, nil
	case t.kind == stringToken:
		p.take()
		return &types.AttributeValueMemberS{Value: t.text}, true, nil
	case t.kind == numberToken:
		p.take()
		v, err = normal(&types.AttributeValueMemberN{Value: t.text})
		return v, true, err
	case t.kind == wordToken && (strings.EqualFold(t.text, "true") || strings.EqualFold(t.text, "false")):
		p.take()
		return &types.AttributeValueMemberBOOL{Value: strings.EqualFold(t.text, "true")}, true, nil
	}
	return nil, false, nil
}

// attribute takes the name of an attribute at the top level of an item.
func (p *parser) attribute() (string, error) {
	t := p.take()
	name := t.text
	switch {
	case t.kind == nameToken && !p.partiQL:
		p.used[t.text] = true
		defined, found := p.names[t.text]
		if !found {
			return "", invalid("Invalid expression: An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
		}
		name = defined
	case t.kind == wordToken, t.kind == quotedToken && p.partiQL:
	default:
		p.tokens = append([]token{t}, p.tokens...)
		return "", p.syntax()
	}
	if after := p.peek(); after.kind == markToken && (after.text == "." || after.text == "[") {
		return "", notModelled("a path into attribute %s", name)
	}
	return name, nil
}
