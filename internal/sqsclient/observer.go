package sqsclient

import "time"

// Action names a request in metrics.
type Action string

// The requests that are observed.
const (
	ActionSend       Action = "SendMessageBatch"
	ActionReceive    Action = "ReceiveMessage"
	ActionDelete     Action = "DeleteMessageBatch"
	ActionVisibility Action = "ChangeMessageVisibilityBatch"
	ActionURL        Action = "GetQueueUrl"
	ActionAttributes Action = "GetQueueAttributes"
	ActionStartMove  Action = "StartMessageMoveTask"
	ActionListMoves  Action = "ListMessageMoveTasks"
	ActionPurge      Action = "PurgeQueue"
)

// Request is a request that has ended.
type Request struct {
	Queue   string // name of the SQS queue
	Action  Action
	Entries int // messages in the request or in its answer
	Bytes   int // of bodies and attributes
	Took    time.Duration
	Err     error
	Unknown bool // it failed, and may have been carried out
}

// billedBytes is the payload that SQS bills as one request.
const billedBytes = 64 << 10

// Billed returns how many requests SQS bills: one for each 64 KiB of payload, and at least one.
func (r *Request) Billed() int { return max(1, (r.Bytes+billedBytes-1)/billedBytes) }

// Observer has hooks for metrics. A nil hook is not called. Hooks must be quick and safe for concurrent use.
type Observer struct {
	// Request is called after each request, which includes the SDK's own retries.
	Request func(Request)
	// Refused is called for each entry of a batch that SQS refused, with SQS's code.
	Refused func(queue string, action Action, code string)
	// Sent is called for each message of tasks that was sent, with the number of its tasks.
	Sent func(queue string, tasks int)
	// Discarded is called for each received message that holds nothing to hand out, with the queue driver's
	// reason.
	Discarded func(queue, reason string)
	// Returned is called when tasks that nobody here took are made visible to others; resent is how many of
	// them were sent again in a message of their own.
	Returned func(queue string, tasks, resent int)
}

// orSilent returns an observer whose hooks can all be called.
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
