package main

import (
	"fmt"
	"slices"
	"strings"
)

// trialsMax bounds how often a failure is tried again to shrink it.
const trialsMax = 200

// explain prints what is wrong with a seed, the fewest faults and orders found that show it, and how to run
// it again.
func (c *config) explain(v *seedResult) {
	fmt.Printf("seed %d failed:\n  %s\n", v.Seed, strings.Join(v.Breaches, "\n  "))
	if v.Hash == "" {
		fmt.Printf("%s\nRun it again: make test/sim SEEDS=1 SEED=%d\n", v.output, v.Seed)
		return
	}
	if c.partial() {
		return
	}
	s := shrinker{c: c, seed: v.Seed, faults: upTo(len(v.Plan.Faults)), orders: upTo(len(v.Plan.Load))}
	s.faults = s.shrink(s.faults, func(few []int) bool { return s.fails(few, s.orders) })
	s.orders = s.shrink(s.orders, func(few []int) bool { return s.fails(s.faults, few) })
	small := c.one(v.Seed, list(s.faults), list(s.orders), true)
	fmt.Printf("With %d of its %d faults and %d of its %d orders, after %d trials:\n  %s\n%s\n", len(s.faults), len(v.Plan.Faults),
		len(s.orders), len(v.Plan.Load), s.trials, strings.Join(small.Breaches, "\n  "), excerpt(small.output))
	fmt.Printf("Run it again: make test/sim SEEDS=1 SEED=%d ONLY_FAULTS=%s ONLY_ORDERS=%s\n", v.Seed, list(s.faults), list(s.orders))
}

type shrinker struct {
	c              *config
	seed           uint64
	faults, orders []int
	trials         int
}

func (s *shrinker) fails(faults, orders []int) bool {
	s.trials++
	v := s.c.one(s.seed, list(faults), list(orders), false)
	return v.failed()
}

// shrink leaves out as much as it can so that it still fails: halves first, then quarters, down to single
// ones (Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002).
func (s *shrinker) shrink(all []int, fails func([]int) bool) []int {
	for size := (len(all) + 1) / 2; size >= 1 && s.trials < trialsMax; size /= 2 {
		for from := 0; from < len(all) && s.trials < trialsMax; {
			few := slices.Delete(slices.Clone(all), from, min(from+size, len(all)))
			if fails(few) {
				all = few
			} else {
				from += size
			}
		}
	}
	return all
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// list writes numbers as -faults and -orders take them.
func list(numbers []int) string {
	if len(numbers) == 0 {
		return ","
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}
