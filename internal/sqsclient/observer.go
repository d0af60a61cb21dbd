package sqsclient

import "time"

// Action names a request for metrics.
type Action string

// The requests that are observed.
const (
	ActionSend       Action = "SendMessageBatch"
	ActionReceive    Action = "ReceiveMessage"
	ActionDelete     Action = "DeleteMessageBatch"
	ActionVisibility Action = "ChangeMessageVisibilityBatch"
	ActionURL        Action = "GetQueueUrl"
	ActionAttributes Action = "GetQueueAttributes"
)

// Request is one request that is over.
type Request struct {
	Queue   string // name of the SQS queue
	Action  Action
	Entries int // messages asked for or answered
	Bytes   int // of bodies and attributes
	Took    time.Duration
	Err     error
	// Unknown says that it may have been carried out although there was an error.
	Unknown bool
}

// billedBytes is how much of a request's payload SQS bills as one request.
const billedBytes = 64 << 10

// Billed is how many requests SQS bills for it: one for each 64 KiB of payload, and at least one.
func (r *Request) Billed() int { return max(1, (r.Bytes+billedBytes-1)/billedBytes) }

// Observer is told what happens. A nil hook is not called. Hooks must be quick and safe for concurrent use.
type Observer struct {
	// Request: a request is over, retries of the SDK within it included.
	Request func(Request)
	// Refused: an entry of a batch was refused, with SQS's code for it.
	Refused func(queue string, action Action, code string)
	// Sent: a message with so many tasks is in its queue.
	Sent func(queue string, tasks int)
	// Discarded: a message was not handed on, for a reason that the queue driver names.
	Discarded func(queue, reason string)
	// Returned: so many tasks that nobody here took are there for others again; resent of them by a message
	// of their own.
	Returned func(queue string, tasks, resent int)
}

// orSilent is an observer all of whose hooks can be called.
func (o *Observer) orSilent() *Observer {
	var all Observer
	if o != nil {
		all = *o
	}
	if all.Request == nil {
		all.Request = func(Request) {}
	}
	if all.Refused == nil {
		all.Refused = func(string, Action, string) {}
	}
	if all.Sent == nil {
		all.Sent = func(string, int) {}
	}
	if all.Discarded == nil {
		all.Discarded = func(string, string) {}
	}
	if all.Returned == nil {
		all.Returned = func(string, int, int) {}
	}
	return &all
}
