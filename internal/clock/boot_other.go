//go:build !linux

package clock

import "time"

// sinceBoot returns zero: there is no such clock, and Since uses the wall clock instead.
func sinceBoot() time.Duration { return 0 }
