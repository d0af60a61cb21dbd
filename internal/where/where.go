// Package where is the filter language of sets of tasks: it parses an expression such as
//
//	state = dead and error ~ "timeout" and due < -1h
//
// and decides whether a task matches. It also decides for a task of which only some fields are known whether
// it can match, so that a reader skips lambdas, states and times in which nothing can. All of it is a pure
// function of its arguments.
package where

import (
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of an expression.
const (
	// TextBytesMax bounds an expression, in bytes.
	TextBytesMax = 4096
	// TermsMax is how many comparisons an expression has at most.
	TermsMax = 64
	// ValuesMax is how many values one `in` has at most.
	ValuesMax = 100
	// depthMax bounds parentheses and nots inside each other.
	depthMax = 32
)

// Filter selects tasks. The zero value selects all. It is safe for concurrent use.
type Filter struct{ root node }

// Subject is a task that a filter is applied to. Only the fields in Known are looked at.
type Subject struct {
	Lambda   string // name
	Priority string // name
	Task     *task.Task
	Known    Fields
}

// Fields is a set of fields.
type Fields uint8

// The fields that may be known before a task is read. KnowAll has these and all others.
const (
	KnowLambda Fields = 1 << iota
	KnowPriority
	KnowState
	knowRest

	KnowAll = KnowLambda | KnowPriority | KnowState | knowRest
)

// Answer is what is known of a match.
type Answer int8

// The answers, in the order in which `and` takes the least and `or` the greatest.
const (
	Never  Answer = -1
	Maybe  Answer = 0
	Always Answer = 1
)

// IsAll reports whether the filter was empty.
func (f *Filter) IsAll() bool { return f == nil || f.root == nil }

// Matches reports whether a task of a lambda and a priority, given by their names, matches.
func (f *Filter) Matches(lambda, priority string, t *task.Task) bool {
	return f.Decide(&Subject{Lambda: lambda, Priority: priority, Task: t, Known: KnowAll}) == Always
}

// Decide answers by the fields that are known. With KnowAll the answer is Never or Always.
func (f *Filter) Decide(s *Subject) Answer {
	if f.IsAll() {
		return Always
	}
	return f.root.decide(s)
}

// CanBe reports whether a task of a lambda and priority in one of some states may match.
func (f *Filter) CanBe(lambda, priority string, states ...task.State) bool {
	for _, state := range states {
		t := task.Task{State: state}
		s := Subject{Lambda: lambda, Priority: priority, Task: &t, Known: KnowLambda | KnowPriority | KnowState}
		if f.Decide(&s) != Never {
			return true
		}
	}
	return false
}

// CanBeOf reports whether a task of a lambda may match.
func (f *Filter) CanBeOf(lambda string) bool {
	return f.Decide(&Subject{Lambda: lambda, Known: KnowLambda}) != Never
}

// DueFrom returns an instant before which no matching task is due; 0 if there is no such bound.
func (f *Filter) DueFrom() task.Instant {
	if f.IsAll() {
		return 0
	}
	return f.root.dueFrom()
}

// node is a part of an expression.
type node interface {
	decide(s *Subject) Answer
	dueFrom() task.Instant
	visit(f func(*term))
	holds(of map[string]value) bool // of the fields by their names
}

type (
	all  []node // and
	some []node // or
	not  struct{ of node }
)

func (n all) decide(s *Subject) Answer {
	least := Always
	for _, part := range n {
		least = min(least, part.decide(s))
		if least == Never {
			break
		}
	}
	return least
}

func (n some) decide(s *Subject) Answer {
	most := Never
	for _, part := range n {
		most = max(most, part.decide(s))
		if most == Always {
			break
		}
	}
	return most
}

func (n not) decide(s *Subject) Answer { return -n.of.decide(s) }

func (n all) dueFrom() (from task.Instant) {
	for _, part := range n {
		from = max(from, part.dueFrom())
	}
	return from
}

func (n some) dueFrom() task.Instant {
	from := n[0].dueFrom()
	for _, part := range n[1:] {
		from = min(from, part.dueFrom())
	}
	return from
}

func (n not) dueFrom() task.Instant { return 0 }
