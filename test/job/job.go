// Package job is what the fault worker does with a task: it writes down when each execution
// starts, acts and ends, and behaves as the payload says, badly included. Each event is one
// write to a file opened for appending, so that no kill loses what had happened before it.
// It knows nothing of how tasks reach it.
package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
)

// Job is a task's payload.
type Job struct {
	Nonce  string `json:"n"`            // the client's name for the task
	Millis int64  `json:"ms,omitempty"` // how long it runs
	Do     Do     `json:"do,omitempty"`
	Times  uint32 `json:"times,omitempty"` // of Failing: so many executions fail, then one succeeds
}

// Do is a behaviour; the zero value works for its time, obeys its context and succeeds.
type Do string

// The other behaviours.
const (
	Failing  Do = "fail"   // returns an error, Times times
	Exiting  Do = "exit"   // kills its process
	Ignoring Do = "ignore" // works on when its context ends
	Acting   Do = "act"    // has an effect every few milliseconds, as long as its context lives
)

// actEvery is the time between two effects of an acting job.
const actEvery = 5 * time.Millisecond

// ErrFailed is what jobs return.
var ErrFailed = errors.New("failed as told")

// Payload encodes the job.
func (j Job) Payload() []byte {
	payload, err := json.Marshal(j)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return payload
}

// Parse decodes a payload.
func Parse(payload []byte) (Job, error) {
	var j Job
	if err := json.Unmarshal(payload, &j); err != nil {
		return j, fmt.Errorf("decode job: %w", err)
	}
	return j, nil
}

// Function is the ARN of the function of AWS Lambda that does jobs.
const Function = "arn:aws:lambda:us-east-1:123456789012:function:work"

// EventPrefix begins, before the nonce, the name of the task of a function that is invoked by an event: it is not told
// which task that is.
const EventPrefix = "event:"

// Execution is one run of a job.
type Execution struct {
	Task     string
	Attempt  uint32
	Failures uint32 // executions of the task that failed before
	Due      time.Time
	Log      io.Writer
}

// Run does the job and returns what a handler should return.
func (x Execution) Run(ctx context.Context, j Job) error {
	x.event(checker.Event{Kind: checker.Started, Nonce: j.Nonce, Due: x.Due.UnixMicro()})
	if j.Do == Ignoring {
		ctx = context.WithoutCancel(ctx)
	}
	if err := x.work(ctx, j); err != nil {
		x.end(checker.Obeyed)
		return err
	}
	return x.finish(j)
}

// work passes the job's time and returns the reason if its context ended before.
func (x Execution) work(ctx context.Context, j Job) error {
	done := time.NewTimer(time.Duration(j.Millis) * time.Millisecond)
	defer done.Stop()
	act := time.NewTicker(actEvery)
	defer act.Stop()
	if j.Do != Acting {
		act.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-done.C:
			return context.Cause(ctx)
		case <-act.C:
			if ctx.Err() == nil {
				x.event(checker.Event{Kind: checker.Effect})
			}
		}
	}
}

func (x Execution) finish(j Job) error {
	switch {
	case j.Do == Failing && x.Failures < j.Times:
		x.end(checker.Fail)
		return ErrFailed
	case j.Do == Exiting:
		x.end(checker.Poisoned)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	x.end(checker.OK)
	return nil
}

func (x Execution) end(outcome string) {
	x.event(checker.Event{Kind: checker.Ended, Outcome: outcome})
}

// began is from when on the times of events count, by the monotonic clock: the wall clock of the process may
// be set.
var began = time.Now()

func (x Execution) event(e checker.Event) {
	e.At, e.Task, e.Attempt, e.PID = began.Add(time.Since(began)).UnixMicro(), x.Task, x.Attempt, os.Getpid()
	_, _ = x.Log.Write(e.Line())
}

// OpenLog opens the file that events are appended to, and makes it if there is none.
func OpenLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}
