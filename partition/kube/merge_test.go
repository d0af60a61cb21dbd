package kube

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// few names, so that the sources often speak of the same pods.
var podNames = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"})

var anySources = rapid.Custom(func(t *rapid.T) sources {
	s := sources{
		self: podNames.Draw(t, "self"), contact: rapid.Bool().Draw(t, "contact"),
		watch: rapid.MapOf(podNames, rapid.Bool()).Draw(t, "watch"),
		rows:  rapid.MapOf(podNames, rapid.SampledFrom([]word{unknown, gone, leaving, joining, ready, ready, ready})).Draw(t, "rows"),
	}
	delete(s.rows, s.self)
	return s
})

// anyStanding is reached from nothing by what sources may say.
func anyStanding(t *rapid.T, self string) (reached standing) {
	for _, s := range rapid.SliceOfN(anySources, 0, 4).Draw(t, "history") {
		s.self = self
		delete(s.rows, self)
		reached, _ = merge(reached, s)
	}
	return reached
}

// checkMerge draws a standing and sources, and hands what is made of them to the check.
func checkMerge(t *testing.T, check func(t *rapid.T, before, after standing, s sources, kept int)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		s := anySources.Draw(t, "sources")
		before := anyStanding(t, s.self)
		after, kept := merge(before, s)
		check(t, before, after, s, kept)
	})
}

func TestMergedMembersAreASet(t *testing.T) {
	checkMerge(t, func(t *rapid.T, before, after standing, _ sources, _ int) {
		for _, names := range [][]string{after.members, after.base} {
			if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
				t.Fatalf("%q is not sorted, each once", names)
			}
		}
		if len(before.members) > 0 && len(after.members) == 0 {
			t.Fatal("the members are suddenly none")
		}
	})
}

func TestMergingAgainChangesNothing(t *testing.T) {
	checkMerge(t, func(t *rapid.T, _, after standing, s sources, kept int) {
		again, keptAgain := merge(after, s)
		if !slices.Equal(again.members, after.members) || !slices.Equal(again.base, after.base) || kept != keptAgain {
			t.Fatalf("%v, %d kept, became %v, %d kept", after, kept, again, keptAgain)
		}
	})
}

func TestWhoBothSourcesShowIsAMember(t *testing.T) {
	checkMerge(t, func(t *rapid.T, _, after standing, s sources, _ int) {
		for pod, watched := range s.watch {
			if s.contact && watched && s.rows[pod] == ready && !slices.Contains(after.members, pod) {
				t.Fatalf("%s is ready by both and not among %q", pod, after.members)
			}
		}
	})
}

func TestWhoIsSilentIsNone(t *testing.T) {
	checkMerge(t, func(t *rapid.T, before, after standing, s sources, _ int) {
		if slices.Equal(before.members, after.members) {
			return // perhaps because nobody would be left
		}
		for _, pod := range after.members {
			if s.rows[pod] == gone {
				t.Fatalf("%s is silent and among %q", pod, after.members)
			}
		}
	})
}

func TestAProcessesOwnWordCounts(t *testing.T) {
	checkMerge(t, func(t *rapid.T, before, after standing, s sources, _ int) {
		if slices.Equal(before.members, after.members) {
			return
		}
		for _, pod := range after.members {
			if s.rows[pod] == leaving || s.rows[pod] == joining {
				t.Fatalf("%s is a member though it says otherwise", pod)
			}
		}
	})
}

func TestNoMemberComesOutOfNothing(t *testing.T) {
	checkMerge(t, func(t *rapid.T, before, after standing, s sources, _ int) {
		for _, pod := range after.members {
			known := pod == s.self || s.watch[pod] || s.rows[pod] == ready
			if !known && !slices.Contains(before.members, pod) && !slices.Contains(before.base, pod) {
				t.Fatalf("%s came from nowhere", pod)
			}
		}
	})
}

