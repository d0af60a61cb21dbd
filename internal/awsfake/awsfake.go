// Package awsfake is the common part of the fakes of AWS services: how a call runs, which faults it has, and
// how its errors look. The fakes are in the packages below it, fakedynamo and fakesqs. They have the Go
// methods of the clients of aws-sdk-go-v2 and, unlike emulators, the limits of the real services. A seed and
// a clock decide everything they do, so that a simulation can run over them.
//
// A fake refuses what it does not model with ErrNotModelled; it never gives an answer that might be wrong.
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

// ErrNotModelled refuses a request that the real service accepts and its fake does not know.
var ErrNotModelled = errors.New("not modelled by the fake")

// NotModelled returns an ErrNotModelled with a text that says what is not modelled.
func NotModelled(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotModelled, fmt.Sprintf(format, args...))
}

// Only refuses an input with any other field set than the named ones.
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

// Service configures the calls of one fake.
type Service struct {
	ID     string // as in the errors of the SDK: "DynamoDB", "SQS"
	Clock  clock.Clock
	Faults *Faults
	// Attempts is how often the client's own retryer sends a call that may succeed later (throttled, server
	// error, no answer), unless the options of the call say otherwise. A retry meets what an earlier attempt
	// did. There is no pause between attempts.
	Attempts int
	// Throttle, Broken and Denied return the service's errors for a throttled call, a server error and a call
	// without permission.
	Throttle, Broken func() error
	Denied           func(call string) error
	// Called, if set, is called for every request that arrives, refused ones included.
	Called func(call string)
}

// Do runs one call, with faults and retries, and wraps its errors as the SDK does. retryer is the one that
// the options of the call set; nil for none.
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
		if attempt >= attempts || !isTransient(err) || ctx.Err() != nil {
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

// stall waits if Stalled strikes the call, until ctx ends at the latest.
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

// stallDefault is how long a stalled call hangs unless StallFor changed that.
const stallDefault = time.Second
