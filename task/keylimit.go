package task

import "fmt"

// HasKeyLimits reports whether the tasks of each limit key of the lambda are limited.
func (l *Lambda) HasKeyLimits() bool { return l.LimitKeyConcurrency > 0 || l.LimitKeyRate > 0 }

// checkKeyLimits refuses limits by key that are out of bounds, and those of a deliver lambda.
func (l *Lambda) checkKeyLimits() error {
	switch rate := l.LimitKeyRate; {
	case l.LimitKeyConcurrency < 0 || l.LimitKeyConcurrency > LimitKeyConcurrencyMax:
		return fmt.Errorf("%w limit key concurrency %d: want 1 to %d", ErrInvalid, l.LimitKeyConcurrency, LimitKeyConcurrencyMax)
	case rate != 0 && !(rate >= LimitKeyRateMin && rate <= LimitKeyRateMax): // also not a number
		return fmt.Errorf("%w limit key rate %v: want %v to %v starts per second", ErrInvalid, rate, LimitKeyRateMin, LimitKeyRateMax)
	case l.Mode == Deliver && l.HasKeyLimits():
		return fmt.Errorf("%w limits by key: lambda %s is of mode deliver, so Kinesin does not know when its tasks run", ErrInvalid, l.Name)
	}
	return nil
}
