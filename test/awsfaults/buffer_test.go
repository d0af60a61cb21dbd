package awsfaults_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

// Tasks go through the inbound buffer while the process that fills and empties it is killed, SQS is cut off,
// and replies of DynamoDB get lost. A message that the buffer gives twice is one task.
func TestInboundBufferHarmed(t *testing.T) {
	t.Parallel()
	shared := awslocal.Start(t)
	db, queues := awslocal.NewProxy(t, shared.DynamoDB), awslocal.NewProxy(t, shared.SQS)
	s := newSite(t, plan{
		at:     awslocal.Endpoints{DynamoDB: db.URL(), SQS: queues.URL()},
		server: harness.ServerOptions{Args: []string{"--inbound-queue"}, Queued: true},
		roles:  []string{"inbound", "scheduler,dispatcher,hsc"},
	})
	workers := pair(s, harness.WorkerOptions{Server: s.Servers[1], Lease: patient})
	// Far enough ahead for the buffer.
	l := s.Load(harness.LoadOptions{
		CallEvery: harness.Either(50*time.Millisecond, 150*time.Millisecond), DueAfter: 11 * time.Second, DueWithin: 4 * time.Second,
	})
	for range harness.Either(8, 2) {
		time.Sleep(up)
		s.Servers[0].Crash()
		time.Sleep(up / 3)
		s.Servers[0].Start()
	}
	for _, harm := range []func(){
		queues.Refuse,
		func() { queues.Reset(awslocal.Replies) },
		func() { queues.BlackHole(awslocal.Replies) },
	} {
		harm()
		time.Sleep(harness.Either(5*time.Second, 2*time.Second))
		queues.Heal()
		time.Sleep(up / 3)
	}
	db.Reset(awslocal.Replies)
	time.Sleep(harness.Either(5*time.Second, 2*time.Second))
	db.Heal()
	time.Sleep(up / 3)
	alive(s, workers...)
	finish(s, "buffer", l.Stop())
	if s := checker.Summarize(s.History.Events()); s.Acked < 50 {
		t.Errorf("the run tested too little: %+v", s)
	}
}
