package pebble

import "sync"

// floor is a lower bound of the live entries of one index in one partition. Indexes are used as queues:
// entries leave at the head, and every scan would walk over their tombstones until a compaction drops them.
// So a scan that would start below the floor starts at it, and raises it to the first live entry that it
// finds. An entry that stays long keeps the floor low. A scan that starts above the floor walks over the
// tombstones there, of which there are only as many as its start is behind now (60,000 tombstones take 2 ms;
// see BenchmarkLook).
//
// The floor is exact because of three rules. The committer lowers it before an entry becomes visible. A scan
// notes the entries that are being inserted (pending) before it opens its iterator, and all that are inserted
// from then on (lowest), so an entry that its iterator cannot see keeps the floor low. One scan raises the
// floor at a time.
type floor struct {
	mu      sync.Mutex
	low     position // no live entry is below
	pending position // lowest entry evaluated but not yet visible; last for none
	raising bool     // a scan that may raise the floor is running
	lowest  position // lowest entry inserted or pending since that scan began
}

func newFloor() floor { return floor{pending: last} }

// insert notes an entry that will soon become visible, and reports whether it is the first since visible was
// called.
func (f *floor) insert(p position) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first = f.pending == last
	f.low = earlier(f.low, p)
	f.pending = earlier(f.pending, p)
	if f.raising {
		f.lowest = earlier(f.lowest, p)
	}
	return first
}

// visible notes that an iterator opened from now on sees every entry noted so far.
func (f *floor) visible() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = last
}

// start returns the position at which a scan of the entries from a position on begins. The scan calls it
// before it opens its iterator, and raise at its end if raises is true.
func (f *floor) start(from position) (low position, raises bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.low.less(from) {
		return from, false // there may be live entries in between
	}
	if !f.raising {
		f.raising, f.lowest, raises = true, f.pending, true
	}
	return f.low, raises
}

// raise ends a scan whose first live entry is at head.
func (f *floor) raise(head position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raising = false
	f.low = later(f.low, earlier(head, f.lowest))
}
