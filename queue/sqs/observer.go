package sqs

import "time"

// Action names a request for metrics.
type Action string

// The requests that the driver makes.
const (
	ActionSend       Action = "SendMessageBatch"
	ActionReceive    Action = "ReceiveMessage"
	ActionDelete     Action = "DeleteMessageBatch"
	ActionVisibility Action = "ChangeMessageVisibilityBatch"
	ActionURL        Action = "GetQueueUrl"
	ActionAttributes Action = "GetQueueAttributes"
	ActionConfigure  Action = "SetQueueAttributes"
	ActionCreate     Action = "CreateQueue"
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

	within  time.Duration                      // 0: Config.RequestTimeout
	measure func(out any) (entries, bytes int) // nil where they are known before
}

// billedBytes is how much of a request's payload SQS bills as one request.
const billedBytes = 64 << 10

// Billed is how many requests SQS bills for it: one for each 64 KiB of payload, and at least one.
func (r *Request) Billed() int { return max(1, (r.Bytes+billedBytes-1)/billedBytes) }

// Reasons of messages that come to nothing.
const (
	DiscardUndecodable = "undecodable"    // not written by Kinesin; deleted
	DiscardDelivery    = "delivery"       // of a deliver lambda that had this queue; left to its consumer
	DiscardNewer       = "newer_format"   // left to a newer process
	DiscardUnknown     = "unknown_lambda" // of a lambda that is gone: deleted after a while
	DiscardMisplaced   = "misplaced"      // a task of a lambda whose queue is another: deleted
	DiscardDuplicate   = "duplicate"      // a message that is in hand, or was deleted just now
)

// Observer is told what happens. A nil hook is not called. Hooks must be quick and safe for concurrent use.
type Observer struct {
	// Request: a request is over, retries of the SDK within it included.
	Request func(Request)
	// Sent: a message with so many tasks is in its queue.
	Sent func(queue string, tasks int)
	// Received: a message with so many tasks came, after so long in its queue.
	Received func(queue string, tasks int, age time.Duration)
	// Failed: an entry of a batch was refused, with SQS's code for it.
	Failed func(queue string, action Action, code string)
	// Discarded: a message came to nothing, for a Discard… reason.
	Discarded func(queue, reason string)
	// Returned: so many tasks that nobody here took are there for others again; resent of them by a message of their own.
	Returned func(queue string, tasks, resent int)
	// Delivered: a delivery is in its queue.
	Delivered func(queue string)
}

func (d *Driver) observe(r Request) {
	if d.Observer != nil && d.Observer.Request != nil {
		d.Observer.Request(r)
	}
}

func (d *Driver) observeSent(queue string, tasks int) {
	if d.Observer != nil && d.Observer.Sent != nil {
		d.Observer.Sent(queue, tasks)
	}
}

func (d *Driver) observeReceived(queue string, tasks int, age time.Duration) {
	if d.Observer != nil && d.Observer.Received != nil {
		d.Observer.Received(queue, tasks, age)
	}
}

func (d *Driver) observeFailed(queue string, action Action, code string) {
	if d.Observer != nil && d.Observer.Failed != nil {
		d.Observer.Failed(queue, action, code)
	}
}

func (d *Driver) observeDiscarded(queue, reason string) {
	if d.Observer != nil && d.Observer.Discarded != nil {
		d.Observer.Discarded(queue, reason)
	}
}

func (d *Driver) observeReturned(queue string, tasks, resent int) {
	if d.Observer != nil && d.Observer.Returned != nil {
		d.Observer.Returned(queue, tasks, resent)
	}
}

func (d *Driver) observeDelivered(queue string) {
	if d.Observer != nil && d.Observer.Delivered != nil {
		d.Observer.Delivered(queue)
	}
}
