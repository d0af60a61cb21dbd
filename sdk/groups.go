package sdk

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/task"
)

// GroupMembersMax is how many members a group has at most.
const GroupMembersMax = task.GroupMembersMax

// GroupSpec says what follows when all members of a group have ended: at most 100 tasks in all.
type GroupSpec struct {
	// Then are the tasks that follow. A delay (In) counts from the end of the last member, and At is a bound
	// before which a task does not start. If there is neither Else nor Finally, they follow however the members
	// ended, unless the group expired; else only if all of them succeeded.
	Then []Item
	// Else are the tasks that follow instead if a member did not succeed, or the group expired or was
	// cancelled.
	Else []Item
	// Finally are the tasks that follow however the group ends.
	Finally []Item
	// Expires is when the group expires if it is not done, within 366 days; zero: in 30 days. Members have to
	// be due before.
	Expires time.Time
}

// GroupInfo is a group as it is shown.
type GroupInfo struct {
	ID      string
	State   string // "open", "sealed", "done" or "expired"
	Then    string // lambda of the task that follows
	Else    string // lambda of the one that follows instead; empty: none
	Members int
	// Counts has the members by their state, of the first Counted members.
	Counts    map[State]int
	Counted   int
	Created   time.Time
	CreatedBy string // an identity
	Expires   time.Time
	Completed time.Time // when the last member was seen to have ended, or the group expired
	FollowUp  ID        // the first task that followed; empty: none yet
	Problem   string    // why one that should have followed did not
	// FollowUps are all tasks that may follow.
	FollowUps   []GroupFollowUp
	Cancelled   time.Time // zero: it was not
	CancelledBy string    // an identity
}

// GroupFollowUp is a task that may follow after a group.
type GroupFollowUp struct {
	Edge    string // "then", "else" or "finally"
	Lambda  string
	ID      ID     // empty: it did not follow, or not yet
	Problem string // why it could not, such as a key that another task holds
}

// GroupMember says which member of a group a task is.
type GroupMember struct {
	Group string
	Index int
}

// GroupEnd says after which group a task follows, and how that has ended.
type GroupEnd struct {
	ID      string
	Members int
	Ended   map[State]int // members by the end in which they were when the group was done
	// Expired means that the group expired. Ended then has those that were counted until then.
	Expired bool
	// Cancelled means that the group was cancelled before all members had ended.
	Cancelled bool

	client *Client // of the worker that handles the task; else nil
}

// Succeeded returns how many members did their work.
func (g *GroupEnd) Succeeded() int { return g.Ended[StateSuccess] + g.Ended[StateDelivered] }

// All returns the members of the group in the order in which they were added, with their results. It reads
// them page by page, with the worker's own client, which needs the right to read them. It ends with an error
// when a page cannot be read.
func (g *GroupEnd) All(ctx context.Context) iter.Seq2[Member, error] {
	if g.client == nil {
		return func(yield func(Member, error) bool) {
			yield(Member{}, fmt.Errorf("%w use of GroupEnd.All outside of a handler: want Client.GroupMembers", ErrInvalid))
		}
	}
	return g.client.GroupMembers(ctx, g.ID)
}

// Member is a member of a group.
type Member struct {
	Index int
	// Task is the member, with its result. It is zero if it may not be read, or is not known any more.
	Task TaskInfo
}

// CreateGroup makes an empty group and returns it. It returns ErrUnknownLambda without the lambda of a
// follow-up, and ErrInvalid for one that could not follow, of which the error says why.
func (c *Client) CreateGroup(ctx context.Context, spec GroupSpec) (GroupInfo, error) {
	request := &kinesinv1.CreateGroupRequest{Expires: int64(task.InstantOf(spec.Expires)), RequestId: requestIDs(c.cfg.Clock, 1)[0]}
	var err error
	if request.Then, err = c.groupFollowUps(ctx, "then", spec.Then); err != nil {
		return GroupInfo{}, err
	}
	if request.Else, err = c.groupFollowUps(ctx, "else", spec.Else); err != nil {
		return GroupInfo{}, err
	}
	if request.Finally, err = c.groupFollowUps(ctx, "finally", spec.Finally); err != nil {
		return GroupInfo{}, err
	}
	r, err := call(ctx, c, "create group", c.backend.groups.CreateGroup, request)
	return wirecopy.From[GroupInfo](r.GetGroup()), err
}

// SealGroup says that a group gets no more members. It has to have as many as members says; below 0: it does
// not matter. Its follow-up starts when all of them have ended, and at once if there are none.
func (c *Client) SealGroup(ctx context.Context, group string, members int) (GroupInfo, error) {
	request := &kinesinv1.SealGroupRequest{Group: group}
	if members >= 0 {
		request.Members = new(countOf(members))
	}
	r, err := call(ctx, c, "seal group", c.backend.groups.SealGroup, request)
	return wirecopy.From[GroupInfo](r.GetGroup()), err
}

// GetGroup returns a group, with its members counted by state. It returns ErrNotFound when there is none with
// that id that the caller may see.
func (c *Client) GetGroup(ctx context.Context, id string) (GroupInfo, error) {
	r, err := call(ctx, c, "get group", c.backend.groups.GetGroup, &kinesinv1.GetGroupRequest{Id: id})
	return wirecopy.From[GroupInfo](r.GetGroup()), err
}

// GroupMembers returns the members of a group in the order in which they were added, with their results. It
// reads them page by page, and ends with an error when a page cannot be read.
func (c *Client) GroupMembers(ctx context.Context, group string) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		for request := (&kinesinv1.ListMembersRequest{Group: group, Limit: itemsPerCallMax}); ; {
			r, err := call(ctx, c, "list members of a group", c.backend.groups.ListMembers, request)
			if err != nil {
				yield(Member{}, err)
				return
			}
			for _, w := range r.GetMembers() {
				m := Member{Index: int(w.GetIndex())}
				if w.GetTask() != nil {
					m.Task = taskInfoOf(w.GetTask())
				}
				if !yield(m, nil) {
					return
				}
			}
			if request.From = r.GetNext(); !r.GetMore() {
				return
			}
		}
	}
}

// countOf returns a number as the wire has it. One below 0 becomes one that the server refuses.
func countOf(n int) uint32 {
	if n < 0 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return uint32(n)
}

func statesOf(w map[string]uint32) map[State]int {
	counts := make(map[State]int, len(w))
	for state, n := range w {
		counts[State(state)] = int(n)
	}
	return counts
}

func memberOf(w *kinesinv1.GroupMember) *GroupMember {
	if w == nil {
		return nil
	}
	return &GroupMember{Group: w.Group, Index: int(w.Index)}
}

func groupEndOf(w *kinesinv1.GroupEnd) *GroupEnd {
	if w == nil {
		return nil
	}
	return &GroupEnd{ID: w.Group, Members: int(w.Members), Ended: statesOf(w.Ended), Expired: w.Expired, Cancelled: w.Cancelled}
}
