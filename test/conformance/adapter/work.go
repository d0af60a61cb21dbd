package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/sdk"
)

// work runs a worker until end, and returns once it is registered. Who supervises a worker starts it again after a lost
// lease: here that is the loop.
func (a *adapter) work(of args) error {
	ctx, cancel := context.WithCancel(context.Background())
	var once sync.Once
	registered, ended, held := make(chan struct{}), make(chan error, 1), ""
	hooks := sdk.Hooks{
		LeaseHeld: func(worker string, _ time.Duration) {
			if worker != held {
				held = worker
				once.Do(func() { close(registered) })
				a.write(object{"event": "registered"})
			}
		},
		LeaseLost: func(int) { a.write(object{"event": "lease_lost"}) },
	}
	go func() {
		err := sdk.ErrLeaseLost
		for errors.Is(err, sdk.ErrLeaseLost) {
			options := []sdk.WorkerOption{sdk.Slots(of.Slots), sdk.Observe(hooks)}
			if of.Lease > 0 {
				options = append(options, sdk.Lease(time.Duration(of.Lease)))
			}
			if of.Grace > 0 {
				options = append(options, sdk.Grace(time.Duration(of.Grace)))
			}
			w := sdk.NewWorker(a.client, options...)
			for _, lambda := range of.Lambdas {
				w.Register(lambda, a.handle)
			}
			err = w.Run(ctx)
		}
		ended <- err
	}()
	a.mu.Lock()
	a.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	a.mu.Unlock()
	select {
	case <-registered:
		return nil
	case err := <-ended:
		ended <- err
		return err
	}
}

// end ends the worker, if there is one.
func (a *adapter) end() {
	a.mu.Lock()
	stop := a.stop
	a.stop = nil
	a.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// script is a payload that says what its handler does.
type script struct {
	Steps    []step            `json:"steps"`
	Attempts map[string][]step `json:"attempts"` // in place of steps, for the attempt with that number
}

type step struct {
	Sleep  duration        `json:"sleep"`
	Until  string          `json:"until"`
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
		var slept <-chan time.Time
		if one.Sleep > 0 {
			slept = time.After(time.Duration(one.Sleep))
		}
		if one.Sleep > 0 || one.Until != "" {
			select {
			case <-slept:
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
