// Package cost computes what a load costs on DynamoDB and SQS, by a pure model. Tests measure its units
// (test/cost), and its prices are a file with a date and a source. It calls nothing and imports no other
// package of Kinesin.
package cost

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Modes of a lambda, as the rest of Kinesin names them.
const (
	Managed = "managed"
	Deliver = "deliver"
)

// ErrLoad is returned for an invalid load; the text says what is allowed.
var ErrLoad = errors.New("load refused")

// Load is a load: the mean over a month, and its peak.
type Load struct {
	Mode string `json:"mode"` // Managed or Deliver
	// Rate is the mean of tasks per second over the month, PeakRate the highest rate that provisioned
	// capacity must carry; 0 means that the load is even.
	Rate     float64 `json:"tasks_per_second"`
	PeakRate float64 `json:"peak_tasks_per_second"`
	// ScheduledShare is the share of tasks that wait in the schedule table, from 0 to 1. The others are due
	// so soon that they go straight to their queue.
	ScheduledShare float64 `json:"scheduled_share"`
	KeyedShare     float64 `json:"keyed_share"` // of managed scheduled tasks: with an idempotency key
	LongShare      float64 `json:"long_share"`  // of managed attempts: longer than 200 ms
	// MatchedShare is the share of managed dispatches that are direct hand-offs, without a message and a
	// claim.
	MatchedShare float64 `json:"matched_share"`
	Retries      float64 `json:"retries"` // mean failed attempts of a managed task
	PayloadBytes int     `json:"payload_bytes"`
	// TasksPerRequest is how many tasks share an SQS request to a worker or to the inbound queue; more under
	// load.
	TasksPerRequest float64 `json:"tasks_per_request"`
	BufferedShare   float64 `json:"buffered_share"` // through the inbound queue; by default InboundShare

	Wait      time.Duration `json:"-"` // mean time from Schedule to due
	Retention time.Duration `json:"-"` // how long the rows of ended managed tasks are kept

	Servers    int `json:"servers"`
	Workers    int `json:"workers"`    // worker processes
	Queues     int `json:"queues"`     // <lambda, priority> classes with workers
	Partitions int `json:"partitions"` // lambdas × priorities × shards

	// Utilization is the share of provisioned capacity that the peak uses, from 0 to 1.
	Utilization float64 `json:"utilization"`
}

// Bounds of a load.
const (
	RateMax         = 10_000_000 // tasks per second
	PayloadBytesMax = 256 << 10
	countMax        = 1_000_000 // servers, workers, queues, partitions
)

// Check refuses invalid values. Its errors are ErrLoad.
func (l *Load) Check() error {
	var errs []error
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrLoad}, args...)...))
		}
	}
	refuse(l.Mode == Managed || l.Mode == Deliver, "mode %q: want %s or %s", l.Mode, Managed, Deliver)
	refuse(l.Rate > 0 && l.Rate <= RateMax, "rate %v: want more than 0 and at most %d tasks per second", l.Rate, RateMax)
	refuse(l.PeakRate == 0 || l.PeakRate >= l.Rate && l.PeakRate <= RateMax,
		"peak rate %v: want at least the rate, %v, and at most %d tasks per second", l.PeakRate, l.Rate, RateMax)
	for _, share := range []struct {
		name  string
		value float64
	}{
		{"scheduled share", l.ScheduledShare},
		{"keyed share", l.KeyedShare},
		{"long share", l.LongShare},
		{"matched share", l.MatchedShare},
		{"buffered share", l.BufferedShare},
	} {
		refuse(share.value >= 0 && share.value <= 1, "%s %v: want 0 to 1", share.name, share.value)
	}
	refuse(l.Retries >= 0 && l.Retries <= 1000, "retries %v: want 0 to 1000", l.Retries)
	refuse(l.PayloadBytes >= 0 && l.PayloadBytes <= PayloadBytesMax, "payload of %d bytes: want 0 to %d", l.PayloadBytes, PayloadBytesMax)
	refuse(l.TasksPerRequest > 0 && l.TasksPerRequest <= 250, "tasks per request %v: want more than 0 and at most 250", l.TasksPerRequest)
	refuse(l.Utilization > 0 && l.Utilization <= 1, "utilization %v: want more than 0 and at most 1", l.Utilization)
	refuse(l.Wait >= 0 && l.Retention >= 0, "wait %v, retention %v: want no negative time", l.Wait, l.Retention)
	for _, count := range []struct {
		name  string
		value int
	}{{"servers", l.Servers}, {"workers", l.Workers}, {"queues", l.Queues}, {"partitions", l.Partitions}} {
		refuse(count.value >= 0 && count.value <= countMax, "%s %d: want 0 to %d", count.name, count.value, countMax)
	}
	return errors.Join(errs...)
}

// InboundShare returns the share of tasks that servers put on the inbound queue by default: those that wait
// in the store, except managed ones with a key.
func InboundShare(l Load) float64 {
	if l.Mode == Deliver {
		return l.ScheduledShare
	}
	return l.ScheduledShare * (1 - l.KeyedShare)
}

// Usage is an amount of DynamoDB units and SQS requests.
type Usage struct {
	WriteUnits  float64 `json:"write_units"`
	ReadUnits   float64 `json:"read_units"`
	SQSRequests float64 `json:"sqs_requests"`
}

