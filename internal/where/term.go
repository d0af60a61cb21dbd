package where

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/task"
)

// term compares a field with a value, or with several for `in`.
type term struct {
	field   field
	op      string   // one of operators; begins for a ~ whose value begins with ^
	texts   []string // of a text or a state
	numbers []int64  // of a number, or of a time in microseconds
}

// begins is the operator of a text that begins with a value: ~ with a ^ before the value.
const begins = "^"

// kind is the type of a field.
type kind uint8

const (
	text kind = iota
	state
	number
	instant
)

// field is what a task is compared by.
type field struct {
	name   string
	kind   kind
	needs  Fields
	text   func(s *Subject) []string // any of them may match
	number func(t *task.Task) (n int64, has bool)
}

// tagPrefix begins the name of a field that is a tag.
const tagPrefix = "tag."

// fields lists all fields but tags, in the order in which people are told of them.
var fields = []field{ //nolint:gochecknoglobals // a table
	{name: "lambda", needs: KnowLambda, text: func(s *Subject) []string { return []string{s.Lambda} }},
	{name: "state", kind: state, needs: KnowState, text: func(s *Subject) []string { return []string{s.Task.State.String()} }},
	{name: "collection", needs: knowRest, text: func(s *Subject) []string { return []string{s.Task.Collection} }},
	{name: "priority", needs: KnowPriority, text: func(s *Subject) []string { return []string{s.Priority} }},
	{name: "key", needs: knowRest, text: func(s *Subject) []string { return []string{s.Task.Key} }},
	{name: "error", needs: knowRest, text: errorOf},
	{name: "worker", needs: knowRest, text: workerOf},
	{name: "due", kind: instant, needs: knowRest, number: func(t *task.Task) (int64, bool) { return int64(t.PlannedDue()), true }},
	{name: "ended", kind: instant, needs: knowRest, number: func(t *task.Task) (int64, bool) { return int64(t.Ended), !t.Ended.IsZero() }},
	{name: "created", kind: instant, needs: knowRest, number: func(t *task.Task) (int64, bool) { return int64(t.Created), !t.Created.IsZero() }},
	{name: "attempts", kind: number, needs: knowRest, number: func(t *task.Task) (int64, bool) { return int64(t.Attempt), true }},
	{name: "followups", kind: number, needs: knowRest, number: followUpsOf},
	{name: "any", needs: knowRest, text: wordsOf},
}

// wordsOf returns the texts of a task among which people look for a word: its lambda, collection, key, values of tags and
// newest error, and as much of its public id, in each form, as tells of no other task.
func wordsOf(s *Subject) []string {
	t, id := s.Task, base64.RawURLEncoding.EncodeToString(s.Task.ID[:])
	all := append(errorOf(s), s.Lambda, t.Collection, t.Key, "k1"+id, "k2"+id, "k3"+id)
	for _, tag := range t.Tags {
		all = append(all, tag.Value)
	}
	return all
}

// followUpsOf returns how many tasks the task itself names that may follow it in its chain.
func followUpsOf(t *task.Task) (n int64, has bool) {
	if t.Chain != nil {
		n = int64(t.Chain.FollowCount)
	}
	return n, true
}

// errorOf returns the error text of the newest attempt that has ended.
func errorOf(s *Subject) []string {
	if n := len(s.Task.History); n > 0 {
		return []string{s.Task.History[n-1].Error}
	}
	return []string{""}
}

// workerOf returns the workers of all attempts that the task remembers; none while it never had one.
func workerOf(s *Subject) (all []string) {
	for i := range s.Task.History {
		all = append(all, s.Task.History[i].Worker)
	}
	if s.Task.State.IsRunning() {
		all = append(all, s.Task.Worker)
	}
	if len(all) == 0 {
		return []string{""}
	}
	return all
}

func tagField(name string) field {
	return field{name: tagPrefix + name, needs: knowRest, text: func(s *Subject) []string {
		for _, tag := range s.Task.Tags {
			if tag.Name == name {
				return []string{tag.Value}
			}
		}
		return []string{""}
	}}
}

func (t *term) decide(s *Subject) Answer {
	if s.Known&t.field.needs == 0 {
		return Maybe
	}
	if t.matches(s) {
		return Always
	}
	return Never
}

func (t *term) matches(s *Subject) bool {
	if t.field.number != nil {
		n, has := t.field.number(s.Task)
		return has && t.compares(n)
	}
	return t.isOf(t.field.text(s))
}

// isOf compares the values of a text or a state.
func (t *term) isOf(values []string) bool {
	switch t.op {
	case begins:
		return slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, t.texts[0]) })
	case "~":
		return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, t.texts[0]) })
	case "!=":
		return !slices.Contains(values, t.texts[0])
	}
	return slices.ContainsFunc(values, func(v string) bool { return slices.Contains(t.texts, v) })
}

func (t *term) compares(n int64) bool {
	order := cmp.Compare(n, t.numbers[0])
	switch t.op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	case "!=":
		return order != 0
	}
	return slices.Contains(t.numbers, n)
}

func (t *term) dueFrom() task.Instant {
	if t.field.name != "due" {
		return 0
	}
	switch t.op {
	case "=", ">", ">=", "in":
		return task.Instant(max(0, slices.Min(t.numbers)))
	}
	return 0
}
