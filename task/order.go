package task

// Order asks the dispatcher to apply an event to a task. The scheduler gives it.
type Order struct {
	Task Task
	// First means that the task has no task row yet, as far as is known: Task is its wake-up row.
	First bool
	Event Event
	// InTurn means that a task of a higher priority, which is due no later, is not dispatched yet: this one is
	// not handed to a worker before it, but put on its queue, which hands out the higher priority first.
	InTurn bool
	// Delivers means that the task is of a deliver lambda. Where it has no key, nobody reads its task row.
	Delivers bool
	// Sent means that a task of a deliver lambda is on its queue already, and only its row has to be written.
	Sent bool
}

// Dispatched is the result of an order.
type Dispatched struct {
	// Task is the stored row, as the order wrote it or as the refused write found it. Its ID is zero if the
	// row is not known.
	Task Task
	// Done means that the change is stored, and the message, if there is one, is on the queue.
	Done bool
	// Again is when the order is to be given again; zero: it was carried out, or refused.
	Again Instant
	// Err is why the order has to be tried again. It is nil if another server changed the task.
	Err error
}

// Undelivered is an order for a task of a deliver lambda that was not completed.
type Undelivered struct {
	// Order is what is left to do. If Acquired, its task is the stored row.
	Order Order
	// Acquired means that the row belongs to the process that gave the order; otherwise that is not known.
	Acquired bool
	// Err is the reason. It is nil if another process has acquired the task; the order then has its row.
	Err error
}
