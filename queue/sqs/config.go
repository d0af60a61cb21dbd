package sqs

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/task"
)

// API has the calls of the AWS SDK that the driver needs; *sqs.Client has them.
type API interface {
	sqsclient.API
	sqsclient.SetupAPI
}

// Defaults of Config.
const (
	MessageBytesMaxDefault = sqsclient.BytesMaxDefault
	PackTasksMaxDefault    = 16
	LingerDefault          = 5 * time.Millisecond
	AnswerMaxDefault       = 50 * time.Millisecond
	DeliverLingerDefault   = 30 * time.Millisecond
	CloseGraceDefault      = 200 * time.Millisecond
)

// Config are the settings of a Driver. Prefix, Codec, Lambda, Lambdas, Clock and Log are required. A zero
// duration means its default; a negative one means none.
type Config struct {
	// Prefix starts the names of all queues: 1 to 20 characters of a-z, A-Z, 0-9, "_" and "-".
	Prefix string
	// Codec encodes tasks in messages.
	Codec Codec
	// Lambda returns the lambda of a reference, which tasks and queue.Name carry; false when this process
	// knows none.
	Lambda func(ref uint32) (task.Lambda, bool)
	// Lambdas returns all lambdas that this process knows, so that two do not get queues of the same name.
	Lambdas func() []task.Lambda
	// Registered reports whether Terraform makes the queues of a lambda. nil: of none.
	Registered func(lambda string) bool
	Clock      clock.Clock
	Log        *slog.Logger
	// Observer has hooks for metrics; nil is fine.
	Observer *sqsclient.Observer

	// NoPolicies says that new queues get no policy, for services that do not take one.
	NoPolicies bool
	// MessageBytesMax bounds a message, and all messages of one request: 256 KiB. It may be larger for queues
	// that take 1 MiB.
	MessageBytesMax int
	// PackTasksMax is how many tasks share a message at most: 16. 1 turns packing off.
	PackTasksMax int

	// Linger is how long a send waits for others when another one came just before it: 5 ms. Without it no
	// request waits for others. DeliverLinger is the same for deliveries: 30 ms.
	Linger, DeliverLinger time.Duration
	// AnswerMax is how long a receiver waits for SQS to answer about a queue before it takes tasks of a lower
	// priority: 50 ms. SQS answers sooner if there are messages, and else only at the end of a long poll.
	AnswerMax time.Duration
	// CloseGrace is how long Close waits for polls, since SQS may be answering them: 200 ms.
	CloseGrace time.Duration
}

func (c Config) withDefaults() Config {
	c.MessageBytesMax = cmp.Or(max(c.MessageBytesMax, 0), MessageBytesMaxDefault)
	c.PackTasksMax = cmp.Or(max(c.PackTasksMax, 0), PackTasksMaxDefault)
	c.Linger = max(cmp.Or(c.Linger, LingerDefault), 0)
	c.DeliverLinger = max(cmp.Or(c.DeliverLinger, DeliverLingerDefault), 0)
	c.AnswerMax = max(cmp.Or(c.AnswerMax, AnswerMaxDefault), 0)
	c.CloseGrace = max(cmp.Or(c.CloseGrace, CloseGraceDefault), 0)
	return c
}
