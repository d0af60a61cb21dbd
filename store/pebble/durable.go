package pebble

import "sync"

// durable numbers the commits with writes that are not lazy, so that a read of single rows can wait until
// what it saw is on disk. Otherwise a caller could act on a row that is gone after a crash. Scans do not
// wait: their callers follow up with conditional writes, which the log has behind the rows that they depend
// on.
type durable struct {
	mu      sync.Mutex
	moved   sync.Cond     // on mu: ended grew
	begun   uint64        // the last commit that may be visible
	ended   uint64        // the last commit that is on disk
	hastens chan struct{} // asks the committer to sync patient writes now
}

// begin numbers a commit that is about to become visible.
func (d *durable) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	return d.begun
}

// end notes that the commits up to n are on disk.
func (d *durable) end(n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = max(d.ended, n)
	d.moved.Broadcast()
}

// wait returns when everything that is visible now is on disk: after two syncs at most.
func (d *durable) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	target := d.begun
	if d.ended >= target {
		return
	}
	select {
	case d.hastens <- struct{}{}:
	default:
	}
	for d.ended < target {
		d.moved.Wait()
	}
}
