package where

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

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
