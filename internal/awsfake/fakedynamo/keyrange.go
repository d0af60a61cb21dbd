package fakedynamo

import (
	"slices"
)

// keyRange is one partition and a condition on its sort key.
type keyRange struct {
	schema *schema
	pk     string
	hash   uint64
	sort   *expr // nil: all of the partition
}

func (k *keyRange) holds(r row) bool { return r.hash == k.hash && r.pk == k.pk && k.sort.holds(r.item) }

// first is a place at or before the range's first row, in the direction of reading.
func (k *keyRange) first(backwards bool) row {
	r := row{hash: k.hash, pk: k.pk}
	bound := k.bound(backwards)
	switch {
	case bound != nil && backwards:
		r.sk = text(bound) + "\xff" // after all ties
	case bound != nil:
		r.sk = text(bound)
	case backwards:
		return row{hash: k.hash, pk: k.pk + "\x00"}
	}
	return r
}

// bound is where the range begins; nil when that is the end of the partition.
func (k *keyRange) bound(backwards bool) value {
	if k.sort == nil {
		return nil
	}
	v := func(i int) value { return k.sort.args[i].of(nil) }
	switch k.sort.op {
	case "=":
		return v(1)
	case ">", ">=", "begins_with":
		if !backwards {
			return v(1)
		}
	case "<", "<=":
		if backwards {
			return v(1)
		}
	case "between":
		if backwards {
			return v(2)
		}
		return v(1)
	}
	return nil
}

// keyRange takes the conditions on keys out of a condition. rest are the others.
func (s *schema) keyRange(where *expr) (k *keyRange, rest *expr, err error) {
	k = &keyRange{schema: s}
	found := false
	for _, part := range conjunction(where) {
		switch path := part.keyPath(); {
		case path == s.hash && part.op == "=" && !found:
			v := part.args[1].of(nil)
			if typeOf(v) != string(s.types[s.hash]) {
				return nil, nil, invalid("One or more parameter values were invalid: Condition parameter type does not match schema type")
			}
			found, k.pk = true, text(v)
			k.hash = hashOf(k.pk)
		case path == s.sort && path != "" && k.sort == nil && isRangeOperator(part.op):
			for _, arg := range part.args[1:] {
				if typeOf(arg.of(nil)) != string(s.types[s.sort]) {
					return nil, nil, invalid("One or more parameter values were invalid: Condition parameter type does not match schema type")
				}
			}
			k.sort = part
		case rest == nil:
			rest = part
		default:
			rest = &expr{op: "and", args: []*expr{rest, part}}
		}
	}
	if !found {
		return nil, nil, invalid("Query condition missed key schema element: %s", s.hash)
	}
	return k, rest, nil
}

func isRangeOperator(op string) bool {
	return slices.Contains([]string{"=", "<", "<=", ">", ">=", "between", "begins_with"}, op)
}

// keyPath is the attribute that a simple condition is about, with values on its other side.
func (e *expr) keyPath() string {
	if len(e.args) == 0 || e.args[0].op != "path" {
		return ""
	}
	for _, arg := range e.args[1:] {
		if arg.op != "value" {
			return ""
		}
	}
	return e.args[0].path
}

// conjunction is the parts of a condition that all must hold.
func conjunction(e *expr) []*expr {
	if e == nil {
		return nil
	}
	if e.op != "and" {
		return []*expr{e}
	}
	return append(conjunction(e.args[0]), conjunction(e.args[1])...)
}

// mention is the first of the attributes that an expression is about, empty for none.
func (e *expr) mention(attributes []string) string {
	if e == nil {
		return ""
	}
	if e.op == "path" && slices.Contains(attributes, e.path) {
		return e.path
	}
	for _, arg := range e.args {
		if found := arg.mention(attributes); found != "" {
			return found
		}
	}
	return ""
}
