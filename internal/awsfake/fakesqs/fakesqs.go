// Package fakesqs stands in for SQS in tests and simulations: it has the methods of the client of
// aws-sdk-go-v2 for standard queues, keeps everything in memory, and does what emulators do not: it hands
// messages out twice, out of order, late and after they were deleted, loses answers with messages in them,
// fails single entries of batches, goes silent when 120,000 messages are in flight, forgets what is too old,
// and counts approximately. Which of it happens is up to Faults; the limits are always on. Waiting is done on
// the configured clock.
//
// Not modelled: FIFO queues, permissions, encryption, message timers beyond 15 minutes (there are none),
// message move tasks, dead-letter source listing, MD5 of attributes, quotas on requests per second, and
// changes of attributes taking up to a minute. What a caller asks of that is refused with
// awsfake.ErrNotModelled.
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
// until they become visible again, Partial and PartialDone strike single entries of batches.
const (
	// Twice makes a message that is handed out stay visible: somebody else gets it too.
	Twice awsfake.Fault = "twice"
	// Undead makes a deleted message be handed out once more.
	Undead awsfake.Fault = "undead"
	// Reordered makes a receive take messages in random order.
	Reordered awsfake.Fault = "reordered"
	// Sampled makes a receive that does not wait look at some of the servers only, and miss what is there.
	Sampled awsfake.Fault = "sampled"
	// Abandoned makes a long poll that its caller gave up go on at the service, and take messages that nobody
	// sees.
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
	deletedFor          = time.Minute // the time in which a name cannot be used again
	purgeEvery          = time.Minute
)

// Config says how a service behaves. The zero value has the real limits and the machine's clock.
type Config struct {
	Clock clock.Clock
	Seed  uint64
	// MessageBytesMax is the limit of a message and of all messages of a batch: 256 KiB. AWS has raised it to
	// 1 MiB.
	MessageBytesMax int
	// InFlightMax is how many messages of a queue may be received and not deleted: 120,000.
	InFlightMax int
	// CountLag is how old the counts of a queue may be.
	CountLag time.Duration
	// Attempts is how often the client's retryer tries; see awsfake.Service.
	Attempts int
}

// SQS is one region's. All methods are safe for concurrent use.
type SQS struct {
	// Faults is where a test says what goes wrong.
	Faults *awsfake.Faults

	cfg     Config
	service *awsfake.Service

	mu      sync.Mutex // guards all below; never held while waiting
	queues  map[string]*queue
	deleted map[string]task.Instant
	calls   map[string]int
	// messages numbers all that were ever sent: their ids are never used again.
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

// Calls is how many requests of a kind have come so far, or of all kinds for awsfake.Any, refused ones
// included.
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

// retryer is what the options of a call set.
func retryer(options []func(*sqs.Options)) aws.Retryer {
	var o sqs.Options
	for _, set := range options {
		set(&o)
	}
	return o.Retryer
}

const urlBase = "https://sqs.us-east-1.amazonaws.com/000000000000/"

// queue finds a queue by its URL, with all that time has done to it.
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
