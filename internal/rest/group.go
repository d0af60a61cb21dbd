package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// groupTask is a task of a group: a member, or what follows.
type groupTask struct {
	Lambda string `json:"lambda"`

	scheduleRequest
}

func (t *groupTask) wire() (*kinesinv1.ScheduleItem, error) { return t.item(t.Lambda) }

// followUp is the task that follows, alone or in a list of one.
type followUp struct{ groupTask }

func (f *followUp) fromJSON(raw []byte) error {
	if raw = bytes.TrimSpace(raw); bytes.HasPrefix(raw, []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
			return errors.New("want one task")
		}
		raw = list[0]
	}
	return decodeObject(place{"the task", noIndex}, raw, reflect.ValueOf(&f.groupTask).Elem())
}

type groupRequest struct {
	Then      followUp  `json:"then" jsonschema:"the task that follows when all members have ended"`
	Else      *followUp `json:"else,omitempty" jsonschema:"the task that follows instead if a member did not succeed, or the group expired"`
	Expires   moment    `json:"expires,omitzero" jsonschema:"when the group expires if it is not done; in 30 days when not set"`
	RequestID *binary   `json:"request_id_base64,omitempty" jsonschema:"16 bytes of a UUIDv7, so that a repeated call makes one group; it becomes the id"`
}

type groupView struct {
	ID        string            `json:"id"`
	State     string            `json:"state" jsonschema:"open, sealed, done or expired"`
	Then      string            `json:"then" jsonschema:"lambda of the task that follows"`
	Else      string            `json:"else,omitempty" jsonschema:"lambda of the task that follows instead if a member did not succeed"`
	Sealed    bool              `json:"sealed"`
	Members   uint32            `json:"members"`
	Counted   uint32            `json:"counted" jsonschema:"so many of the first members were counted by state"`
	Counts    map[string]uint32 `json:"counts" jsonschema:"members by state"`
	Created   moment            `json:"created,omitzero"`
	CreatedBy string            `json:"created_by,omitempty" jsonschema:"an identity"`
	Expires   moment            `json:"expires,omitzero"`
	Completed moment            `json:"completed,omitzero" jsonschema:"when the last member was seen to have ended, or the group expired"`
	FollowUp  string            `json:"follow_up,omitempty" jsonschema:"id of the task that followed"`
	Problem   string            `json:"problem,omitempty" jsonschema:"why none could follow"`
}

type membersRequest struct {
	At      *uint32     `json:"at,omitempty" jsonschema:"how many members the group has, so that a repeated call changes nothing; when not set, they are added after those that it has now"`
	Members []groupTask `json:"members" jsonschema:"1 to 10,000; they have no key, request id or on_conflict"`
}

type membersAdded struct {
	Members uint32   `json:"members" jsonschema:"that the group has now"`
	Existed bool     `json:"existed,omitempty" jsonschema:"an earlier call had added them"`
	IDs     []string `json:"ids"`
}

type sealRequest struct {
	Members uint32 `json:"members,omitempty" jsonschema:"how many were added: refused if the group has others"`
}

type memberList struct {
	Members []memberView `json:"members"`
	Next    uint32       `json:"next,omitempty" jsonschema:"from of the next page; none: there is none"`
}

type groupMemberView struct {
	Group string `json:"group" jsonschema:"the id of the group"`
	Index uint32 `json:"index"`
}

type memberView struct {
	Index uint32    `json:"index"`
	Task  *taskView `json:"task,omitempty" jsonschema:"none: it may not be read, or is not known any more"`
}

func groupRoutes() []route {
	const path = "/v1/groups/{id}"
	return []route{
		op("POST", "/v1/groups", "createGroup", "Create a group", createGroup, success(http.StatusCreated, http.StatusOK), notFound, conflict),
		op("GET", path, "getGroup", "Read a group, its members counted by state", getGroup, notFound),
		op("POST", path+"/members", "addMembers", "Schedule members of a group: all of them, or none", addMembers, success(http.StatusCreated, http.StatusOK), notFound, conflict,
			fails(http.StatusPreconditionFailed, http.StatusInsufficientStorage)),
		op("GET", path+"/members", "listMembers", "List members of a group in their order, with their results", listMembers, notFound, takes(
			param{"from", kindNumber, "index of the first one"}, param{"limit", kindNumber, "100 when not set, at most 1000"})),
		op("POST", path+":seal", "sealGroup", "Say that a group gets no more members", sealGroup, notFound, conflict, fails(http.StatusPreconditionFailed), optionalBody()),
	}
}

