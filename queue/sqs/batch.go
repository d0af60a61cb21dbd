package sqs

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// laneKey identifies an SQS queue; messages of all classes share it.
type laneKey struct {
	lambda   uint32
	priority uint8
}

func keyOf(n queue.Name) laneKey { return laneKey{n.Lambda, n.Priority} }

// outgoing is a task or a delivery to send.
type outgoing struct {
	delivery *sqsclient.Message // nil for a task
	field    []byte             // the encoded task
	due      task.Instant
	after    time.Duration // hides the message at least so long
	alone    bool          // shares its message with no other task
	trace    string
	err      error       // the result of the send
	done     func(error) // is told the result; nil: nobody is
}

// batch are the items of one call that go to one queue.
type batch struct {
	items []*outgoing
	at    []int // indexes in the call
}

type batches map[laneKey]*batch

func (b batches) add(key laneKey, o *outgoing, at int) {
	if b[key] == nil {
		b[key] = &batch{}
	}
	b[key].items, b[key].at = append(b[key].items, o), append(b[key].at, at)
}
