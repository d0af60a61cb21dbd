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
		rows:  rapid.MapOf(podNames, rapid.SampledFrom([]rowState{unknown, gone, leaving, joining, founding, ready, ready, ready})).Draw(t, "rows"),
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

// What holds for whatever merge is made of.
func TestWhatMergeKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySources.Draw(t, "sources")
		before := anyStanding(t, s.self)
		after, kept := merge(before, s)
		for _, names := range [][]string{after.members, after.base} {
			if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
				t.Fatalf("%q is not sorted, each once", names)
			}
		}
		if len(before.members) > 0 && len(after.members) == 0 {
			t.Fatal("the members are suddenly none")
		}
		again, keptAgain := merge(after, s)
		if !slices.Equal(again.members, after.members) || !slices.Equal(again.base, after.base) || kept != keptAgain {
			t.Fatalf("%v, %d kept, became %v, %d kept", after, kept, again, keptAgain)
		}
		for pod, watched := range s.watch {
			if s.contact && watched && s.rows[pod] == ready && !slices.Contains(after.members, pod) {
				t.Fatalf("%s is ready by both and not among %q", pod, after.members)
			}
		}
		changed := !slices.Equal(before.members, after.members) // else perhaps because nobody would be left
		for _, pod := range after.members {
			known := pod == s.self || s.watch[pod] || s.rows[pod] >= founding
			switch said := s.rows[pod]; {
			case !known && !slices.Contains(before.members, pod) && !slices.Contains(before.base, pod):
				t.Fatalf("%s came from nowhere", pod)
			case changed && said == gone:
				t.Fatalf("%s is silent and among %q", pod, after.members)
			case changed && (said == leaving || said == joining):
				t.Fatalf("%s is a member though it says otherwise", pod)
			case changed && s.contact && s.anyReady() && pod != s.self && !s.watch[pod] && said != founding && !slices.Contains(before.base, pod):
				t.Fatalf("%s is not ready, others are, and it is among %q", pod, after.members)
			}
		}
		for pod, said := range s.rows {
			_, there := s.watch[pod]
			is := slices.Contains(after.members, pod)
			if s.contact && said == founding && there && !is {
				t.Fatalf("%s is a founder and not among %q", pod, after.members)
			}
			if s.contact && said == founding && !there && is && kept == 0 && changed {
				t.Fatalf("%s is among %q without a pod", pod, after.members)
			}
		}
	})
}

// start is how far a pod of a fleet that starts is.
type start int

const (
	there   start = iota // its container is to begin
	begun                // its process has not looked yet
	founder              // it found nobody ready
	warm                 // it says that it is ready
	shown                // so does the watch
	steady               // it leaves that to the watch
	late                 // it came when somebody was ready
	killed
	deleted
)

// says puts what the sources say of a pod that is that far into them.
func (f start) says(s *sources, pod string) {
	words := map[start]rowState{there: unknown, begun: joining, founder: founding, warm: founding, shown: founding, steady: ready, late: joining, killed: gone, deleted: founding}
	s.rows[pod], s.watch[pod] = words[f], f == shown || f == steady
	if f == deleted {
		delete(s.watch, pod)
	}
}

// Pods that start together become members as they come, and stay that while they get ready in whatever order;
// those that end in between do not.
func TestAFleetThatStartsDoesNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfNDistinct(podNames, 2, 12, rapid.ID[string]).Draw(t, "pods")
		s := sources{self: pods[0], contact: true, watch: map[string]bool{pods[0]: false}, rows: map[string]rowState{}}
		far := map[string]start{}
		var now standing
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			pod := rapid.SampledFrom(pods).Draw(t, "pod")
			f := far[pod]
			switch {
			case pod == s.self:
				s.watch[pod] = rapid.Bool().Draw(t, "ready")
			case rapid.IntRange(0, 20).Draw(t, "ends") == 0:
				f = rapid.SampledFrom([]start{killed, deleted}).Draw(t, "how")
			case f == begun && (s.anyReady() || slices.Contains(slices.Collect(maps.Values(far)), warm)):
				f = late
			case f < steady:
				f++
			}
			far[pod] = f
			want, gone := []string{s.self}, 0
			for _, pod := range pods[1:] {
				far[pod].says(&s, pod)
				if f := far[pod]; f >= founder && f <= steady {
					want = append(want, pod)
				}
				if far[pod] == deleted {
					gone++
				}
			}
			var kept int
			now, kept = merge(now, s)
			slices.Sort(want)
			if !slices.Equal(now.members, want) && (kept == 0 || gone == 0) {
				t.Fatalf("%v: members are %q, want %q", far, now.members, want)
			}
		}
	})
}

