package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kinesin-io/kinesin/queue"
)

const weighted = 7 // a lambda

var threeQueues = []queue.Name{{Lambda: weighted}, {Lambda: weighted, Priority: 1}, {Lambda: weighted, Priority: 2}}

// turnsBy returns turns of the weighted lambda with three priorities.
func turnsBy(weights ...uint16) *queue.Turns {
	var t queue.Turns
	t.Use(func(lambda uint32) []uint16 {
		if lambda == weighted {
			return weights
		}
		return nil
	})
	return &t
}

// take returns the priorities of the next n messages where the queues of some priorities have any number.
func take(t *testing.T, turns *queue.Turns, n int, have ...uint8) (taken []uint8) {
	t.Helper()
	isDue := func(name queue.Name) bool { return slices.Contains(have, name.Priority) }
	for range n {
		turn := turns.For(queue.Name{Lambda: weighted, Priority: have[0]}, threeQueues)
		next := turn.Next(isDue)
		if !isDue(next) || next.Lambda != weighted {
			t.Fatalf("%v gives a message, and only %v have some", next, have)
		}
		taken = append(taken, next.Priority)
	}
	return taken
}

func TestTurnsAreInProportionAndSpread(t *testing.T) {
	turns := turnsBy(8, 3, 1)
	for range 5 {
		if got, want := take(t, turns, 12, 0, 1, 2), []uint8{0, 1, 0, 0, 2, 0, 1, 0, 0, 0, 1, 0}; !slices.Equal(got, want) {
			t.Fatalf("took %v, want %v", got, want)
		}
	}
}

// The share of an empty queue goes to the others by their weights.
func TestAnEmptyQueueHasNoTurn(t *testing.T) {
	turns := turnsBy(2, 1, 9)
	count := [3]int{}
	for _, priority := range take(t, turns, 300, 0, 1) {
		count[priority]++
	}
	if count != [3]int{200, 100, 0} {
		t.Errorf("took %v", count)
	}
	count = [3]int{}
	for _, priority := range take(t, turns, 12, 0, 1, 2) {
		count[priority]++
	}
	if count != [3]int{2, 1, 9} { // and it has saved nothing up
		t.Errorf("then took %v", count)
	}
}

// Whatever comes and goes in the other queues, one with messages has its turn within two rounds.
func TestNoQueueStarves(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		weights := []uint16{1 + uint16(random.IntN(50)), 1 + uint16(random.IntN(50)), 1 + uint16(random.IntN(50))}
		total := int(weights[0] + weights[1] + weights[2])
		turns, waited := turnsBy(weights...), 0
		for range 200 * total {
			have := []uint8{2}
			for priority := range uint8(2) {
				if random.IntN(3) > 0 {
					have = append(have, priority)
				}
			}
			slices.Sort(have)
			if waited++; take(t, turns, 1, have...)[0] == 2 {
				waited = 0
			}
			if waited > 2*total {
				t.Fatalf("seed %d: with weights %v the lowest priority was passed over %d times", seed, weights, waited)
			}
		}
	}
}

func TestWhatHasNoTurns(t *testing.T) {
	turns := turnsBy(8, 3, 1)
	for _, name := range []queue.Name{{Lambda: 8}, {Lambda: weighted, Class: queue.Suspect}, {Lambda: weighted, Class: queue.Blamed}} {
		if turns.For(name, []queue.Name{name}) != nil {
			t.Errorf("%v has turns", name)
		}
	}
	if new(queue.Turns).For(threeQueues[0], threeQueues) != nil {
		t.Error("a driver without weights has turns")
	}
	for range 20 { // a queue that is not received from
		turn := turns.For(threeQueues[1], threeQueues[:2])
		if next := turn.Next(func(queue.Name) bool { return true }); next == threeQueues[2] {
			t.Fatal("a message of a queue that was not asked for")
		}
	}
}

// New weights hold at once, whatever the old ones were.
func TestTurnsFollowTheWeights(t *testing.T) {
	weights := []uint16{1000, 1, 1}
	var turns queue.Turns
	turns.Use(func(uint32) []uint16 { return weights })
	take(t, &turns, 700, 0, 1, 2)
	weights = []uint16{1, 1, 2}
	count := [3]int{}
	for _, priority := range take(t, &turns, 8, 0, 1, 2) {
		count[priority]++
	}
	if count != [3]int{2, 2, 4} {
		t.Errorf("took %v", count)
	}
}
