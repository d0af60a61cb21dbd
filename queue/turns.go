package queue

import "github.com/kinesin-io/kinesin/task"

// Weigher is an optional capability of a driver: sharing out what it hands out by the weights of priorities.
type Weigher interface {
	// UseWeights gives the driver the weights of a lambda's priorities, in their order; nil for a lambda
	// whose order is strict. It is called once, before Send and Receive. The function must not block.
	UseWeights(of func(lambda uint32) []uint16)
}

// turnsMax bounds the lambdas whose turns are known. Beyond it all begin anew, which costs each a few turns.
const turnsMax = 4096

// Turns chooses between the queues of a lambda whose priorities have weights, by smooth weighted round robin:
// over any stretch in which the same queues have messages, each gives messages in proportion to its weight,
// as evenly as that goes, and an empty one saves nothing up. It is a driver's, which guards it by its lock.
// The zero Turns leaves all in strict order.
type Turns struct {
	weights func(lambda uint32) []uint16
	of      map[uint32]*credits
}

// credits is how far each priority is behind its share of a lambda's messages.
type credits struct {
	weights [task.PrioritiesMax]uint16 // for which they were counted
	owed    [task.PrioritiesMax]int
}

// Use sets the weights.
func (t *Turns) Use(weights func(lambda uint32) []uint16) { t.weights = weights }

// Turn is the order of one Receive for one lambda.
type Turn struct {
	*credits

	among [task.PrioritiesMax]bool // the queues that are received from
	name  Name
}

// For returns the turn of the lambda of a queue, among the queues of it that are received from; nil if the
// order is strict, as it always is for suspects.
func (t *Turns) For(name Name, among []Name) *Turn {
	if t.weights == nil || name.Class != Normal {
		return nil
	}
	weights := t.weights(name.Lambda)
	if len(weights) == 0 {
		return nil
	}
	turn := &Turn{credits: t.creditsOf(name.Lambda, weights), name: name}
	for _, n := range among {
		if n.Lambda == name.Lambda && n.Class == Normal && int(n.Priority) < len(weights) {
			turn.among[n.Priority] = true
		}
	}
	return turn
}

// creditsOf returns the credits of a lambda, which begin anew when its weights have changed.
func (t *Turns) creditsOf(lambda uint32, weights []uint16) *credits {
	var now [task.PrioritiesMax]uint16
	copy(now[:], weights)
	c := t.of[lambda]
	if c == nil || c.weights != now {
		if t.of == nil || len(t.of) >= turnsMax {
			t.of = map[uint32]*credits{}
		}
		c = &credits{weights: now}
		t.of[lambda] = c
	}
	return c
}

// Next returns the queue that gives the next message. isDue reports whether a queue has one; that of the
// turn's own name must have.
func (t *Turn) Next(isDue func(Name) bool) Name {
	next, total := t.name, 0
	for priority, weight := range t.weights {
		name := Name{Lambda: t.name.Lambda, Priority: uint8(priority)}
		if !t.among[priority] || !isDue(name) {
			continue
		}
		t.owed[priority] += int(weight)
		if total == 0 || t.owed[priority] > t.owed[next.Priority] {
			next = name
		}
		total += int(weight)
	}
	t.owed[next.Priority] -= total
	return next
}
