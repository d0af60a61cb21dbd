// Package awsfake is what the stand-ins for services of AWS share: how a call runs, what may go wrong with
// it, and how its errors look. The stand-ins themselves are below it: fakedynamo and fakesqs. They have the
// Go methods of the clients of aws-sdk-go-v2 and the limits of the real services, where emulators have none,
// and everything they do is decided by a seed and a clock, so that a simulation can run over them.
//
// What a stand-in does not know it refuses with ErrNotModelled, never with an answer that might be wrong.
package awsfake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// ErrNotModelled refuses what the real service would do but its stand-in cannot.
var ErrNotModelled = errors.New("not modelled by the stand-in")

// NotModelled says what.
func NotModelled(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotModelled, fmt.Sprintf(format, args...))
}

// Only refuses an input that sets any field besides the named ones.
func Only(input any, known ...string) error {
	v := reflect.ValueOf(input).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && !v.Field(i).IsZero() && !slices.Contains(known, f.Name) {
			return NotModelled("field %s of %s", f.Name, v.Type().Name())
		}
	}
	return nil
}

// Service is one stand-in as its calls see it.
type Service struct {
	ID     string // as in the errors of the SDK: "DynamoDB", "SQS"
	Clock  clock.Clock
	Faults *Faults
	// Attempts is how often the client's own retryer tries a call that failed for a moment (throttled, a
	// server error, no answer) unless the call has options of its own about that. It sees its own first try
	// then, if that was done after all. Between tries nobody waits.
	Attempts int
	// Throttle, Broken and Denied are the service's errors for "too fast", "my fault" and "not you".
	Throttle, Broken func() error
	Denied           func(call string) error
	// Called is told of every request that the service gets to see, those that it refuses among them; nil is
	// fine.
	Called func(call string)
}

// Do runs one call: with its faults, its retries, and errors that look like the SDK's. retryer is what the
// call's own options set, nil for nothing.
func Do[Out any](ctx context.Context, s *Service, call string, retryer aws.Retryer, run func() (*Out, error)) (*Out, error) {
	attempts := s.Attempts
	if retryer != nil {
		attempts = retryer.MaxAttempts()
	}
	for attempt := 1; ; attempt++ {
		out, err := try(ctx, s, call, run)
		if err == nil {
			return out, nil
		}
		if attempt >= attempts || !isPassing(err) || ctx.Err() != nil {
			return nil, operationError(s.ID, call, err)
		}
	}
}

func try[Out any](ctx context.Context, s *Service, call string, run func() (*Out, error)) (*Out, error) {
	if err := stall(ctx, s, call); err != nil {
		return nil, canceled(err)
	}
	if s.Called != nil {
		s.Called(call)
	}
	switch {
	case s.Faults.Strikes(call, Denied):
		return nil, s.Denied(call)
	case s.Faults.Strikes(call, Throttled):
		return nil, s.Throttle()
	case s.Faults.Strikes(call, Refused):
		return nil, s.Broken()
	case s.Faults.Strikes(call, LostRequest):
		return nil, noAnswer(call)
	}
	out, err := run()
	if err != nil {
		return nil, err
	}
	switch {
	case s.Faults.Strikes(call, LostAnswer):
		return nil, noAnswer(call)
	case s.Faults.Strikes(call, BrokenAfter):
		return nil, s.Broken()
	}
	return out, nil
}

// stall waits where a call is struck by Stalled, and ends with ctx.
func stall(ctx context.Context, s *Service, call string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.Faults.Strikes(call, Stalled) {
		return nil
	}
	if err := clock.Sleep(ctx, s.Clock, s.Faults.stallTime()); err != nil {
		return ctx.Err() // the SDK shows the context's error, never its cause
	}
	return nil
}

// stallDefault is how long a stalled call hangs unless StallFor said otherwise.
const stallDefault = time.Second
