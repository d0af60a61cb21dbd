package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// Parcel is a task of a deliver lambda: it is put on the queue of a consumer who knows nothing of Kinesin.
type Parcel struct {
	At     time.Duration
	In     time.Duration // due
	Key    bool
	Cancel time.Duration // so long after At; 0: never
	Client int
}

// post is the deliver lambda, and what its consumer reads.
const (
	post      = "post"
	postQueue = prefix + "-" + post + "-normal"
)

// parcels draws the tasks of the deliver lambda, apart from everything else.
func (p *Plan) parcels(seed uint64, span time.Duration) (all []Parcel) {
	r := rand.New(rand.NewPCG(seed, 5))
	if p.Form != cloud || r.IntN(2) == 0 {
		return nil
	}
	for range 1 + r.IntN(10) {
		one := Parcel{At: time.Duration(r.Int64N(int64(span))), Key: r.IntN(3) == 0, Client: r.IntN(2)}
		switch r.IntN(3) {
		case 0: // due at once
		case 1:
			one.In = time.Duration(r.Int64N(int64(span)))
		default:
			one.In = 15*time.Minute + time.Duration(r.Int64N(int64(span))) // beyond what a queue holds back
		}
		if r.IntN(4) == 0 {
			one.Cancel = 1 + time.Duration(r.Int64N(int64(20*time.Second)))
		}
		all = append(all, one)
	}
	return all
}

// mailbox is what is known of the parcels.
type mailbox struct {
	w *world

	mu        sync.Mutex // guards all below
	due       map[string]time.Time
	cancelled map[string]bool
	arrived   map[string]int
}

// openMailbox makes the deliver lambda and begins to read its queue.
func (w *world) openMailbox(setup *client) *mailbox {
	m := &mailbox{w: w, due: map[string]time.Time{}, cancelled: map[string]bool{}, arrived: map[string]int{}}
	if len(w.plan.Parcels) == 0 {
		return m
	}
	for w.ctx.Err() == nil {
		if _, _, err := admin.New(setup.sdk).Lambdas.Create(w.ctx, admin.Lambda{Name: post, Mode: admin.ModeDeliver}); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	w.running.Go(m.read)
	return m
}

// mail schedules a parcel, and cancels some.
func (m *mailbox) mail(c *client, n int, p *Parcel) {
	nonce := fmt.Sprintf("p%02d", n)
	item := sdk.Item{Lambda: post, Payload: []byte(nonce), In: p.In}
	if p.Key {
		item.Key = nonce
	}
	time.Sleep(p.At)
	ctx, stop := context.WithTimeout(m.w.ctx, callWithin)
	defer stop()
	called := time.Now()
	r, err := c.sdk.Schedule(ctx, item)
	m.w.trace.note(c.name, "mails %s: %v", nonce, err)
	if err != nil {
		return
	}
	m.note(func() {
		m.due[nonce] = called.Add(p.In)
		if r.Due.Before(m.due[nonce]) {
			m.due[nonce] = r.Due
		}
	})
	if p.Cancel == 0 {
		return
	}
	time.Sleep(p.Cancel)
	outcome, err := c.sdk.Cancel(ctx, r.ID)
	m.w.trace.note(c.name, "takes %s back: %s %v", nonce, outcome, err)
	switch {
	case err == nil:
		m.w.saw("parcel cancelled")
		m.note(func() { m.cancelled[nonce] = true })
	case errors.Is(err, sdk.ErrTooLate):
		m.w.saw("parcel too late to cancel")
	default: // it may be cancelled or not
		m.note(func() { delete(m.due, nonce) })
	}
}

func (m *mailbox) note(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// read is the consumer: it takes what comes off its queue.
func (m *mailbox) read() {
	service := m.w.amazon.queues
	url, err := service.GetQueueUrl(m.w.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(postQueue)})
	for err != nil && m.w.ctx.Err() == nil {
		time.Sleep(time.Second)
		url, err = service.GetQueueUrl(m.w.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(postQueue)})
	}
	for m.w.ctx.Err() == nil {
		got, err := service.ReceiveMessage(m.w.ctx, &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		for i := range got.Messages {
			m.take(&got.Messages[i])
			_, _ = service.DeleteMessage(m.w.ctx, &sqs.DeleteMessageInput{QueueUrl: url.QueueUrl, ReceiptHandle: got.Messages[i].ReceiptHandle})
		}
	}
}

// take notes a message, and judges when it came.
func (m *mailbox) take(message *types.Message) {
	nonce := aws.ToString(message.Body)
	m.w.trace.note("consumer", "gets %s", nonce)
	m.w.saw("parcel delivered")
	drift := time.Since(m.w.start) / 5000 // of two clocks (clockOf)
	apart := 2*(m.w.plan.Apart+m.w.plan.slewed()+10*time.Millisecond) + drift + m.w.plan.stepsForward() + m.w.plan.stepsBack()
	m.note(func() {
		m.arrived[nonce]++
		if due := m.due[nonce]; time.Now().Before(due.Add(-apart)) {
			m.w.breach("I3: parcel %s came %v before it was due", nonce, time.Until(due))
		}
	})
}

// pending is how many parcels are still to come.
func (m *mailbox) pending() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for nonce := range m.due {
		if !m.cancelled[nonce] && m.arrived[nonce] == 0 {
			n++
		}
	}
	return n
}

// judge is what has to hold in the end: what was acknowledged came (I1), and what was cancelled did not (I6).
func (m *mailbox) judge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, nonce := range slices.Sorted(maps.Keys(m.due)) {
		switch n := m.arrived[nonce]; {
		case m.cancelled[nonce] && n > 0:
			m.w.breach("I6: parcel %s was cancelled, and came %d times", nonce, n)
		case !m.cancelled[nonce] && n == 0:
			m.w.breach("I1: parcel %s was acknowledged, and never came", nonce)
		case m.w.plan.Calm && n > 1:
			m.w.breach("I8: parcel %s came %d times without faults", nonce, n)
		}
	}
}
