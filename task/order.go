package task

// Order is one task to move on and what happened to it, as the scheduler hands
// it to the dispatcher.
type Order struct {
	Task    Task
	Waiting bool // it has a waiting row and no task row yet
	Event   Event
	// Sent says of a task of a deliver lambda that it is on its queue already, so that only its row has to follow.
	Sent bool
}

// Undelivered is an order for a task of a deliver lambda that was not carried out to its end.
type Undelivered struct {
	// Order is what is left to do: its task is the row as it is stored now, if Acquired.
	Order Order
	// Acquired says that the row belongs to the process that gave the order; if not, it is not known to.
	Acquired bool
	Err      error
}
