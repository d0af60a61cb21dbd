package pebble

import "sync"

// durable numbers the commits with writes that are not lazy, so that a read of single rows can wait until
// what it saw is on disk. Without that a row could be read, acted upon by the reader, and be gone after a
// crash. (Scans do not wait: what follows from them is a conditional write, and the log puts it behind what
// it depends on.)
type durable struct {
	mu      sync.Mutex
	moved   sync.Cond     // on mu: ended grew
	begun   uint64        // the last commit that may be visible
	ended   uint64        // up to this they are on disk
	hastens chan struct{} // asks the committer not to let patient writes wait
}

// begin numbers a commit that is about to become visible.
func (d *durable) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	return d.begun
}

// end says that the commits up to n are on disk.
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
