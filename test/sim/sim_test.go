package sim

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The flags that test/cmd/sim gives to the process of one seed.
var (
	seedFlag   = flag.Uint64("seed", 0, "run this seed, and print what became of it as JSON")
	faults     = flag.String("faults", "all", "only the faults of the plan with these numbers, comma separated")
	onlyOrders = flag.String("orders", "all", "only the orders of the plan with these numbers, comma separated")
	show       = flag.Bool("trace", false, "print the trace, too")
)

func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	runtime.MemProfileRate = 0
	os.Exit(m.Run())
}

// addressBytesMax bounds the memory of a seed that does not end.
const addressBytesMax = 6 << 30

// TestSeed runs the seed of -seed.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed: make test/sim runs seeds")
	}
	limit := syscall.Rlimit{Cur: addressBytesMax, Max: addressBytesMax}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		t.Fatal(err)
	}
	debug.SetGCPercent(-1) // a collection would have its say in which goroutine goes on
	plan := NewPlan(*seedFlag)
	if err := plan.Only(*faults, *onlyOrders); err != nil {
		t.Fatal(err)
	}
	Run(t, *seedFlag, plan, *show, func(r Result) {
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			t.Error(err)
		}
		if *show {
			_, _ = os.Stdout.WriteString(r.Trace.String() + "\n")
		}
		if plan.Form == embedded {
			os.Exit(0) // the engine leaves goroutines of stores that could not be opened, which synctest does not allow
		}
	})
}

// TestTheSimulationRuns is a handful of seeds without the overlay: same plans, another order each time. One of
// them has a chain and a group of several parts.
func TestTheSimulationRuns(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("-seed runs TestSeed")
	}
	left, wide := 5, 1
	for seed := uint64(1); left+wide > 0; seed++ {
		plan := NewPlan(seed)
		switch {
		case plan.Form == embedded:
			continue // the engine leaves goroutines, which synctest does not allow
		case left > 0:
			left--
		case plan.Graphs.isWide():
			wide--
		default:
			continue
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			Run(t, seed, plan, true, func(r Result) {
				if len(r.Breaches) > 0 {
					t.Errorf("%s\n%s", strings.Join(r.Breaches, "\n"), r.Trace)
				}
			})
		})
	}
}
