package task

// Order is one task to move on and what happened to it, as the scheduler hands it to the dispatcher.
type Order struct {
	Task Task
	// First says that the task has no task row yet, as far as is known: Task is its wake-up row.
	First bool
	Event Event
	// Sent says of a task of a deliver lambda that it is on its queue already, so that only its row has to
	// follow.
	Sent bool
}

// Dispatched is what became of an order.
type Dispatched struct {
	// Task is the row as it is stored now, as far as the order's write showed it: as the order made it, or as
	// somebody else did. Its ID is zero when that is not known.
	Task Task
	// Done says that the order is carried out: its change is stored, and its message is on the queue if it
	// owes one.
	Done bool
	// Err says why the order is to be tried again. It is nil when somebody else moved the task.
	Err error
}

// Undelivered is an order for a task of a deliver lambda that was not carried out to its end.
type Undelivered struct {
	// Order is what is left to do: its task is the row as it is stored now, if Acquired.
	Order Order
	// Acquired says that the row belongs to the process that gave the order; if not, it is not known to.
	Acquired bool
	// Err is why. It is nil when another process has acquired the task, whose row the order then has.
	Err error
}
