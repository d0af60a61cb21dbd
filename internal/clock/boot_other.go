//go:build !linux

package clock

import "time"

// sinceBoot has no clock to read here: the wall clock stands in.
func sinceBoot() time.Duration { return 0 }
