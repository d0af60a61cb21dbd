package kube

import (
	"maps"
	"slices"
)

// rowState is what the lease rows say about a pod, by the processes in it.
type rowState uint8

const (
	unknown rowState = iota // no process of it was ever seen
	gone                    // all are silent, or have deleted their rows
	leaving
	joining
	founding // joined when nobody was ready, and its pod has not been ready for long
	ready
)

// sources is what is known of the pods at one moment.
type sources struct {
	self    string
	contact bool                // the watch is up to date
	watch   map[string]bool     // the pods of the fleet that are not being deleted, and ours; true: ready
	wanted  int                 // how many pods the fleet should have; 0: unknown
	rows    map[string]rowState // without self
}

// standing is the result of the last merge. Both lists are sorted.
type standing struct {
	members []string
	// base are the former members that the rows never showed as gone since. How many of base a list lacks makes it
	// implausible: losing one pod at a time is as implausible as losing all at once.
	base []string
}

// merge computes the members. The watch tells which pods are ready, and the rows which of them are alive;
// without contact the rows tell both. kept counts the members that the watch reports as gone or not ready.
//
//   - A pod whose rows say joining, leaving or gone is no member: a process that cannot renew its row cannot
//     do any work either.
//   - A pod that is ready by the watch is a member, and so is a founder whose pod exists.
//   - A pod that is ready only by its row is in doubt. It is no member, unless more than half of base are in
//     doubt, and more than one, or no pod at all is ready by the watch: then the watch is not believed, and
//     all pods in doubt stay until the rows agree with it.
//   - Without contact a pod is a member if its row says ready or founder, or if it was a member and has no
//     row.
//   - Self is ready by its own word as long as its pod exists. An empty result is not believed.
//
// The result depends on nothing but the arguments, and merging it again changes nothing.
func merge(before standing, s sources) (after standing, kept int) {
	var doubted []string
	noneReady := s.contact && len(s.watch) > 0 && !s.anyReady()
	for _, pod := range s.candidates(before) {
		watched, exists := s.watch[pod]
		row := s.rows[pod]
		if pod == s.self {
			watched, row = exists, ready
		}
		if !s.contact {
			watched = row >= founding || row == unknown && contains(before.members, pod)
		}
		switch {
		case row == joining || row == leaving || row == gone:
		case watched || row == founding && exists:
			after.members = append(after.members, pod)
			after.base = append(after.base, pod)
		case row >= founding && (contains(before.base, pod) || noneReady && exists):
			doubted = append(doubted, pod)
			after.base = append(after.base, pod)
		}
	}
	if noneReady || len(doubted) > max(1, len(after.base)/2) {
		after.members = append(after.members, doubted...)
		slices.Sort(after.members)
		kept = len(doubted)
	}
	if len(after.members) == 0 {
		after.members = before.members
	}
	return after, kept
}

// candidates returns all pods that may be members, sorted.
func (s *sources) candidates(before standing) []string {
	all := append(slices.Concat(before.members, before.base), s.self)
	all = slices.AppendSeq(all, maps.Keys(s.watch))
	all = slices.AppendSeq(all, maps.Keys(s.rows))
	slices.Sort(all)
	return slices.Compact(all)
}

// anyReady reports whether the watch shows a pod that is ready, ours included.
func (s *sources) anyReady() bool {
	for _, watched := range s.watch {
		if watched {
			return true
		}
	}
	return false
}

// gathering reports whether the fleet is starting: nobody is ready, and some pods that the ReplicaSets want
// do not exist yet, or have no row that says what they are.
func (s *sources) gathering() bool {
	if !s.contact || s.anyReady() {
		return false
	}
	for _, row := range s.rows {
		if row == ready {
			return false
		}
	}
	if len(s.watch) < s.wanted {
		return true
	}
	for pod := range s.watch {
		if row := s.rows[pod]; pod != s.self && row != founding && row != leaving {
			return true
		}
	}
	return false
}

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}
