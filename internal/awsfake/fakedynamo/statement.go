package fakedynamo

import (
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// statement is an INSERT, UPDATE or DELETE of PartiQL.
type statement struct {
	verb   string
	table  string
	set    item // of insert: the item
	remove []string
	where  *expr
}

func parseStatement(text string, params []value) (*statement, error) {
	p := &parser{}
	for _, v := range params {
		normal, err := normalValue(v)
		if err != nil {
			return nil, err
		}
		p.params = append(p.params, normal)
	}
	st := &statement{set: item{}}
	err := p.parse(text, func() error {
		st.verb = strings.ToLower(p.take())
		switch st.verb {
		case "insert":
			return p.insert(st)
		case "update":
			return p.update(st)
		case "delete":
			return p.delete(st)
		}
		return p.unknown()
	})
	if err == nil && len(p.params) > 0 {
		err = invalid("Number of parameters in request and statement don't match.")
	}
	return st, err
}

// insert reads INTO "TABLE" VALUE {'a':?,'b':?}.
func (p *parser) insert(st *statement) error {
	if err := p.expect("into"); err != nil {
		return err
	}
	st.table = p.quoted(`"`)
	if err := p.expect("value", "{"); err != nil {
		return err
	}
	for {
		name := p.quoted("'")
		if err := p.expect(":"); err != nil {
			return err
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		st.set[name] = v
		if !p.accept(",") {
			return p.expect("}")
		}
	}
}

// update reads "TABLE" SET a=? SET b=? REMOVE c WHERE …
func (p *parser) update(st *statement) error {
	st.table = p.quoted(`"`)
	for p.accept("set") {
		if err := p.assignment(st.set); err != nil {
			return err
		}
	}
	for p.accept("remove") {
		name, err := p.attribute()
		if err != nil {
			return err
		}
		st.remove = append(st.remove, name)
	}
	return p.where(st)
}

// delete reads FROM "TABLE" WHERE …
func (p *parser) delete(st *statement) error {
	if err := p.expect("from"); err != nil {
		return err
	}
	st.table = p.quoted(`"`)
	return p.where(st)
}

func (p *parser) where(st *statement) (err error) {
	if err := p.expect("where"); err != nil {
		return err
	}
	st.where, err = p.and()
	return err
}

// quoted takes a name in quotes; the empty name, which no table or attribute has, when none is next.
func (p *parser) quoted(quote string) string {
	if !strings.HasPrefix(p.peek(), quote) {
		return ""
	}
	return strings.Trim(p.take(), quote)
}

// key takes the equalities on the key of a table out of a condition; rest are the other conditions.
func (s *schema) key(where *expr) (key item, rest *expr, err error) {
	key = item{}
	for _, part := range where.parts() {
		if part.op == "=" && (part.path == s.hash || part.path == s.sort) && key[part.path] == nil {
			key[part.path] = part.with[0]
		} else {
			rest = rest.and(part)
		}
	}
	if len(key) != len(s.attributes()) {
		return nil, nil, invalid("Where clause does not contain a mandatory equality on all key attributes")
	}
	return key, rest, s.checkKey(key)
}

// write returns the conditional write that a statement stands for.
func (st *statement) write(t *table, old types.ReturnValuesOnConditionCheckFailure) (w *write, err error) {
	w = &write{table: t, old: old}
	if st.verb == "insert" {
		if err := t.checkNew(st.set); err != nil {
			return nil, err
		}
		w.key, w.condition = project(st.set, t.attributes()), t.isAbsent()
		w.change = func(item) item { return st.set }
		return w, nil
	}
	if w.key, w.condition, err = t.key(st.where); err != nil {
		return nil, err
	}
	if st.verb == "delete" { // an absent row counts as deleted, whatever else WHERE says
		if w.condition != nil {
			w.condition = &expr{op: "or", args: []*expr{t.isAbsent(), w.condition}}
		}
		w.change = func(item) item { return nil }
		return w, nil
	}
	w.condition = (&expr{op: "attribute_exists", path: t.hash}).and(w.condition)
	return w, w.assign(st.set, st.remove)
}

// assign makes a write set and remove attributes of the old item, or of a new one that has only its key.
func (w *write) assign(set item, remove []string) error {
	for _, name := range w.table.attributes() {
		if set[name] != nil {
			return invalid("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	w.change = func(old item) item {
		if old == nil {
			old = w.key
		}
		changed := maps.Clone(old)
		maps.Copy(changed, set)
		for _, name := range remove {
			delete(changed, name)
		}
		return changed
	}
	return nil
}

func (s *schema) isAbsent() *expr { return &expr{op: "attribute_not_exists", path: s.hash} }
