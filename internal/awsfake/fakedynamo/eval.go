package fakedynamo

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// holds evaluates a condition on an item, which is nil when there is none. A nil condition holds.
func (e *expr) holds(m item) bool {
	if e == nil {
		return true
	}
	switch e.op {
	case "and":
		return e.args[0].holds(m) && e.args[1].holds(m)
	case "or":
		return e.args[0].holds(m) || e.args[1].holds(m)
	case "not":
		return !e.args[0].holds(m)
	case "in":
		return slices.ContainsFunc(e.args[1:], func(member *expr) bool { return compare("=", e.args[0].of(m), member.of(m)) })
	case "between":
		v := e.args[0].of(m)
		return compare(">=", v, e.args[1].of(m)) && compare("<=", v, e.args[2].of(m))
	case "attribute_exists":
		return e.args[0].of(m) != nil
	case "attribute_not_exists":
		return e.args[0].of(m) == nil
	case "attribute_type":
		v, want := e.args[0].of(m), e.args[1].of(m)
		name, _ := order(want)
		return v != nil && typeOf(v) == name
	case "begins_with":
		v, prefix := e.args[0].of(m), e.args[1].of(m)
		return sameOrdered(v, prefix) && typeOf(v) != "N" && strings.HasPrefix(text(v), text(prefix))
	case "contains":
		return contains(e.args[0].of(m), e.args[1].of(m))
	}
	return compare(e.op, e.args[0].of(m), e.args[1].of(m))
}

// of is the value of an operand for an item; nil when it is missing.
func (e *expr) of(m item) value {
	switch e.op {
	case "path":
		return m[e.path]
	case "value":
		return e.value
	case "size":
		return sizeOf(e.args[0].of(m))
	case "if_not_exists":
		if v := e.args[0].of(m); v != nil {
			return v
		}
		return e.args[1].of(m)
	}
	return nil
}

func compare(op string, a, b value) bool {
	switch op {
	case "=":
		return a != nil && equal(a, b)
	case "<>":
		return !equal(a, b)
	}
	if !sameOrdered(a, b) {
		return false
	}
	order := strings.Compare(text(a), text(b))
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	}
	return false
}

func sameOrdered(a, b value) bool {
	_, typeA := order(a)
	_, typeB := order(b)
	return typeA != "" && typeA == typeB
}

func text(v value) string {
	s, _ := order(v)
	return s
}

func contains(in, what value) bool {
	switch in := in.(type) {
	case *types.AttributeValueMemberS, *types.AttributeValueMemberB:
		return sameOrdered(in, what) && strings.Contains(text(in), text(what))
	case *types.AttributeValueMemberSS:
		return typeOf(what) == "S" && slices.Contains(in.Value, text(what))
	case *types.AttributeValueMemberL:
		return slices.ContainsFunc(in.Value, func(member value) bool { return equal(member, what) })
	}
	return false
}

func sizeOf(v value) value {
	var n int
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		n = len(v.Value)
	case *types.AttributeValueMemberB:
		n = len(v.Value)
	case *types.AttributeValueMemberL:
		n = len(v.Value)
	case *types.AttributeValueMemberM:
		n = len(v.Value)
	case *types.AttributeValueMemberSS:
		n = len(v.Value)
	case *types.AttributeValueMemberNS:
		n = len(v.Value)
	case *types.AttributeValueMemberBS:
		n = len(v.Value)
	default:
		return nil
	}
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}
