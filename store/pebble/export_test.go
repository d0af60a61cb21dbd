package pebble

// ExpireSpaceCheck makes the next call look at the free space again.
func ExpireSpaceCheck(d *Driver) { d.space.next.Store(0) }
