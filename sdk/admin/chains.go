package admin

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
)

// ChainChange is what became of a change of a chain.
type ChainChange struct {
	ID      sdk.ID // of the chain
	Changed int    // tasks
	Told    int    // tasks that run, and were told to stop
	Left    int    // of a cancel: tasks that it found and that run on, since else or finally leads to them
}

// Chains has the calls that change chains, by the id of any of their tasks. sdk.Client.GetChain reads one.
type Chains struct{ c *calls }

// Cancel cancels what waits in a chain, and tells what runs to stop. Follow-ups by Else and Finally still run, also
// those that followed earlier ends that way.
func (s Chains) Cancel(ctx context.Context, id sdk.ID) (ChainChange, error) {
	return s.control(ctx, id, "cancel", time.Time{})
}

// Pause keeps the tasks of a chain from starting until Resume. Running tasks go on.
func (s Chains) Pause(ctx context.Context, id sdk.ID) (ChainChange, error) {
	return s.control(ctx, id, "pause", time.Time{})
}

// Resume undoes Pause. Tasks that were due meanwhile are due now.
func (s Chains) Resume(ctx context.Context, id sdk.ID) (ChainChange, error) {
	return s.control(ctx, id, "resume", time.Time{})
}

// Redrive has the tasks start anew at which a chain stopped. Tasks that have succeeded before do not run again.
func (s Chains) Redrive(ctx context.Context, id sdk.ID) (ChainChange, error) {
	return s.control(ctx, id, "redrive", time.Time{})
}

// Extend gives the tasks of a chain that have not started another StartBefore, also those that come later, unless they
// are due after it.
func (s Chains) Extend(ctx context.Context, id sdk.ID, startBefore time.Time) (ChainChange, error) {
	return s.control(ctx, id, "extend", startBefore)
}

func (s Chains) control(ctx context.Context, id sdk.ID, action string, startBefore time.Time) (ChainChange, error) {
	request := wirecopy.To[kinesinv1.ControlChainRequest](&struct {
		ID          sdk.ID
		Action      string
		StartBefore time.Time
	}{id, action, startBefore})
	r, err := call(ctx, s.c, action+" chain", s.c.Chains.ControlChain, request)
	return wirecopy.From[ChainChange](r), err
}

// Groups has the calls that change groups. sdk.Client makes and reads them.
type Groups struct{ c *calls }

// GroupCancelOptions are the options of Groups.Cancel.
type GroupCancelOptions struct {
	Pace int // members that are cancelled in a second at most; 0: no bound
}

// Cancel seals a group and has a job cancel its members: those that wait end, those that run are told to stop. The job
// goes on whatever becomes of this program; Jobs.Get shows how far it is. The follow-ups of a group follow its end, as
// Else and Finally, and Then if it is alone. ErrTooLate says that the group has ended.
func (s Groups) Cancel(ctx context.Context, group string, o GroupCancelOptions) (sdk.GroupInfo, Job, error) {
	request := wirecopy.To[kinesinv1.CancelGroupRequest](&o)
	request.Group, request.RequestId = group, s.c.RequestID()
	r, err := call(ctx, s.c, "cancel group", s.c.Groups.CancelGroup, request)
	return wirecopy.From[sdk.GroupInfo](r.GetGroup()), s.c.jobOf(r.GetJob()), err
}
