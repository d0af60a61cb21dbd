package awsfake

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
)

// Swarm lists faults, of which each run of a test has some, and their highest rates.
type Swarm []struct {
	Call  string
	Fault Fault
	Most  float64
}

// Run runs a test once for each seed, in virtual time and beside the others. The test fails if a fault never
// struck in any of the runs, each of which returns its faults.
func (s Swarm) Run(t *testing.T, seeds uint64, run func(t *testing.T, seed uint64) *Faults) {
	t.Helper()
	var mu sync.Mutex // guards fired
	fired := map[Fault]int{}
	t.Cleanup(func() {
		for _, f := range s {
			if fired[f.Fault] == 0 {
				t.Errorf("%q never struck", f.Fault)
			}
		}
	})
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				faults := run(t, seed)
				mu.Lock()
				defer mu.Unlock()
				for _, f := range s {
					fired[f.Fault] += faults.Fired(f.Fault)
				}
			})
		})
	}
}

// Begin lets about half of the faults strike from now on, at rates up to their highest.
func (s Swarm) Begin(faults *Faults, random *rand.Rand) {
	for _, f := range s {
		if random.IntN(2) == 0 {
			faults.Odds(f.Call, f.Fault, random.Float64()*f.Most)
		}
	}
}