func (u Usage) times(n float64) Usage {
	return Usage{u.WriteUnits * n, u.ReadUnits * n, u.SQSRequests * n}
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.WriteUnits + v.WriteUnits, u.ReadUnits + v.ReadUnits, u.SQSRequests + v.SQSRequests}
}

// PerTask returns the mean usage of a task over its whole life.
func PerTask(l Load) Usage {
	if l.Mode == Deliver {
		return deliverTask(l)
	}
	return managedTask(l)
}

func deliverTask(l Load) Usage {
	waiting := Usage{WriteUnits: deliverWrites + payloadWrites(l.PayloadBytes), ReadUnits: lookAheadReads + payloadReads(l.PayloadBytes)}
	send := Usage{SQSRequests: chunks(l.PayloadBytes) / l.TasksPerRequest}
	return waiting.times(l.ScheduledShare).plus(send).plus(buffered(l))
}

func managedTask(l Load) Usage {
	dispatches := 1 + l.Retries
	keyed := l.ScheduledShare * l.KeyedShare
	u := Usage{
		WriteUnits: managedWrites + keyed*keyedExtraWrites + l.LongShare*dispatches*longWrites + l.Retries*retryWrites -
			l.MatchedShare*dispatches*matchedWrites + payloadWrites(l.PayloadBytes),
		ReadUnits: l.ScheduledShare*lookAheadReads + keyed*keyedReads + l.Retries*retryReads +
			payloadReads(l.PayloadBytes)*dispatches,
		SQSRequests: (1 - l.MatchedShare) * dispatches * requestsPerHop / l.TasksPerRequest,
	}
	return u.plus(buffered(l))
}

// buffered returns the usage of the way through the inbound queue.
func buffered(l Load) Usage {
	return Usage{ReadUnits: tombstoneReads, SQSRequests: requestsPerSend / l.TasksPerRequest * chunks(l.PayloadBytes)}.times(l.BufferedShare)
}

// Idle returns the usage per second of a fleet without tasks.
func Idle(l Load) Usage {
	servers, workers := float64(l.Servers), float64(l.Workers)
	if l.Mode == Deliver {
		workers = 0 // consumers are not workers of Kinesin
	}
	u := Usage{
		WriteUnits: servers*memberWrites + workers*heartbeatWrites,
		ReadUnits:  float64(l.Partitions)*partitionReads + servers*serverReads,
	}
	if workers > 0 {
		u.SQSRequests = servers * float64(l.Queues) * pollRequests
	}
	if l.BufferedShare > 0 {
		u.SQSRequests += servers * pollRequests
	}
	return u
}

// payloadWrites returns the units of writing a payload that does not fit into its task's row.
func payloadWrites(bytes int) float64 {
	if bytes <= payloadInlineBytesMax {
		return 0
	}
	return math.Ceil(float64(bytes+payloadRowBytes) / writeUnitBytes)
}

func payloadReads(bytes int) float64 {
	if bytes <= payloadInlineBytesMax {
		return 0
	}
	return math.Ceil(float64(bytes+payloadRowBytes) / readUnitBytes)
}

// chunks returns how many requests SQS bills for a message.
func chunks(bytes int) float64 { return max(1, math.Ceil(float64(bytes)/sqsChunkBytes)) }

// Units over one task's life, as DynamoDB bills rows up to 1 KB. test/cost measures them with
// ReturnConsumedCapacity; docs/reference/cost.md explains each.
const (
	deliverWrites    = 3 // wake-up row: put, acquire, delete
	managedWrites    = 5 // wake-up row put, task row put, claim, end, wake-up row deleted; the same when it is due at once
	keyedExtraWrites = 1 // of a waiting task: its task row exists from the start, and is replaced when it is enqueued
	longWrites       = 1 // the start of an attempt longer than 200 ms
	retryWrites      = 5 // failure, enqueue, claim, and the move of the wake-up row; 3 for a retry within seconds
	matchedWrites    = 1 // saved by each direct hand-off: its claim

	// lookAheadReads: a wake-up row is read about twice before it is due, consistently, several rows per
	// unit.
	lookAheadReads = 0.5
	keyedReads     = 2 // the task row of a task with a key: before it is put, and when it is due
	retryReads     = 2 // a retry: its wake-up row and its task row
	tombstoneReads = 1 // whether the task was cancelled while in the buffer
)

// Units and requests per second without any task.
const (
	partitionReads  = 1/8. + 1/300.        // a consistent scan every 8 s, a full scan every five minutes
	memberWrites    = 1 / 1.5              // a member's row
	serverReads     = 1/1.5 + 1/1.5 + 1/5. // lambdas, members, registrations
	heartbeatWrites = 1 / 3.75             // a worker's lease of 15 s
	pollRequests    = 1 / 20.              // a long poll
)

// SQS.
const (
	requestsPerHop = 3 // send, receive, delete
	// requestsPerSend is for the inbound queue, where a receive and a delete hold the messages of several
	// sends: five here, ten at best.
	requestsPerSend = 1 + 2/5.
	sqsChunkBytes   = 64 << 10
)

// Rows.
const (
	writeUnitBytes        = 1 << 10
	readUnitBytes         = 4 << 10
	payloadInlineBytesMax = 700
	payloadRowBytes       = 64 // key and attribute names
	taskRowBytes          = 300
	storageOverheadBytes  = 100 // per item, as DynamoDB bills it
)
