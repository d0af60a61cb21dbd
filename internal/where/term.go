package where

import (
	"cmp"
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"time"

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

const (
	// witnessesMax bounds the tasks on which LeavesOut tries a part of a filter.
	witnessesMax = 10_000
	// timeMin is 2023-01-01T00:00:00Z in microseconds, before the first task of all, and aheadMax is how far
	// ahead of now tasks are due.
	timeMin  = 1_672_531_200_000_000
	aheadMax = 10 * 365 * 24 * time.Hour
	milli    = 1000 // microseconds; due times are whole milliseconds
)

// LeavesOut reports whether there can be a live task, or an ended one, that the filter does not match. It
// tries tasks made of the values in the filter. If it finds none it says false: the filter matches all, or is
// too entangled to tell.
func (f *Filter) LeavesOut(ended bool, now task.Instant) bool {
	return !f.IsAll() && canFail(f.root, &domain{ended, now})
}

// domain is what tasks there can be.
type domain struct {
	ended bool // or live
	now   task.Instant
}

func canFail(n node, d *domain) bool {
	if parts, is := n.(all); is {
		return slices.ContainsFunc(parts, func(part node) bool { return canFail(part, d) })
	}
	var names []string
	terms := map[string][]*term{}
	n.visit(func(t *term) {
		if name := t.field.name; terms[name] == nil {
			names = append(names, name)
		}
		terms[t.field.name] = append(terms[t.field.name], t)
	})
	choices := make([][]value, len(names))
	for i, name := range names {
		if choices[i] = d.values(terms[name]); len(choices[i]) == 0 {
			return false
		}
	}
	fails := func(choice func(i int) int) bool {
		witness := make(map[string]value, len(names))
		for i, name := range names {
			witness[name] = choices[i][choice(i)]
		}
		return !n.holds(witness)
	}
	// One that is like nothing in the filter, before all combinations.
	if fails(func(i int) int { return len(choices[i]) - 1 }) {
		return true
	}
	chosen := make([]int, len(names))
	for range witnessesMax {
		if fails(func(i int) int { return chosen[i] }) {
			return true
		}
		if !next(chosen, choices) {
			break
		}
	}
	return false
}

// next counts chosen up, as a number whose digits are indexes into choices; false after the last.
func next(chosen []int, choices [][]value) bool {
	for i := range chosen {
		if chosen[i]++; chosen[i] < len(choices[i]) {
			return true
		}
		chosen[i] = 0
	}
	return false
}

// value is a value of a field of a task.
type value struct {
	text   string
	number int64
	has    bool // the number
}

// values returns values of a field that tasks can have, some on each side of every comparison.
func (d *domain) values(terms []*term) (values []value) {
	var texts []string
	var numbers []int64
	for _, t := range terms {
		texts, numbers = append(texts, t.texts...), append(numbers, t.numbers...)
	}
	switch f := &terms[0].field; f.kind {
	case state:
		for _, s := range task.States() {
			if s.IsEnd() == d.ended {
				values = append(values, value{text: s.String()})
			}
		}
	case number:
		for _, n := range numbers {
			for _, near := range []int64{n - 1, n, n + 1} {
				values = append(values, value{number: near, has: true})
			}
		}
		values = slices.DeleteFunc(values, func(v value) bool { return v.number < 0 || v.number > math.MaxUint32 })
	case instant:
		if f.name == "ended" && !d.ended {
			return []value{{}}
		}
		most := int64(d.now)
		if f.name == "due" {
			most = int64(d.now.Add(aheadMax))
		}
		for _, n := range numbers {
			n -= n % milli
			for _, near := range []int64{n - milli, n, n + milli} {
				values = append(values, value{number: near, has: true})
			}
		}
		values = slices.DeleteFunc(values, func(v value) bool { return v.number < timeMin || v.number > most })
	case text:
		isName := f.name == "lambda" || f.name == "priority"
		for _, text := range append(texts, "", strings.Join(texts, ""), unlike(texts)+strings.Join(texts, ""), unlike(texts)) {
			if !isName || task.CheckName(f.name, text) == nil {
				values = append(values, value{text: text})
			}
		}
	}
	return values
}

// unlike returns a text that is in none of some texts, and in which none of them is but an empty one.
func unlike(texts []string) string {
	whole := strings.Join(texts, "")
	for r := 'a'; ; r++ {
		if !strings.ContainsRune(whole, r) {
			return string(r)
		}
	}
}

func (n all) visit(f func(*term)) {
	for _, part := range n {
		part.visit(f)
	}
}

func (n some) visit(f func(*term)) { all(n).visit(f) }

func (n not) visit(f func(*term)) { n.of.visit(f) }

func (t *term) visit(f func(*term)) { f(t) }

func (n all) holds(of map[string]value) bool {
	return !slices.ContainsFunc(n, func(part node) bool { return !part.holds(of) })
}

func (n some) holds(of map[string]value) bool {
	return slices.ContainsFunc(n, func(part node) bool { return part.holds(of) })
}

func (n not) holds(of map[string]value) bool { return !n.of.holds(of) }

func (t *term) holds(of map[string]value) bool {
	v := of[t.field.name]
	if t.field.number != nil {
		return v.has && t.compares(v.number)
	}
	return t.isOf([]string{v.text})
}
