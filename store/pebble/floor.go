package pebble

import "sync"

// floor is a lower bound of the live entries of one index in one partition. Indexes are used as queues:
// entries leave at the head and the tombstones they leave behind would be walked over by every scan until a
// compaction drops them. So a scan that would start below the floor starts at it, and raises it to the first
// live entry it found. An entry that stays for long holds the floor down; a scan that starts above the floor
// does walk over what is left there, which is bounded by how far behind now it starts (60,000 tombstones take
// it 2 ms; see BenchmarkLook).
//
// It is only a shortcut, and exactly right because of three rules. The committer lowers the
// floor before an entry becomes visible. A scan reads what is being inserted (pending) before
// it opens its iterator, and learns of all that is inserted from then on (lowest); so
// an entry that its iterator cannot see still holds the floor down. One scan raises at a time.
type floor struct {
	mu      sync.Mutex
	low     position // no live entry is below
	pending position // lowest entry evaluated but not yet visible; last for none
	raising bool     // a scan that may raise the floor is under way
	lowest  position // lowest entry inserted or pending since that scan began
}

func newFloor() floor { return floor{pending: last} }

// insert notes an entry that will become visible soon, and reports whether it is the first
// since visible was called.
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

// visible says that every entry noted so far can be seen by an iterator opened from now on.
func (f *floor) visible() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = last
}

// start is where a scan of the entries from a position on begins; it is called before the scan opens its
// iterator. The scan must call raise at its end when raises is true.
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

// raise ends a scan that found no live entry below head.
func (f *floor) raise(head position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raising = false
	f.low = later(f.low, earlier(head, f.lowest))
}
