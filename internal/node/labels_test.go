package node

import (
	"testing"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

func entryOf(ref uint32, name string, priorities ...string) *catalog.Entry {
	if len(priorities) == 0 {
		priorities = task.PrioritiesDefault()
	}
	return &catalog.Entry{Lambda: task.Lambda{Ref: ref, Name: name, Priorities: priorities}}
}

// The lambdas that are used most have series of their own, whenever they came.
func TestSeriesGoToTheMostUsedLambdas(t *testing.T) {
	m := NewMetrics(MetricsConfig{LambdasMax: 2})
	p := &process{node: &Node{metrics: m}}
	a, b, c := entryOf(1, "a"), entryOf(2, "b"), entryOf(3, "c", "odd")
	accept := func(l *catalog.Entry, times int) {
		for range times {
			m.of(l, 0).accepted.Inc()
		}
	}
	accept(a, 10)
	accept(b, 3)
	accept(c, 4)
	labels := func() map[string]bool {
		all := map[string]bool{}
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "kinesin_tasks_accepted_total" {
				for _, s := range f.GetMetric() {
					all[s.GetLabel()[0].GetValue()+"/"+s.GetLabel()[1].GetValue()] = true
				}
			}
		}
		return all
	}
	want := func(series ...string) {
		t.Helper()
		got := labels()
		for _, s := range series {
			if !got[s] {
				t.Errorf("no series %s among %v", s, got)
			}
		}
		if len(got) != len(series) {
			t.Errorf("series %v, want %v", got, series)
		}
	}
	want("a/high", "b/high", "other/other")
	m.rank()
	want("a/high", "b/high", "other/other") // c is used a little more than b
	accept(c, 20)
	m.rank()
	accept(b, 1)
	accept(c, 1)
	want("a/high", "c/odd", "other/high", "other/other")
	if n := p.series(t, "kinesin_tasks_accepted_total"); n != 10+24+1+1 {
		t.Errorf("%v in all series", n)
	}
	m.existing = func(ref uint32) bool { return ref != 1 }
	m.of(entryOf(4, "d"), 1) // the place of the one that is gone
	want("c/odd", "d/normal", "other/high", "other/other")
}
