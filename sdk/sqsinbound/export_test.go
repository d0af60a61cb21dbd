package sqsinbound

import "github.com/kinesin-io/kinesin/internal/clock"

// WithClock sets the source of time and chance.
func WithClock(k clock.Clock) Option { return func(c *config) { c.clock = k } }
