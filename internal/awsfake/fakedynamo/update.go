package fakedynamo

import (
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// action changes one attribute of an item.
type action struct {
	verb  string // "set", "remove", "add"
	path  string
	value *expr
	plus  *expr // added to value, or subtracted from it
	sign  int64
}

// update parses an update expression; nil gives no actions.
func (s *scope) update(text *string) ([]action, error) {
	if text == nil {
		return nil, nil
	}
	p, err := s.parser(*text)
	if err != nil {
		return nil, err
	}
	var all []action
	for p.peek().kind != endToken {
		verb := strings.ToLower(p.take().text)
		if verb == "delete" {
			return nil, notModelled("DELETE in an update expression")
		}
		if verb != "set" && verb != "remove" && verb != "add" {
			return nil, p.syntax()
		}
		if all, err = p.actions(all, verb); err != nil {
			return nil, err
		}
	}
	return all, distinctPaths(all)
}

// actions parses one clause.
func (p *parser) actions(all []action, verb string) ([]action, error) {
	for {
		path, err := p.attribute()
		if err != nil {
			return nil, err
		}
		a := action{verb: verb, path: path}
		switch verb {
		case "set":
			if err = p.want("="); err == nil {
				err = p.assigned(&a)
			}
		case "add":
			a.value, err = p.operand()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, a)
		if !p.mark(",") {
			return all, nil
		}
	}
}

// assigned parses what stands right of a SET's equals sign.
func (p *parser) assigned(a *action) (err error) {
	if a.value, err = p.operand(); err != nil {
		return err
	}
	switch {
	case p.mark("+"):
		a.sign = 1
	case p.mark("-"):
		a.sign = -1
	default:
		return nil
	}
	a.plus, err = p.operand()
	return err
}

func distinctPaths(all []action) error {
	seen := map[string]bool{}
	for _, a := range all {
		if seen[a.path] {
			return invalid("Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [%s], path two: [%s]", a.path, a.path)
		}
		seen[a.path] = true
	}
	return nil
}

// change is the item after the actions, each of which sees it as it was before.
func change(old item, all []action) (item, error) {
	changed := maps.Clone(old)
	if changed == nil {
		changed = item{}
	}
	for _, a := range all {
		if a.verb == "remove" {
			delete(changed, a.path)
			continue
		}
		v, err := a.result(old)
		if err != nil {
			return nil, err
		}
		changed[a.path] = v
	}
	return changed, nil
}

func (a *action) result(old item) (value, error) {
	v := a.value.of(old)
	if a.verb == "add" {
		was := old[a.path]
		if was == nil {
			was = &types.AttributeValueMemberN{Value: "0"}
		}
		return sum(was, v, 1)
	}
	if v == nil {
		return nil, invalid("The provided expression refers to an attribute that does not exist in the item")
	}
	if a.plus == nil {
		return v, nil
	}
	return sum(v, a.plus.of(old), a.sign)
}

func sum(a, b value, sign int64) (value, error) {
	if b == nil {
		return nil, invalid("The provided expression refers to an attribute that does not exist in the item")
	}
	x, okX := a.(*types.AttributeValueMemberN)
	y, okY := b.(*types.AttributeValueMemberN)
	if !okX || !okY {
		return nil, invalid("An operand in the update expression has an incorrect data type")
	}
	total, err := add(x.Value, y.Value, sign)
	return &types.AttributeValueMemberN{Value: total}, err
}
