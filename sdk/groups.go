package sdk

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
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

func groupEndOf(w *kinesinv1.GroupEnd) *GroupEnd {
	if w == nil {
		return nil
	}
	g := wirecopy.From[GroupEnd](w)
	g.ID = w.Group
	return &g
}

// GroupPlan is a group that is not made yet. Group begins one.
type GroupPlan struct {
	members []Item
	spec    GroupSpec
}

// Group begins a group with these members, as in
//
//	sdk.Group(items...).Then(report).Schedule(ctx, client)
func Group(members ...Item) *GroupPlan { return &GroupPlan{members: members} }

// Then sets the tasks that follow when all members have ended. With Else or Finally they follow only if all
// members succeeded.
func (p *GroupPlan) Then(items ...Item) *GroupPlan {
	p.spec.Then = items
	return p
}

// Else sets the tasks that follow instead if a member did not succeed, or the group expired or was cancelled.
func (p *GroupPlan) Else(items ...Item) *GroupPlan {
	p.spec.Else = items
	return p
}

// Finally sets the tasks that follow however the group ends.
func (p *GroupPlan) Finally(items ...Item) *GroupPlan {
	p.spec.Finally = items
	return p
}

// Expires sets when the group expires if it is not done.
func (p *GroupPlan) Expires(at time.Time) *GroupPlan {
	p.spec.Expires = at
	return p
}

// Schedule makes the group, adds its members and seals it.
func (p *GroupPlan) Schedule(ctx context.Context, c *Client) (GroupInfo, error) {
	w, err := p.Begin(ctx, c)
	if err != nil {
		return GroupInfo{}, err
	}
	return w.Seal(ctx)
}

// Begin makes the group and adds its members, so that more can be added one by one.
func (p *GroupPlan) Begin(ctx context.Context, c *Client) (*GroupWriter, error) {
	g, err := c.CreateGroup(ctx, p.spec)
	if err != nil {
		return nil, err
	}
	w := &GroupWriter{ID: g.ID, client: c}
	return w, w.Add(ctx, p.members...)
}

// GroupWriter adds members to a group, any number of them, in calls of many. One goroutine at a time may use
// it.
type GroupWriter struct {
	ID string // of the group

	client  *Client
	waiting []Item
	added   int
}

// Add adds members. They are durable when Flush or Seal has returned. After an error, Flush tries again.
func (w *GroupWriter) Add(ctx context.Context, items ...Item) error {
	w.waiting = append(w.waiting, items...)
	if len(w.waiting) < itemsPerCallMax {
		return nil
	}
	return w.Flush(ctx)
}

// Flush adds the members that wait.
func (w *GroupWriter) Flush(ctx context.Context) error {
	ids, err := w.client.AddMembers(ctx, w.ID, w.added, w.waiting)
	w.added += len(ids)
	if w.waiting = w.waiting[len(ids):]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	return err
}

// Seal adds the members that wait and says that there are no more.
func (w *GroupWriter) Seal(ctx context.Context) (GroupInfo, error) {
	if err := w.Flush(ctx); err != nil {
		return GroupInfo{}, err
	}
	return w.client.SealGroup(ctx, w.ID, w.added)
}

// AddMembers schedules tasks as members of a group which has as many members as at says, and returns their
// ids. Each call to the server adds all of its tasks or none; with an error, the ids are of those that were
// added before. The same call again changes nothing, so that a program which does not know what became of a
// call makes it again with the same at. ErrStaleSeq says that the group has another number of members, and
// ErrTooLate that it was sealed, or has ended. Members have no Key of their own.
func (c *Client) AddMembers(ctx context.Context, group string, at int, items []Item) (ids []ID, err error) {
	err = c.addMembers(ctx, group, at, items, func(r *kinesinv1.AddMembersResponse) {
		for _, id := range r.GetIds() {
			ids = append(ids, ID(id))
		}
	})
	return ids, err
}

