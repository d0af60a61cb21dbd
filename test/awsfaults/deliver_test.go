package awsfaults_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

// The scheduler is killed while it acquires, sends and deletes: every message arrives at least once, none
// early, each as it was scheduled, and only what was in hand at a kill arrives twice.
func TestDeliveringSchedulerKilled(t *testing.T) {
	t.Parallel()
	const name, perSecond, firstIn = "letters", 100, 6 * time.Second
	kills := harness.Either(8, 2)
	s := newSite(t, plan{
		roles: []string{"inbound", "scheduler,dispatcher"}, server: harness.ServerOptions{Args: []string{"--deliver-direct", "0s"}},
		policy: admin.Lambda{Name: name, Mode: "deliver", Priorities: []string{"normal"}},
	})
	m := newMailbox(s, s.AWS.Prefix+"-"+name+"-normal")
	spread := time.Duration(kills) * 8 * time.Second
	first := time.Now().Add(firstIn)
	post(s, m, name, first, time.Second/perSecond, int(spread.Seconds())*perSecond)
	time.Sleep(time.Until(first))
	for range kills {
		time.Sleep(up)
		m.await(m.due(time.Now().Add(-up/3)), harness.SettleMax) // no backlog of the last kill
		s.Servers[1].Crash()
		time.Sleep(up / 3)
		s.Servers[1].Start()
	}
	m.await(len(m.posted), harness.SettleMax)
	delivered(s, m)
	time.Sleep(up) // for what comes twice
	m.judge("deliver", kills)
}

// post schedules jobs, one due every gap.
func post(s *harness.Site, m *mailbox, name string, first time.Time, gap time.Duration, n int) {
	s.T.Helper()
	items := make([]sdk.Item, n)
	for i := range items {
		items[i] = sdk.Item{Lambda: name, Payload: fmt.Appendf(nil, `{"letter": %d}`, i), At: first.Add(time.Duration(i) * gap)}
	}
	const perCall = 100
	for start := 0; start < n; start += perCall {
		batch := items[start:min(start+perCall, n)]
		results, err := s.ScheduleMany(s.T.Context(), batch)
		if err != nil {
			s.T.Fatal(err)
		}
		for i := range results {
			m.post(results[i].ID, letter{body: string(batch[i].Payload), due: results[i].Due})
		}
	}
}

// delivered wants the server to know of each job that it was delivered.
func delivered(s *harness.Site, m *mailbox) {
	s.T.Helper()
	for _, info := range s.Settle(harness.SettleMax, slices.Collect(maps.Keys(m.posted))) {
		if info.State != sdk.StateDelivered {
			s.T.Errorf("task %s is %s in the end", info.ID, info.State)
		}
	}
}

// letter is a job of a deliver lambda.
type letter struct {
	body string
	due  time.Time
}

// mailbox is a plain SQS client that reads a queue, and knows what should come.
type mailbox struct {
	t      testing.TB
	client *sqs.Client
	url    *string

	mu     sync.Mutex // guards what follows
	posted map[sdk.ID]letter
	seen   map[sdk.ID]int
	early  int
	wrong  int // other bodies, or ids that nobody posted
	worst  time.Duration
}

// newMailbox reads a queue until the test is over.
func newMailbox(s *harness.Site, queue string) *mailbox {
	s.T.Helper()
	m := &mailbox{t: s.T, client: sqs.NewFromConfig(s.AWS.Config(s.T)), posted: map[sdk.ID]letter{}, seen: map[sdk.ID]int{}}
	out, err := m.client.GetQueueUrl(s.T.Context(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		s.T.Fatal(err)
	}
	m.url = out.QueueUrl
	ctx, cancel := context.WithCancel(s.T.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { m.read(ctx) })
	}
	s.T.Cleanup(func() { cancel(); all.Wait() })
	return m
}

func (m *mailbox) post(id sdk.ID, l letter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posted[id] = l
}

func (m *mailbox) read(ctx context.Context) {
	for ctx.Err() == nil {
		out, err := m.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: m.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp},
		})
		if err != nil {
			continue
		}
		entries := make([]types.DeleteMessageBatchRequestEntry, len(out.Messages))
		for i := range out.Messages {
			m.take(&out.Messages[i])
			entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: out.Messages[i].ReceiptHandle}
		}
		if len(entries) > 0 {
			_, _ = m.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: m.url, Entries: entries})
		}
	}
}

func (m *mailbox) take(message *types.Message) {
	received := time.Now()
	id := sdk.ID(aws.ToString(message.MessageAttributes["kinesin-task-id"].StringValue))
	m.mu.Lock()
	defer m.mu.Unlock()
	l, known := m.posted[id]
	m.seen[id]++
	if !known || aws.ToString(message.Body) != l.body {
		m.wrong++
		return
	}
	if received.Before(l.due) {
		m.early++
	}
	m.worst = max(m.worst, received.Sub(l.due))
}

// count is how many jobs have arrived.
func (m *mailbox) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seen)
}

// due is how many jobs were due by then.
func (m *mailbox) due(by time.Time) (n int) {
	for _, l := range m.posted {
		if l.due.Before(by) {
			n++
		}
	}
	return n
}

// await waits until so many jobs have arrived.
func (m *mailbox) await(n int, atMost time.Duration) {
	m.t.Helper()
	n = min(n, len(m.posted))
	for deadline := time.Now().Add(atMost); m.count() < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("%d of %d messages arrived within %v", m.count(), n, atMost)
		}
	}
}

// inHandMax is how many jobs of a partition are in hand at most: 8 batches of 512. A kill may repeat those
// that were sent and not yet removed.
const inHandMax = 8 * 512

func (m *mailbox) judge(name string, kills int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	twice, most := 0, 0
	for _, n := range m.seen {
		twice += n - 1
		most = max(most, n)
	}
	harness.Figure(m.t, name+"_jobs", len(m.posted))
	harness.Figure(m.t, name+"_kills", kills)
	harness.Figure(m.t, name+"_twice", twice)
	harness.Figure(m.t, name+"_late_max", m.worst)
	if m.early > 0 || m.wrong > 0 {
		m.t.Errorf("%d messages came early, %d with another body or an unknown id", m.early, m.wrong)
	}
	if most > 1+kills || twice > kills*inHandMax {
		m.t.Errorf("one message came %d times, %d came again in all: more than %d kills explain", most, twice, kills)
	}
}
