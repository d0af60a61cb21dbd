// Command sim runs seeds of the simulation in test/sim, each in a process of its own, as many at a time as
// there are processors. It checks that a seed runs the same way twice and that all faults and states that the
// simulation is about did occur. It shrinks a failure, and prints how to run it again. The last line is "N
// passed, M failed". See make test/sim.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

func main() {
	var c config
	flag.Uint64Var(&c.from, "seed", 1, "first `seed`, at least 1")
	flag.IntVar(&c.count, "seeds", 2000, "how many seeds")
	flag.StringVar(&c.faults, "faults", "all", "only these faults of each plan, by `numbers` with commas; with it, or with -orders, the trace is printed")
	flag.StringVar(&c.orders, "orders", "all", "only these orders of each plan, by `numbers` with commas")
	flag.BoolVar(&c.trace, "trace", false, "print the trace of each seed")
	flag.IntVar(&c.parallel, "parallel", runtime.NumCPU(), "seeds at a time")
	flag.IntVar(&c.twice, "twice", 20, "how many of the seeds run a second time, which has to go the same way")
	flag.DurationVar(&c.within, "within", 2*time.Minute, "how long a seed may take")
	flag.Parse()
	if c.from == 0 || c.count < 1 || c.parallel < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "sim: want -seed, -seeds and -parallel of at least 1, and no other arguments")
		os.Exit(2)
	}
	passed, failed, err := c.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
