package fakedynamo

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// statement is one of PartiQL.
type statement struct {
	verb      string // "insert", "update", "delete", "select"
	table     string
	index     string
	item      item     // of insert
	actions   []action // of update
	keep      []string // of select; nil: all
	where     *expr
	returning string // "all old" and the like; empty: nothing
}

func parseStatement(text string, params []value) (*statement, error) {
	sc := &scope{partiQL: true, used: map[string]bool{}}
	for _, v := range params {
		n, err := normal(v)
		if err != nil {
			return nil, err
		}
		sc.params = append(sc.params, n)
	}
	p, err := sc.parser(text)
	if err != nil {
		return nil, err
	}
	st := &statement{verb: strings.ToLower(p.take().text)}
	switch st.verb {
	case "insert":
		err = p.insert(st)
	case "update":
		err = p.updateStatement(st)
	case "delete":
		err = p.deleteStatement(st)
	case "select":
		err = p.selectStatement(st)
	default:
		err = notModelled("statement %q", st.verb)
	}
	if err != nil {
		return nil, err
	}
	p.mark(";")
	if err := p.end(); err != nil {
		return nil, err
	}
	if len(p.params) > 0 {
		return nil, invalid("Number of parameters in request and statement don't match.")
	}
	return st, nil
}

func (p *parser) keyword(word string) error {
	if !p.word(word) {
		return p.syntax()
	}
	return nil
}

func (p *parser) tableName(st *statement) error {
	t := p.take()
	if t.kind != quotedToken && t.kind != wordToken {
		return p.syntax()
	}
	st.table = t.text
	if p.mark(".") {
		st.index = p.take().text
	}
	return nil
}

func (p *parser) insert(st *statement) error {
	if err := p.keyword("into"); err != nil {
		return err
	}
	if err := p.tableName(st); err != nil {
		return err
	}
	if err := p.keyword("value"); err != nil {
		return err
	}
	if err := p.want("{"); err != nil {
		return err
	}
	st.item = item{}
	for {
		name := p.take()
		if name.kind != stringToken {
			return p.syntax()
		}
		if err := p.want(":"); err != nil {
			return err
		}
		v, found, err := p.literal()
		if err != nil {
			return err
		}
		if !found {
			return notModelled("a value other than a parameter or a constant for %s", name.text)
		}
		st.item[name.text] = v
		if p.mark("}") {
			return nil
		}
		if err := p.want(","); err != nil {
			return err
		}
	}
}

func (p *parser) updateStatement(st *statement) error {
	if err := p.tableName(st); err != nil {
		return err
	}
	for {
		var err error
		switch {
		case p.word("set"):
			st.actions, err = p.actions(st.actions, "set")
		case p.word("remove"):
			st.actions, err = p.actions(st.actions, "remove")
		case len(st.actions) == 0:
			return p.syntax()
		default:
			if err := distinctPaths(st.actions); err != nil {
				return err
			}
			return p.whereAndReturning(st)
		}
		if err != nil {
			return err
		}
	}
}

func (p *parser) deleteStatement(st *statement) error {
	if err := p.keyword("from"); err != nil {
		return err
	}
	if err := p.tableName(st); err != nil {
		return err
	}
	return p.whereAndReturning(st)
}

func (p *parser) selectStatement(st *statement) error {
	if !p.mark("*") {
		for {
			path, err := p.attribute()
			if err != nil {
				return err
			}
			st.keep = append(st.keep, path)
			if !p.mark(",") {
				break
			}
		}
	}
	if err := p.keyword("from"); err != nil {
		return err
	}
	if err := p.tableName(st); err != nil {
		return err
	}
	return p.whereAndReturning(st)
}

func (p *parser) whereAndReturning(st *statement) (err error) {
	if err := p.keyword("where"); err != nil {
		return err
	}
	if st.where, err = p.or(); err != nil {
		return err
	}
	if st.verb == "select" || !p.word("returning") {
		return nil
	}
	which, age := strings.ToLower(p.take().text), strings.ToLower(p.take().text)
	st.returning = which + " " + age
	if st.returning != "all old" && (st.returning != "all new" || st.verb == "delete") {
		return notModelled("RETURNING %s in %s", st.returning, st.verb)
	}
	return p.want("*")
}

// key takes the equalities on the key of a table out of the statement's condition; rest are the other
// conditions.
func (s *schema) key(where *expr) (key item, rest *expr, err error) {
	key = item{}
	for _, part := range conjunction(where) {
		path := part.keyPath()
		if part.op == "=" && path != "" && (path == s.hash || path == s.sort) && key[path] == nil {
			key[path] = part.args[1].of(nil)
			continue
		}
		if rest == nil {
			rest = part
		} else {
			rest = &expr{op: "and", args: []*expr{rest, part}}
		}
	}
	if len(key) != len(s.names()) {
		return nil, nil, invalid("Where clause does not contain a mandatory equality on all key attributes")
	}
	return key, rest, s.checkKey(key)
}

// write is the conditional write that a statement means.
func (st *statement) write(t *table, old types.ReturnValuesOnConditionCheckFailure) (w *write, err error) {
	w = &write{table: t, old: old}
	if st.verb == "insert" {
		if err := t.checkNew(st.item); err != nil {
			return nil, err
		}
		w.key = project(st.item, t.names())
		w.condition = &expr{op: "attribute_not_exists", args: []*expr{{op: "path", path: t.hash}}}
		w.change = func(item) (item, error) { return st.item, nil }
		return w, nil
	}
	if w.key, w.condition, err = t.key(st.where); err != nil {
		return nil, err
	}
	if st.verb == "delete" { // what is not there is deleted, whatever else WHERE says
		if w.condition != nil {
			absent := &expr{op: "attribute_not_exists", args: []*expr{{op: "path", path: t.hash}}}
			w.condition = &expr{op: "or", args: []*expr{absent, w.condition}}
		}
		w.change = func(item) (item, error) { return nil, nil } //nolint:nilnil // no item is what a delete leaves
		return w, nil
	}
	if err := t.checkActions(st.actions); err != nil {
		return nil, err
	}
	exists := &expr{op: "attribute_exists", args: []*expr{{op: "path", path: t.hash}}}
	if w.condition == nil {
		w.condition = exists
	} else {
		w.condition = &expr{op: "and", args: []*expr{exists, w.condition}}
	}
	w.change = w.updating(st.actions)
	return w, nil
}
