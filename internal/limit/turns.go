package limit

import "github.com/kinesin-io/kinesin/task"

// turns shares starts out between the priorities of a lambda that has weights: the next start is of the
// priority that waits and has had least for its weight. One that does not wait saves nothing up.
type turns struct {
	had  [task.PrioritiesMax]float64 // starts by weight
	last float64                     // what the priority had that got the latest start, before it
}

// join has a priority wait that did not.
func (t *turns) join(class uint8) { t.had[class] = max(t.had[class], t.last) }

// next gives a start to one of the priorities that wait; false: none does.
func (t *turns) next(waiting *[task.PrioritiesMax]int, weights []uint16) (class uint8, ok bool) {
	for c := range waiting {
		if waiting[c] > 0 && (!ok || t.had[c] < t.had[class]) {
			class, ok = uint8(c), true
		}
	}
	if ok {
		waiting[class]--
		t.last = t.had[class]
		t.had[class] += share(weights, class)
	}
	return class, ok
}

// give gives starts that have come to a caller of a priority, and returns how many of those that it wants.
// The others that wait keep their turns: they get theirs when they ask.
func (t *turns) give(class uint8, want, ready int, others [task.PrioritiesMax]int, weights []uint16) (granted int) {
	ahead := *t
	others[class] += want
	for ; ready > 0 && granted < want; ready-- {
		if got, ok := ahead.next(&others, weights); ok && got == class {
			granted++
			t.had[class], t.last = ahead.had[class], ahead.last
		}
	}
	return granted
}

// share returns what a start counts of a priority.
func share(weights []uint16, class uint8) float64 {
	if int(class) < len(weights) {
		return 1 / float64(max(1, weights[class]))
	}
	return 1
}
