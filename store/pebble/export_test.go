package pebble

import (
	"context"
	"time"
)

// ExpireSpaceCheck makes the next call look at the free space again.
func ExpireSpaceCheck(d *Driver) { d.space.next.Store(0) }

// WithFreshRows makes the generations of what is remembered small.
func WithFreshRows(c Config, n int) Config {
	c.freshRows, c.headRows = n, n
	return c
}

// WithPatience lets patient writes wait for d.
func WithPatience(c Config, d time.Duration) Config {
	c.patience = d
	return c
}

// Flush writes what is in memory to a data file.
func Flush(d *Driver) error { return d.db.Flush() }

// Compact merges all data files.
func Compact(ctx context.Context, d *Driver) error {
	return d.db.Compact(ctx, []byte{0}, []byte{0xff}, false)
}