func groupViewOf(g *kinesinv1.Group) *groupView {
	v := &groupView{
		ID: g.GetId(), State: g.GetState(), Then: g.GetThen(), Else: g.GetElse(), Sealed: g.GetState() != "open", Members: g.GetMembers(), Counted: g.GetCounted(), Counts: g.GetCounts(),
		Created: moment(g.GetCreatedMicros()), CreatedBy: g.GetCreatedBy(), Expires: moment(g.GetExpiresMicros()), Completed: moment(g.GetCompletedMicros()),
		FollowUp: g.GetFollowUp(), Problem: g.GetProblem(),
	}
	if v.Counts == nil {
		v.Counts = map[string]uint32{}
	}
	return v
}

func createGroup(c *call, r *groupRequest) (int, *groupView, error) {
	request := &kinesinv1.CreateGroupRequest{ExpiresMicros: int64(r.Expires)}
	var err error
	if request.Then, err = r.Then.wire(); err != nil {
		return 0, nil, err
	}
	if r.Else != nil {
		if request.Else, err = r.Else.wire(); err != nil {
			return 0, nil, err
		}
	}
	if r.RequestID != nil {
		request.RequestId = *r.RequestID
	}
	response, err := c.Groups.CreateGroup(c.r.Context(), request)
	if err != nil {
		return 0, nil, err
	}
	if response.GetExisted() {
		return http.StatusOK, groupViewOf(response.GetGroup()), nil
	}
	return http.StatusCreated, groupViewOf(response.GetGroup()), nil
}

func getGroup(c *call, _ *none) (int, *groupView, error) {
	response, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: c.vars["id"]})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, groupViewOf(response.GetGroup()), nil
}

func addMembers(c *call, r *membersRequest) (int, *membersAdded, error) {
	request := &kinesinv1.AddMembersRequest{Group: c.vars["id"], Items: make([]*kinesinv1.ScheduleItem, len(r.Members))}
	for i := range r.Members {
		item, err := r.Members[i].wire()
		if err != nil {
			return 0, nil, invalid("member %d of the call: %v", i, err)
		}
		request.Items[i] = item
	}
	if r.At != nil {
		request.At = *r.At
	} else {
		now, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: c.vars["id"]})
		if err != nil {
			return 0, nil, err
		}
		request.At = now.GetGroup().GetMembers()
	}
	response, err := c.Groups.AddMembers(c.r.Context(), request)
	if err != nil {
		return 0, nil, err
	}
	added := &membersAdded{Members: response.GetMembers(), Existed: response.GetExisted(), IDs: response.GetIds()}
	if added.Existed {
		return http.StatusOK, added, nil
	}
	return http.StatusCreated, added, nil
}

func sealGroup(c *call, r *sealRequest) (int, *groupView, error) {
	response, err := c.Groups.SealGroup(c.r.Context(), &kinesinv1.SealGroupRequest{Group: c.vars["id"], Members: r.Members})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, groupViewOf(response.GetGroup()), nil
}

func listMembers(c *call, _ *none) (int, *memberList, error) {
	limit, err := c.number("limit", api.MembersListMax)
	if err != nil {
		return 0, nil, err
	}
	from, err := c.number("from", 0xffffffff)
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Groups.ListMembers(c.r.Context(), &kinesinv1.ListMembersRequest{Group: c.vars["id"], From: from, Limit: limit})
	if err != nil {
		return 0, nil, err
	}
	list := &memberList{Members: make([]memberView, len(response.GetMembers()))}
	for i, m := range response.GetMembers() {
		list.Members[i].Index = m.GetIndex()
		if m.GetTask() != nil {
			v := taskViewOf(m.GetTask())
			list.Members[i].Task = &v
		}
	}
	if response.GetMore() {
		list.Next = response.GetNext()
	}
	return http.StatusOK, list, nil
}