// The rows are all alive: whatever the watch loses, one pod after the other or all at once, most stay.
func TestTheWatchAloneTakesAtMostHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfNDistinct(podNames, 2, 12, rapid.ID[string]).Draw(t, "pods")
		s := sources{self: pods[0], contact: true, watch: map[string]bool{}, rows: map[string]word{}}
		for _, pod := range pods {
			s.watch[pod], s.rows[pod] = true, ready
		}
		delete(s.rows, s.self)
		now, _ := merge(standing{}, s)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			for _, pod := range rapid.SliceOfDistinct(rapid.SampledFrom(pods), rapid.ID[string]).Draw(t, "lost") {
				if rapid.Bool().Draw(t, "deleted") {
					delete(s.watch, pod)
				} else {
					s.watch[pod] = false
				}
			}
			now, _ = merge(now, s)
			if len(pods)-len(now.members) > max(1, len(pods)/2) {
				t.Fatalf("%d of %d are left by the word of the watch alone", len(now.members), len(pods))
			}
		}
		for pod := range s.rows {
			s.rows[pod] = gone
		}
		s.watch[s.self] = true
		now, _ = merge(now, s) // the second source agrees
		for _, pod := range now.members {
			if !s.watch[pod] {
				t.Fatalf("%s stays though both agree", pod)
			}
		}
	})
}

// Processes that heard of the same in another order agree once no pod is in doubt.
func TestViewsAgreeWhereTheSourcesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySources.Draw(t, "sources")
		s.contact = true
		s.watch[s.self] = true
		for pod, watched := range s.watch {
			if pod != s.self {
				s.rows[pod] = map[bool]word{true: ready, false: gone}[watched]
			}
		}
		for pod, said := range maps.All(s.rows) {
			if !s.watch[pod] && said == ready {
				s.rows[pod] = gone
			}
		}
		one, _ := merge(anyStanding(t, s.self), s)
		other, kept := merge(standing{}, s)
		if !slices.Equal(one.members, other.members) || kept != 0 {
			t.Fatalf("%q and %q, %d kept", one.members, other.members, kept)
		}
	})
}

func TestMerge(t *testing.T) {
	five := standing{members: []string{"a", "b", "c", "d", "e"}, base: []string{"a", "b", "c", "d", "e"}}
	all := func(w word) map[string]word { return map[string]word{"b": w, "c": w, "d": w, "e": w} }
	watch := func(pods ...string) map[string]bool {
		shown := map[string]bool{}
		for _, pod := range pods {
			shown[pod] = true
		}
		return shown
	}
	for _, c := range []struct {
		name string
		s    sources
		want []string
		kept int
	}{
		{"two of five gone from the watch", sources{contact: true, watch: watch("a", "b", "c"), rows: all(ready)}, []string{"a", "b", "c"}, 0},
		{"three of five gone from the watch", sources{contact: true, watch: watch("a", "b"), rows: all(ready)}, five.members, 3},
		{"an empty list", sources{contact: true, watch: watch(), rows: all(ready)}, five.members, 5},
		{"an empty list, and silence", sources{contact: true, watch: watch(), rows: all(gone)}, five.members, 0},
		{"most are silent, and ready by the watch", sources{contact: true, watch: watch("a", "b", "c", "d", "e"), rows: all(gone)}, []string{"a"}, 0},
		{"scaled to one", sources{contact: true, watch: watch("a"), rows: all(leaving)}, []string{"a"}, 0},
		{"pods of a version without rows", sources{contact: true, watch: watch("a", "x", "y")}, []string{"a", "x", "y"}, 0},
		{"a pod that is not ready yet", sources{contact: true, watch: map[string]bool{"a": true, "b": true, "x": false}, rows: map[string]word{"b": ready, "x": ready}}, []string{"a", "b"}, 0},
		{"who joins waits for its own word", sources{contact: true, watch: watch("a", "b", "x"), rows: map[string]word{"b": ready, "x": joining}}, []string{"a", "b"}, 0},
		{"no watch", sources{rows: all(ready)}, five.members, 0},
		{"no watch, most are silent", sources{rows: all(gone)}, []string{"a"}, 0},
		{"no watch, one comes", sources{rows: map[string]word{"b": ready, "x": ready, "y": joining}}, []string{"a", "b", "c", "d", "e", "x"}, 0},
		{"no watch and no rows", sources{}, five.members, 0},
		{"our own pod is deleted", sources{contact: true, watch: watch("b", "c", "d", "e"), rows: all(ready)}, []string{"b", "c", "d", "e"}, 0},
		{"we are not ready yet", sources{contact: true, watch: map[string]bool{"a": false, "b": true}, rows: map[string]word{"b": ready}}, []string{"a", "b"}, 0},
	} {
		c.s.self = "a"
		got, kept := merge(five, c.s)
		if !slices.Equal(got.members, c.want) || kept != c.kept {
			t.Errorf("%s: %q and %d kept, want %q and %d", c.name, got.members, kept, c.want, c.kept)
		}
	}
}
