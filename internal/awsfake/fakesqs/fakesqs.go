// Package fakesqs is a fake of SQS for tests and simulations: it has the methods of the client of
// aws-sdk-go-v2 that this project calls, keeps everything in memory, and does what
// emulators do not: it delivers messages twice, out of order, late and after they were deleted, loses answers
// with messages in them, fails single entries of batches, answers nothing when 120,000 messages are in
// flight, forgets old messages, and counts approximately. Faults decide which of it happens; the limits are
// always on. All waiting is on the configured clock.
//
// A FIFO queue keeps the order of each message group, hands out none of a group of which messages are in
// flight, and drops what it had in the last five minutes; it has no faults of deliveries.
//
// Not modelled: content-based deduplication, permissions, encryption, message move tasks, MD5 of attributes, quotas on
// requests per second, changes of attributes that take up to a minute, and the operations and fields that
// nothing here uses. awsfake.ErrNotModelled refuses them.
package fakesqs

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// The faults that only a queue has. Those of awsfake apply too: LostAnswer on ReceiveMessage loses messages
// until they become visible again; Partial and PartialDone strike single entries of batches.
const (
	// Twice makes a delivered message stay visible, so that it is delivered again.
	Twice awsfake.Fault = "twice"
	// Undead makes a deleted message be delivered once more.
	Undead awsfake.Fault = "undead"
	// Reordered makes a receive take messages in random order.
	Reordered awsfake.Fault = "reordered"
	// Sampled makes a receive that does not wait ask only some of the servers, and miss messages.
	Sampled awsfake.Fault = "sampled"
	// Abandoned makes a long poll that its caller gave up go on at the service, and take messages that nobody
	// gets.
	Abandoned awsfake.Fault = "abandoned"
)

// Limits of the service.
const (
	batchEntriesMax     = 10
	messageBytesDefault = 256 << 10
	inFlightDefault     = 120_000
	attributesMax       = 10
	visibilityMax       = 12 * time.Hour
	delaySecondsMax     = 900
	waitSecondsMax      = 20
	deletedFor          = time.Minute // in which the name cannot be used again
	purgedFor           = time.Minute // in which the queue cannot be purged again
)

// Config configures an SQS. The zero value has the real limits and the machine's clock.
type Config struct {
	Clock clock.Clock
	Seed  uint64
	// MessageBytesMax bounds a message, and all messages of a batch together: 256 KiB. AWS has raised it to
	// 1 MiB.
	MessageBytesMax int
	// InFlightMax bounds the messages of a queue that are received and not deleted: 120,000.
	InFlightMax int
	// CountLag bounds the age of the counts of a queue.
	CountLag time.Duration
	// Attempts is how often the client's retryer tries; see awsfake.Service.
	Attempts int
}

// SQS is one region's SQS. All methods are safe for concurrent use.
type SQS struct {
	// Faults decides which calls fail.
	Faults *awsfake.Faults

	cfg     Config
	service *awsfake.Service

	mu      sync.Mutex // guards all below; never held while waiting
	queues  map[string]*queue
	deleted map[string]task.Instant
	calls   map[string]int
	// messages counts all that were ever sent, so that no id is used twice.
	messages uint64
}

// New returns an SQS without queues.
func New(cfg Config) *SQS {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real()
	}
	if cfg.MessageBytesMax == 0 {
		cfg.MessageBytesMax = messageBytesDefault
	}
	if cfg.InFlightMax == 0 {
		cfg.InFlightMax = inFlightDefault
	}
	f := awsfake.NewFaults(cfg.Seed)
	s := &SQS{
		Faults: f, cfg: cfg, queues: map[string]*queue{}, deleted: map[string]task.Instant{}, calls: map[string]int{},
		service: &awsfake.Service{ID: "SQS", Clock: cfg.Clock, Faults: f, Attempts: cfg.Attempts, Throttle: tooFast, Broken: broken, Denied: denied},
	}
	s.service.Called = s.count
	return s
}

// Calls returns how many requests of a kind arrived so far, refused ones included; awsfake.Any means all
// kinds.
func (s *SQS) Calls(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

func (s *SQS) count(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[call]++
	s.calls[awsfake.Any]++
}

// do runs one call under the lock.
func do[Out any](ctx context.Context, s *SQS, call string, options []func(*sqs.Options), run func(now task.Instant) (*Out, error)) (*Out, error) {
	return awsfake.Do(ctx, s.service, call, retryer(options), func() (*Out, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return run(s.cfg.Clock.Now())
	})
}

// retryer returns the retryer that the options of a call set; nil for none.
func retryer(options []func(*sqs.Options)) aws.Retryer {
	var o sqs.Options
	for _, set := range options {
		set(&o)
	}
	return o.Retryer
}

const urlBase = "https://sqs.us-east-1.amazonaws.com/000000000000/"

// queue finds a queue by its URL and brings it up to date.
func (s *SQS) queue(url *string, now task.Instant) (*queue, error) {
	if url == nil {
		return nil, invalid("MissingParameter", "The request must contain the parameter QueueUrl.")
	}
	q := s.queues[strings.TrimPrefix(*url, urlBase)]
	if q == nil {
		return nil, noQueue()
	}
	q.settle(now)
	return q, nil
}