// The rows are all alive: whatever the watch loses, one pod after the other or all at once, most stay.
func TestTheWatchAloneTakesAtMostHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfNDistinct(podNames, 2, 12, rapid.ID[string]).Draw(t, "pods")
		s := sources{self: pods[0], contact: true, watch: map[string]bool{}, rows: map[string]rowState{}}
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
				s.rows[pod] = map[bool]rowState{true: ready, false: gone}[watched]
			}
		}
		for pod, said := range maps.All(s.rows) {
			if !s.watch[pod] && said >= founding { // its row alone says so
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
	all := func(w rowState) map[string]rowState { return map[string]rowState{"b": w, "c": w, "d": w, "e": w} }
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
		{"a pod that is not ready yet", sources{contact: true, watch: map[string]bool{"a": true, "b": true, "x": false}, rows: map[string]rowState{"b": ready, "x": ready}}, []string{"a", "b"}, 0},
		{"who joins waits for its own word", sources{contact: true, watch: watch("a", "b", "x"), rows: map[string]rowState{"b": ready, "x": joining}}, []string{"a", "b"}, 0},
		{"no watch", sources{rows: all(ready)}, five.members, 0},
		{"no watch, most are silent", sources{rows: all(gone)}, []string{"a"}, 0},
		{"no watch, one comes", sources{rows: map[string]rowState{"b": ready, "x": ready, "y": joining}}, []string{"a", "b", "c", "d", "e", "x"}, 0},
		{"no watch and no rows", sources{}, five.members, 0},
		{"our own pod is deleted", sources{contact: true, watch: watch("b", "c", "d", "e"), rows: all(ready)}, []string{"b", "c", "d", "e"}, 0},
		{"we are not ready yet", sources{contact: true, watch: map[string]bool{"a": false, "b": true}, rows: map[string]rowState{"b": ready}}, []string{"a", "b"}, 0},
		{"a founder", sources{contact: true, watch: map[string]bool{"a": false, "b": false, "x": false}, rows: map[string]rowState{"b": founding, "x": joining}}, []string{"a", "b"}, 0},
		{"a founder, when others are ready", sources{contact: true, watch: map[string]bool{"a": true, "b": true, "x": false}, rows: map[string]rowState{"b": ready, "x": founding}}, []string{"a", "b", "x"}, 0},
		{"a founder without a pod", sources{contact: true, watch: watch("a", "b"), rows: map[string]rowState{"b": ready, "x": founding}}, []string{"a", "b"}, 0},
		{"no watch, founders come", sources{rows: map[string]rowState{"b": founding, "x": founding}}, []string{"a", "b", "c", "d", "e", "x"}, 0},
		{"nobody ready, and warm by the rows", sources{contact: true, watch: map[string]bool{"a": false, "x": false, "y": false}, rows: map[string]rowState{"x": ready, "y": joining}}, []string{"a", "x"}, 1},
		{"one of two not ready, nor are we", sources{contact: true, watch: map[string]bool{"a": false, "b": false}, rows: map[string]rowState{"b": ready}}, []string{"a", "b"}, 1},
	} {
		c.s.self = "a"
		got, kept := merge(five, c.s)
		if !slices.Equal(got.members, c.want) || kept != c.kept {
			t.Errorf("%s: %q and %d kept, want %q and %d", c.name, got.members, kept, c.want, c.kept)
		}
	}
}
