package node

// Roles that a process can have.
const (
	RoleInbound    = "inbound"    // accepts, answers, cancels
	RoleScheduler  = "scheduler"  // fires what is due; only with the dispatcher
	RoleDispatcher = "dispatcher" // puts due tasks on their queues; only with the scheduler
	RoleHSC        = "hsc"        // serves workers
)

// Roles lists all roles, in the order in which work flows through them.
func Roles() []string { return []string{RoleInbound, RoleScheduler, RoleDispatcher, RoleHSC} }
