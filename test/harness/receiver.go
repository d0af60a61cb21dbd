package harness

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/job"
)

// Runner says who runs the tasks of a site.
type Runner string

// The runners.
const (
	Workers  Runner = "workers"  // worker processes
	URL      Runner = "url"      // receivers that servers call
	Function Runner = "function" // a function of AWS Lambda that servers invoke
	Event    Runner = "event"    // the same by events: no server learns how they end, and no function of which task they are
)

// IsTarget reports whether servers run the tasks, by the target of their lambda.
func (r Runner) IsTarget() bool { return r != "" && r != Workers }

// targetSlots is how many calls a server makes at a time.
const targetSlots = 50

// aim has servers call receivers of the site.
func (s *Site) aim() {
	s.T.Helper()
	if !s.options.Runner.IsTarget() {
		return
	}
	s.Receives = FreeAddr(s.T)
	url, o := "http://"+s.Receives, &s.options.Server
	o.Args = append(slices.Clip(o.Args), "--targets-allow", "127.0.0.0/8", "--targets-functions", job.Function)
	o.Env = append(awslocal.Endpoints{DynamoDB: url, SQS: url}.Env(), "AWS_ENDPOINT_URL_LAMBDA="+url)
}

// target is that of the site's lambda.
func (s *Site) target() *admin.Target {
	switch s.options.Runner {
	case Workers:
	case URL:
		return &admin.Target{URL: "http://" + s.Receives + "/", Slots: targetSlots}
	case Function, Event:
		return &admin.Target{URL: job.Function, Slots: targetSlots, Async: s.options.Runner == Event}
	}
	return nil
}

// receiver starts a receiver, beside those that are there, and waits until it listens.
func (s *Site) receiver(flags []string) *Worker {
	s.T.Helper()
	w := watched(s.T, s.History, Command{
		Path: FaultWorker(s.T), Args: append([]string{"receive", "-listen", s.Receives, "-log", s.History.Path()}, flags...),
	})
	for deadline := time.Now().Add(readyMax); w.Stdout() == ""; time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			s.T.Fatalf("the receiver does not listen:\n%s", tail(w.Stderr()))
		}
	}
	return w
}
