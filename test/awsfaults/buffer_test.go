package awsfaults_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

// Tasks go through the inbound buffer while the process that fills and empties it is killed, SQS is cut off,
// and replies of DynamoDB get lost. What the buffer gives twice is one task.
func TestInboundBufferHarmed(t *testing.T) {
	t.Parallel()
	shared := awslocal.Start(t)
	db, queues := awslocal.NewProxy(t, shared.DynamoDB), awslocal.NewProxy(t, shared.SQS)
	r := newRig(t, plan{
		dynamo: db.URL(), sqs: queues.URL(), flags: []string{"--inbound-queue"}, queued: true,
		roles: []string{"inbound", "scheduler,dispatcher,hsc"},
	})
	workers := []*harness.Worker{
		harness.StartWorker(t, r.worker(r.servers[1], patient)),
		harness.StartWorker(t, r.worker(r.servers[1], patient)),
	}
	// Far enough ahead for the buffer.
	l := harness.StartLoad(t, r.Client, harness.LoadOptions{
		CallEvery: either(50*time.Millisecond, 150*time.Millisecond), DueAfter: 11 * time.Second, DueWithin: 4 * time.Second,
	})
	for range either(8, 2) {
		time.Sleep(up)
		r.servers[0].Crash()
		time.Sleep(up / 3)
		r.servers[0].Start()
	}
	for _, harm := range []func(){
		queues.Refuse,
		func() { queues.Reset(awslocal.Replies) },
		func() { queues.BlackHole(awslocal.Replies) },
	} {
		harm()
		time.Sleep(either(5*time.Second, 2*time.Second))
		queues.Heal()
		time.Sleep(up / 3)
	}
	db.Reset(awslocal.Replies)
	time.Sleep(either(5*time.Second, 2*time.Second))
	db.Heal()
	time.Sleep(up / 3)
	r.alive(workers...)
	r.finish("buffer", l.Stop())
	if s := checker.Summarize(r.history.Events()); s.Acked < 50 {
		t.Errorf("the run tested too little: %+v", s)
	}
}
