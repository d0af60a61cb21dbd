package admin

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
)

// GateAction is what a gate does with a task.
type GateAction string

// The actions of gates.
const (
	GatePause GateAction = "pause" // it waits until the gate ends
	GateDrop  GateAction = "drop"  // it ends as dropped when it is due
)

// GateState is where a gate is in its life.
type GateState string

// The states of gates.
const (
	GateActive   GateState = "active"
	GateResuming GateState = "resuming" // it lets its tasks go at a pace
	GateProbing  GateState = "probing"  // of a circuit breaker: it lets some tasks go to see whether they succeed
	GateEnded    GateState = "ended"
)

// Gate keeps tasks of a lambda from starting: all of them, or those of one Priority, Collection or Tag.
// Running tasks go on, and tasks still expire.
type Gate struct {
	Action     GateAction
	Lambda     string
	Priority   string // at most one of Priority, Collection and Tag
	Collection string
	Tag        string    // NAME=VALUE
	Reason     string    // for people; required
	Until      time.Time // when it ends by itself; zero: never

	// The fields below are read only.

	ID      string
	State   GateState // empty for a dry run
	Owner   string    // the identity that set it
	Created time.Time
	Pace    int // while it resumes: tasks a second
	Ended   time.Time
	EndedBy string // the identity that resumed it; empty if it expired
	Note    string // what is unusual about it, for people

	// Counts are set by Gates.DryRun and Gates.Get.
	Counts GateCounts
}

// GateCounts is how many tasks a gate holds, or would hold.
type GateCounts struct {
	Now      int64 // are due
	NextHour int64 // come due within an hour
	Exact    bool  // they were counted, not estimated
	Sent     int64 // of a deliver lambda: are on SQS already, which no gate holds; -1: not known
}

// Gates has the calls about gates.
type Gates struct{ c *calls }

// Create sets a gate and returns it with its ID. It is in force on all servers within 2 s.
func (s Gates) Create(ctx context.Context, g Gate) (Gate, error) { return s.create(ctx, &g, false) }

// DryRun returns how many tasks a gate would hold, and sets none.
func (s Gates) DryRun(ctx context.Context, g Gate) (Gate, error) { return s.create(ctx, &g, true) }

func (s Gates) create(ctx context.Context, g *Gate, dryRun bool) (Gate, error) {
	r, err := callSet(ctx, s.c, "set gate", s.c.Gates.SetGate, &kinesinv1.SetGateRequest{
		Gate: settable(wirecopy.To[kinesinv1.Gate](g)), DryRun: dryRun, RequestId: s.c.RequestID(),
	})
	return wirecopy.From[Gate](r.GetGate()), err
}

// Get returns a gate, with the tasks that it holds now. It returns ErrNotFound when there is none with that id that
// the caller may see.
func (s Gates) Get(ctx context.Context, id string) (Gate, error) {
	r, err := callSet(ctx, s.c, "get gate", s.c.Gates.GetGate, &kinesinv1.GetGateRequest{Id: id})
	return wirecopy.From[Gate](r.GetGate()), err
}

// GateListOptions are the options of Gates.List.
type GateListOptions struct {
	Ended bool // also those that ended in the last 30 days
}

// List returns the gates of a lambda, or of all, newest first.
func (s Gates) List(ctx context.Context, lambda string, o GateListOptions) ([]Gate, error) {
	r, err := call(ctx, s.c, "list gates", s.c.Gates.ListGates, &kinesinv1.ListGatesRequest{Lambda: lambda, Ended: o.Ended})
	return wirecopy.All[Gate](r.GetGates()), err
}

// GateResumeOptions are the options of Gates.Resume.
type GateResumeOptions struct {
	Pace int // tasks a second that it lets go before it ends; 0: all at once
}

// Resume ends a gate. One that has ended stays so. It returns ErrNotFound when there is none with that id.
func (s Gates) Resume(ctx context.Context, id string, o GateResumeOptions) (Gate, error) {
	request := wirecopy.To[kinesinv1.ResumeGateRequest](&o)
	request.Id = id
	r, err := call(ctx, s.c, "resume gate", s.c.Gates.ResumeGate, request)
	return wirecopy.From[Gate](r.GetGate()), err
}
