package pebble

import "time"

// ExpireSpaceCheck makes the next call look at the free space again.
func ExpireSpaceCheck(d *Driver) { d.space.next.Store(0) }

// WithFreshRows makes the generations of fresh small.
func WithFreshRows(c Config, n int) Config {
	c.freshRows = n
	return c
}

// WithPatience lets patient writes wait for d.
func WithPatience(c Config, d time.Duration) Config {
	c.patience = d
	return c
}
