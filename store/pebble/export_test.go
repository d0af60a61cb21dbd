package pebble

// ExpireSpaceCheck makes the next call look at the free space again.
func ExpireSpaceCheck(d *Driver) { d.space.next.Store(0) }

// WithFreshRows makes the generations of fresh small.
func WithFreshRows(c Config, n int) Config {
	c.freshRows = n
	return c
}
