package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/sdk"
)

// work begins a worker that a.stop ends, and returns once it is registered. Whoever supervises a worker starts it again
// after a lost lease: here that is the loop.
func (a *adapter) work(of args) error {
	ctx, cancel := context.WithCancel(context.Background())
	registered, ended, held := make(chan struct{}, 1), make(chan error, 1), ""
	hooks := sdk.Hooks{
		LeaseHeld: func(worker string, _ time.Duration) {
			if worker == held {
				return // it was a heartbeat
			}
			held = worker
			a.write(object{"event": "registered"})
			select {
			case registered <- struct{}{}:
			default:
			}
		},
		LeaseLost: func(int) { a.write(object{"event": "lease_lost"}) },
	}
	options := []sdk.WorkerOption{sdk.Slots(of.Slots), sdk.Observe(hooks)}
	if of.Lease > 0 {
		options = append(options, sdk.Lease(time.Duration(of.Lease)))
	}
	if of.Grace > 0 {
		options = append(options, sdk.Grace(time.Duration(of.Grace)))
	}
	go func() {
		err := sdk.ErrLeaseLost
		for errors.Is(err, sdk.ErrLeaseLost) {
			w := sdk.NewWorker(a.client, options...)
			for _, lambda := range of.Lambdas {
				w.Register(lambda, a.handle)
			}
			err = w.Run(ctx)
		}
		ended <- err
	}()
	a.stop = func() error {
		a.stop = noWorker
		cancel()
		return <-ended
	}
	select {
	case <-registered:
		return nil
	case err := <-ended:
		a.stop = noWorker
		cancel()
		return err
	}
}

// script is a payload that says what its handler does.
type script struct {
	Steps    []step            `json:"steps"`
	Attempts map[string][]step `json:"attempts"` // in place of steps, for the attempt with that number
}

// step without a field is one that waits until the attempt has to stop.
type step struct {
	Sleep  duration        `json:"sleep"`
	End    string          `json:"end"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
	Delay  duration        `json:"delay"`
}

// handle does what the payload says, and writes down that it begins and how it ends. A payload that is no script is the
// result.
func (a *adapter) handle(ctx context.Context, t *sdk.Task[[]byte]) error {
	a.write(object{"event": "start", "task": t.ID, "attempt": t.Attempt, "at": time.Now().UnixMilli()})
	var s script
	if json.Unmarshal(t.Payload, &s) != nil {
		t.SetResult(result(t.Payload))
	}
	how, err := s.run(ctx, t)
	a.write(object{"event": "end", "task": t.ID, "attempt": t.Attempt, "at": time.Now().UnixMilli(), "how": how})
	return err
}

// result is a text if the payload is one, and else its bytes.
func result(payload []byte) any {
	if utf8.Valid(payload) {
		return string(payload)
	}
	return payload
}

func (s script) run(ctx context.Context, t *sdk.Task[[]byte]) (how string, err error) {
	steps, found := s.Attempts[strconv.Itoa(t.Attempt)]
	if !found {
		steps = s.Steps
	}
	for _, one := range steps {
		if one.End == "" {
			var over <-chan time.Time // never, without a sleep
			if one.Sleep > 0 {
				over = time.After(time.Duration(one.Sleep))
			}
			select {
			case <-over:
			case <-ctx.Done():
				return cause(context.Cause(ctx)), context.Cause(ctx)
			}
		}
		switch one.End {
		case "success":
			if one.Result != nil {
				t.SetResult([]byte(one.Result))
			}
			return one.End, nil
		case "fail":
			return one.End, errors.New(one.Error)
		case "fatal":
			return one.End, sdk.Fatal(errors.New(one.Error))
		case "snooze":
			return one.End, sdk.Snooze(time.Duration(one.Delay))
		}
	}
	return "success", nil
}

func cause(err error) string {
	for sentinel, word := range map[error]string{
		sdk.ErrLeaseLost: "lease_lost", sdk.ErrCancelled: "cancelled", sdk.ErrTimeout: "timeout", sdk.ErrDraining: "draining",
		sdk.ErrFenced: "fenced",
	} {
		if errors.Is(err, sentinel) {
			return word
		}
	}
	return err.Error()
}
