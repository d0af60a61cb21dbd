package task

import (
	"fmt"
	"math"
	"time"
)

// Bounds and defaults of the brakes of a lambda.
const (
	RetryShareMin = 0.01
	RetryShareMax = 10

	BreakerFailuresMin   = 0.01
	BreakerFailuresMax   = 1
	BreakerWindowMin     = 10 * time.Second
	BreakerWindowMax     = time.Hour
	BreakerWindowDefault = time.Minute
)

// Breaker is the setting of a lambda's circuit breaker: it pauses the lambda when the share Failures of the
// attempts that ended within Window have failed. The zero value is none.
type Breaker struct {
	Failures float64       `json:"failures"`
	Window   time.Duration `json:"window_ns"`
}

// IsSet reports whether there is a breaker.
func (b Breaker) IsSet() bool { return b.Failures > 0 }

// WithDefaults returns a copy in which a breaker without a window has the default one.
func (b Breaker) WithDefaults() Breaker {
	if b.IsSet() && b.Window == 0 {
		b.Window = BreakerWindowDefault
	}
	return b
}

func (b Breaker) validate() error {
	switch {
	case b == Breaker{}:
		return nil
	case b.Failures == 0:
		return fmt.Errorf("%w breaker window %v: the lambda has no breaker; give the share of failures too", ErrInvalid, b.Window)
	case !(b.Failures >= BreakerFailuresMin && b.Failures <= BreakerFailuresMax):
		return fmt.Errorf("%w breaker failures %v: want %v to %v, a share of the attempts", ErrInvalid, b.Failures, BreakerFailuresMin, BreakerFailuresMax)
	}
	return durationBetween("breaker window", b.Window, BreakerWindowMin, BreakerWindowMax)
}

// checkBrakes checks the retry share and the breaker.
func (l *Lambda) checkBrakes() []error {
	var share error
	if s := l.RetryShare; s != 0 && !(s >= RetryShareMin && s <= RetryShareMax) || math.IsNaN(l.RetryShare) {
		share = fmt.Errorf("%w retry share %v: want %v to %v retries for each first start", ErrInvalid, l.RetryShare, RetryShareMin, RetryShareMax)
	}
	return []error{share, l.Breaker.validate()}
}
