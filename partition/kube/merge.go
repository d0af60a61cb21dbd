package kube

import (
	"maps"
	"slices"
)

// word is what the lease rows say of a pod, by the processes in it.
type word uint8

const (
	unknown word = iota // no process of it was ever seen
	gone                // all of them are silent, or took their rows away
	leaving
	joining
	founding // it came when nobody was ready, and its pod has not been seen to be ready for long
	ready
)

// sources is what is known of the pods at one moment.
type sources struct {
	self    string
	contact bool            // the watch can be believed
	watch   map[string]bool // the pods of our fleet that it shows and that are not being deleted, and ours; true: ready
	wanted  int             // how many pods our fleet is to have; 0: that is not known
	rows    map[string]word // without self
}

// standing is what came out of the sources so far. Both are sorted.
type standing struct {
	members []string
	// base are those who were members and whom the rows never took for gone since. It is what an implausible
	// list is measured by: one that shrinks by one pod at a time is as implausible as one that shrinks at
	// once.
	base []string
}

// merge makes the members out of two sources. kept is how many are members though the watch says that they
// are gone.
//
//   - A process's own word, joining or leaving, counts: it is no member then.
//   - Who is silent by the rows is none, whatever the watch says: who cannot renew its row cannot fire
//     either.
//   - Who is ready by the watch is a member.
//   - So is a founder whose pod is there: those who come when nobody is ready share from the start. It is one
//     by its own word, so that all see the same ones, and stays one when the first of them get ready.
//   - Who is not, and is ready by the rows, is none either, unless there are more than half of base such, and
//     more than one, or none of the pods that there are is ready by the watch: then that is not believed, and
//     all of them stay until the rows agree.
//   - Without the watch the rows decide: who was a member and is not known to be gone stays, who says that it
//     is ready or a founder comes.
//   - A pod without rows is judged by the watch alone. An empty result is not believed.
//   - Self is ready by its own word, and by the watch as long as its pod is there.
//
// The result for the same sources and standing is the same, and merging it again changes nothing.
func merge(before standing, s sources) (after standing, kept int) {
	if s.contact {
		after, kept = mergeBoth(before, s)
	} else {
		after = mergeRows(before, s)
	}
	if len(after.members) == 0 {
		after.members = before.members
	}
	return after, kept
}

func mergeBoth(before standing, s sources) (after standing, kept int) {
	var doubted []string
	nobody := len(s.watch) > 0 && !s.anyReady()
	for _, pod := range s.candidates(before.base) {
		watched, there, said := s.says(pod)
		switch {
		case said == joining || said == leaving || said == gone:
		case watched || said == founding && there:
			after.members = append(after.members, pod)
			after.base = append(after.base, pod)
		case said >= founding && (contains(before.base, pod) || nobody && there):
			doubted = append(doubted, pod)
			after.base = append(after.base, pod)
		}
	}
	if nobody || len(doubted) > max(1, len(after.base)/2) {
		after.members = append(after.members, doubted...)
		slices.Sort(after.members)
		kept = len(doubted)
	}
	return after, kept
}

// anyReady says whether the watch shows a pod that is ready, ours included.
func (s *sources) anyReady() bool {
	for _, watched := range s.watch {
		if watched {
			return true
		}
	}
	return false
}

func mergeRows(before standing, s sources) (after standing) {
	after.base = before.base
	for _, pod := range s.candidates(before.members) {
		_, _, said := s.says(pod)
		if said >= founding || said == unknown && contains(before.members, pod) {
			after.members = append(after.members, pod)
		}
	}
	after.base = union(before.base, after.members)
	return after
}

// candidates are all who may be members, sorted.
func (s *sources) candidates(before []string) []string {
	all := make([]string, 0, len(before)+len(s.watch)+len(s.rows)+1)
	all = append(append(all, before...), s.self)
	all = slices.AppendSeq(all, maps.Keys(s.watch))
	all = slices.AppendSeq(all, maps.Keys(s.rows))
	slices.Sort(all)
	return slices.Compact(all)
}

// gathering says whether a fleet begins: nobody is ready, and some of the pods that are wanted are not there,
// or have not said yet what they are.
func (s *sources) gathering() bool {
	if !s.contact || s.anyReady() {
		return false
	}
	for _, said := range s.rows {
		if said == ready {
			return false
		}
	}
	if len(s.watch) < s.wanted { // they are made one after the other
		return true
	}
	for pod := range s.watch {
		if said := s.rows[pod]; pod != s.self && said != founding && said != leaving {
			return true
		}
	}
	return false
}

// says is what the two sources say of a pod: whether the watch counts it, whether it shows it at all, and the
// rows' word.
func (s *sources) says(pod string) (watched, there bool, said word) {
	watched, there = s.watch[pod]
	if pod == s.self {
		return there, there, ready
	}
	return watched, there, s.rows[pod]
}

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
