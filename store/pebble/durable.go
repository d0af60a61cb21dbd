package pebble

import "sync"

// durable counts the synced commits, so that a read of single rows can wait until what it saw is on
// disk. Without that a row could be read, acted upon by the reader, and be
// gone after a crash. (Scans do not wait: what follows from them is a conditional write, and
// the log puts it behind what it depends on.)
type durable struct {
	mu    sync.Mutex
	moved sync.Cond // on mu: ended grew
	begun uint64    // commits that may be visible
	ended uint64    // commits that are on disk
}

func (d *durable) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
}

func (d *durable) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended++
	d.moved.Broadcast()
}

// wait returns when everything that is visible now is on disk: after two syncs at most.
func (d *durable) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for target := d.begun; d.ended < target; {
		d.moved.Wait()
	}
}
