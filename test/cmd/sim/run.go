package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/test/sim"
)

type config struct {
	from           uint64
	count          int
	faults, orders string
	trace          bool
	parallel       int
	twice          int
	within         time.Duration
	binary         string
}

// seedResult is what became of a seed.
type seedResult struct {
	sim.Result

	output string // of a process that failed otherwise, and the trace when it was asked for
}

func (v *seedResult) failed() bool { return len(v.Breaches) > 0 }

func (c *config) run() (passed, failed int, err error) {
	dir, err := os.MkdirTemp("", "kinesin-sim-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if c.binary, err = build(dir); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	seen, virtual := map[string]int{}, time.Duration(0)
	for v := range c.all() {
		virtual += v.Virtual
		for what, n := range v.Seen {
			seen[what] += n
		}
		if c.trace || c.partial() {
			fmt.Println(v.output)
		}
		if !v.failed() {
			passed++
			continue
		}
		failed++
		c.explain(&v)
	}
	fmt.Printf("%d seeds from %d in %v: %v of virtual time\n", c.count, c.from, time.Since(began).Round(time.Second), virtual.Round(time.Minute))
	if c.count >= manySeeds && !c.partial() {
		if missing := missing(seen); len(missing) > 0 {
			fmt.Printf("never happened in %d seeds, so that nothing is shown about it: %s\n", c.count, strings.Join(missing, ", "))
			failed++
		}
	}
	return passed, failed, nil
}

// manySeeds is how many seeds have to show everything that the simulation is about. The rarest of it, a
// redrive of a task that has expired, comes about in one seed of 250.
const manySeeds = 2000

// missing returns the names of the wanted faults and states that did not occur.
func missing(seen map[string]int) []string {
	var none []string
	for _, what := range sim.Wanted() {
		if seen[what] == 0 {
			none = append(none, what)
		}
	}
	slices.Sort(none)
	return none
}

// partial reports whether only a part of each plan is run.
func (c *config) partial() bool { return c.faults != "all" || c.orders != "all" }

// all runs all seeds, some of them twice.
func (c *config) all() <-chan seedResult {
	seeds, out := make(chan uint64), make(chan seedResult)
	go func() {
		defer close(seeds)
		for i := range c.count {
			seeds <- c.from + uint64(i)
		}
	}()
	var workers sync.WaitGroup
	for range c.parallel {
		workers.Go(func() {
			for seed := range seeds {
				v := c.one(seed, c.faults, c.orders, c.trace || c.partial())
				if seed-c.from < uint64(c.twice) && v.Hash != "" {
					if second := c.one(seed, c.faults, c.orders, false); second.Hash != v.Hash {
						v.Breaches = append(v.Breaches, fmt.Sprintf("not repeatable: the trace was %s, and then %s", v.Hash, second.Hash))
					}
				}
				out <- v
			}
		})
	}
	go func() {
		workers.Wait()
		close(out)
	}()
	return out
}

// one runs a seed in a process of its own.
func (c *config) one(seed uint64, faults, orders string, trace bool) seedResult {
	ctx, cancel := context.WithTimeout(context.Background(), c.within)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, "-test.run", "^TestSeed$", "-seed", fmt.Sprint(seed), "-faults", faults, "-orders", orders, fmt.Sprintf("-trace=%v", trace))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	v := seedResult{}
	line, rest, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	if jsonErr := json.Unmarshal(line, &v.Result); jsonErr != nil {
		v.Seed = seed
		v.Breaches = append(v.Breaches, fmt.Sprintf("the process failed: %v", errors.Join(err, ctx.Err())))
		v.output = excerpt(out.String())
		return v
	}
	v.output = string(rest)
	return v
}

// outputBytesMax bounds how much is shown of the output of a process that failed: half of it is the head, where a crash
// has its cause.
const outputBytesMax = 20_000

func excerpt(text string) string {
	if len(text) > outputBytesMax {
		return text[:outputBytesMax/2] + "\n…\n" + text[len(text)-outputBytesMax/2:]
	}
	return text
}