// addMembers is AddMembers, and calls added with the answer to each call to the server.
func (c *Client) addMembers(ctx context.Context, group string, at int, items []Item, added func(*kinesinv1.AddMembersResponse)) error {
	for start := 0; start < len(items); {
		// The payloads are encoded before the call is cut, since a codec may make them larger.
		most := min(len(items), start+itemsPerCallMax)
		encoded, large, err := c.encodeMembers(ctx, group, at+start, items[start:most])
		if err != nil {
			return err
		}
		n := fitting(encoded)
		request := &kinesinv1.AddMembersRequest{Group: group, At: countOf(at + start)}
		for i := range encoded[:n] {
			request.Items = append(request.Items, encoded[i].wire(nil))
		}
		begun := c.cfg.Clock.Now()
		results := make([]Result, len(encoded))
		large = slices.DeleteFunc(large, func(u upload) bool { return u.at >= n })
		c.putAll(ctx, large, results)
		if err := firstError(results); err != nil {
			return err
		}
		r, err := call(ctx, c, "add members to a group", c.backend.groups.AddMembers, request)
		if err != nil {
			return err
		}
		c.putLateAgain(ctx, begun, large, results)
		if err := firstError(results); err != nil {
			return err
		}
		added(r)
		start += n
	}
	return nil
}

// encodeMembers returns members as they are stored, and the blobs that they need. A member has a key of the
// group's, for which it is encoded.
func (c *Client) encodeMembers(ctx context.Context, group string, at int, items []Item) (encoded []Item, large []upload, err error) {
	if c.cfg.Encode == nil && c.cfg.Blobs == nil {
		return items, nil, nil
	}
	id, err := task.ParseID(group)
	if err != nil {
		return items, nil, nil //nolint:nilerr // the server refuses such an id
	}
	encoded = make([]Item, len(items))
	for i := range items {
		if items[i].Key != "" {
			encoded[i] = items[i] // the server refuses it
			continue
		}
		key := task.MemberKey(id, uint32(at+i))
		one, err := c.encodeGroupItem(ctx, items[i], key)
		if err != nil {
			return nil, nil, fmt.Errorf("member %d: %w", at+i, err)
		}
		if c.isLarge(one.Payload) {
			one.Key = key
			u, taken := upload{at: i}, Result{}
			if u.take(&one, &taken, false); taken.Err != nil {
				return nil, nil, fmt.Errorf("member %d: %w", at+i, taken.Err)
			}
			one.Key = ""
			large = append(large, u)
		}
		one, more, err := c.offloadWhatFollows(one, i)
		if err != nil {
			return nil, nil, fmt.Errorf("member %d: %w", at+i, err)
		}
		encoded[i], large = one, append(large, more...)
	}
	return encoded, large, nil
}

// groupFollowUps returns tasks that follow after a group as the wire has them. Their ids are not known yet,
// so that they are encoded for their lambda alone.
func (c *Client) groupFollowUps(ctx context.Context, edge string, items []Item) (wire []*kinesinv1.ScheduleItem, err error) {
	encoded := make([]Item, len(items))
	for i := range items {
		if encoded[i], err = c.encodeGroupItem(ctx, items[i], ""); err != nil {
			return nil, fmt.Errorf("%s: %w", edge, err)
		}
	}
	// The server takes 128 KiB of them together.
	large, err := c.offloadFollowUps(&encoded, min(c.cfg.BlobLimit, followUpInlineMax), 0)
	if err == nil {
		err = c.putFollowUps(ctx, large)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", edge, err)
	}
	return wireItems(encoded), nil
}

// encodeGroupItem returns a task of a group with encoded payloads, its own and those of what follows it.
func (c *Client) encodeGroupItem(ctx context.Context, item Item, key string) (Item, error) {
	if c.cfg.Encode != nil {
		payload, err := c.cfg.Encode(ctx, item.Lambda, key, [16]byte{}, item.Payload)
		if err != nil {
			return item, fmt.Errorf("encode the payload of a %s task: %w", item.Lambda, err)
		}
		item.Payload = payload
	}
	return c.encodeWhatFollows(ctx, item)
}

func firstError(results []Result) error {
	for i := range results {
		if results[i].Err != nil {
			return results[i].Err
		}
	}
	return nil
}
