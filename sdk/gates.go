package sdk

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// GateAction is what a gate does with a task.
type GateAction string

// The actions of gates.
const (
	GatePause GateAction = "pause" // it waits until the gate ends
	GateDrop  GateAction = "drop"  // it ends as dropped when it is due
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
	State   string // "active", "resuming", "probing" or "ended"; empty for a dry run
	Owner   string // the identity that set it
	Created time.Time
	Pace    int // while it resumes: tasks a second
	Ended   time.Time
	EndedBy string // the identity that resumed it; empty if it expired
	Note    string // what is unusual about it, for people

	// Counts are set by DryRunGate and GetGate.
	Counts GateCounts
}

// GateCounts is how many tasks a gate holds, or would hold.
type GateCounts struct {
	Now      int64 // are due
	NextHour int64 // come due within an hour
	Exact    bool  // they were counted, not estimated
	Sent     int64 // of a deliver lambda: are on SQS already, which no gate holds; -1: not known
}

// WaitsFor says what holds a task back, or tasks of a lambda (LambdaStats.HeldBy).
type WaitsFor struct {
	Reason string    // "gate", "quota", "key", "retry budget", "no worker" or "queue full", of a lambda also "busy workers" and "unexplained"; there will be others. Empty: nothing that the server knows of
	Text   string    // for people
	Gate   string    // its id
	Until  time.Time // when it ends by itself; zero: not known

	// The fields below are of lambdas alone.

	Tasks    int64      // about how many, of the partitions of the server that answers; -1: not known
	Priority string     // empty: of all priorities
	Action   GateAction // of the gate
	Rate     float64    // of a quota: starts per second, of all servers together
	Used     float64    // of a quota: starts per second, on the server that answers
	// Concurrency is of a quota: how many tasks run at once, of all servers together.
	Concurrency int
}

// SetGate sets a gate and returns it with its ID. It is in force on all servers within 2 s.
func (c *Client) SetGate(ctx context.Context, g Gate) (Gate, error) { return c.setGate(ctx, &g, false) }

// DryRunGate returns how many tasks a gate would hold, and sets none.
func (c *Client) DryRunGate(ctx context.Context, g Gate) (Gate, error) {
	return c.setGate(ctx, &g, true)
}

func (c *Client) setGate(ctx context.Context, g *Gate, dryRun bool) (Gate, error) {
	id := task.NewID(c.cfg.Clock.Now(), c.cfg.Clock.Uint64(), c.cfg.Clock.Uint64())
	r, err := callSet(ctx, c, "set gate", c.backend.gates.SetGate, &kinesinv1.SetGateRequest{
		Gate: &kinesinv1.Gate{
			Action: string(g.Action), Lambda: g.Lambda, Priority: g.Priority, Collection: g.Collection, Tag: g.Tag, Reason: g.Reason,
			Until: int64(task.InstantOf(g.Until)),
		},
		DryRun: dryRun, RequestId: id[:],
	})
	return gateOf(r.GetGate()), err
}

// ResumeGate ends a gate: at once with a pace of 0, else it lets its tasks go at that many a second and then
// ends. A gate that has ended stays so. It returns ErrNotFound when there is none with that id.
func (c *Client) ResumeGate(ctx context.Context, id string, pace int) (Gate, error) {
	r, err := call(ctx, c, "resume gate", c.backend.gates.ResumeGate, &kinesinv1.ResumeGateRequest{Id: id, Pace: uint32(max(0, pace))})
	return gateOf(r.GetGate()), err
}

// GetGate returns a gate, with the tasks that it holds now. It returns ErrNotFound when there is none with
// that id that the caller may see.
func (c *Client) GetGate(ctx context.Context, id string) (Gate, error) {
	r, err := callSet(ctx, c, "get gate", c.backend.gates.GetGate, &kinesinv1.GetGateRequest{Id: id})
	return gateOf(r.GetGate()), err
}

// Gates returns the gates of a lambda, or, with an empty name, of all that the caller may read, newest first;
// with ended also those that ended in the last 30 days.
func (c *Client) Gates(ctx context.Context, lambda string, ended bool) ([]Gate, error) {
	r, err := call(ctx, c, "list gates", c.backend.gates.ListGates, &kinesinv1.ListGatesRequest{Lambda: lambda, Ended: ended})
	return listOf(r.GetGates(), gateOf), err
}

func gateOf(w *kinesinv1.Gate) Gate {
	if w == nil {
		return Gate{}
	}
	return Gate{
		Action: GateAction(w.Action), Lambda: w.Lambda, Priority: w.Priority, Collection: w.Collection, Tag: w.Tag, Reason: w.Reason,
		Until: timeOf(w.Until), ID: w.Id, State: w.State, Owner: w.Owner, Created: timeOf(w.Created), Pace: int(w.Pace),
		Ended: timeOf(w.Ended), EndedBy: w.EndedBy, Note: w.Note,
		Counts: GateCounts{Now: w.Counts.GetNow(), NextHour: w.Counts.GetNextHour(), Exact: w.Counts.GetExact(), Sent: w.Counts.GetSent()},
	}
}

func waitsForOf(w *kinesinv1.WaitsFor) WaitsFor {
	return WaitsFor{Reason: w.GetReason(), Text: w.GetText(), Gate: w.GetGate(), Until: timeOf(w.GetUntil())}
}
