package task

// Order is one task to move on and what happened to it, as the scheduler hands
// it to the dispatcher.
type Order struct {
	Task    Task
	Waiting bool // it has a waiting row and no task row yet
	Event   Event
}
