package rest

import (
	"bytes"
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

// groupFollowUps are tasks that follow: a list of them, or one alone.
type groupFollowUps followups

func (f *groupFollowUps) fromJSON(raw []byte) error {
	if raw = bytes.TrimSpace(raw); !bytes.HasPrefix(raw, []byte("[")) {
		*f = make(groupFollowUps, 1)
		return decodeObject(place{"the task", noIndex}, raw, reflect.ValueOf(&(*f)[0]).Elem())
	}
	return (*followups)(f).fromJSON(raw)
}

// wire returns the first one and the others.
func (f groupFollowUps) wire(edge string) (first *kinesinv1.ScheduleItem, more []*kinesinv1.ScheduleItem, err error) {
	items, err := followups(f).items(edge, 0)
	if err == nil && len(items) == 0 {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, invalid("%v", err)
	}
	return items[0], items[1:], nil
}

type groupRequest struct {
	Then      groupFollowUps `json:"then,omitempty" jsonschema:"a task, or a list of tasks, that follow when all members have ended; with else or finally only if all of them succeeded"`
	Else      groupFollowUps `json:"else,omitempty" jsonschema:"a task or tasks that follow instead if a member did not succeed, or the group expired or was cancelled"`
	Finally   groupFollowUps `json:"finally,omitempty" jsonschema:"a task or tasks that follow however the group ends"`
	Expires   moment         `json:"expires,omitzero" jsonschema:"when the group expires if it is not done; in 30 days when not set"`
	RequestID *binary        `json:"request_id_base64,omitempty" jsonschema:"16 bytes of a UUIDv7, so that a repeated call makes one group; it becomes the id"`
}

type groupCancelRequest struct {
	Pace      uint32  `json:"pace,omitempty" jsonschema:"members that are cancelled in a second; no limit when not set"`
	RequestID *binary `json:"request_id_base64,omitempty" jsonschema:"16 bytes of a UUID, so that a repeated call makes one job"`
}

type membersRequest struct {
	At      *uint32     `json:"at,omitempty" jsonschema:"how many members the group has, so that a repeated call changes nothing; when not set, they are added after those that it has now"`
	Members []groupTask `json:"members" jsonschema:"1 to 10,000; they have no key, request id or on_conflict"`
}

type sealRequest struct {
	Members *uint32 `json:"members,omitempty" jsonschema:"how many were added: refused if the group has others; 0: none; absent: it does not matter"`
}

func groupRoutes() []route {
	const path = "/v1/groups/{id}"
	return []route{
		op("POST", "/v1/groups", "createGroup", "Create a group", createGroup, success(http.StatusCreated, http.StatusOK), notFound, conflict),
		op("GET", path, "getGroup", "Read a group, its members counted by state", getGroup, notFound),
		batchToo(newMemberBatch, op("POST", path+"/members", "addMembers", "Schedule members of a group: all of them, or none; of a batch all lines that come together", addMembers, success(http.StatusCreated, http.StatusOK), notFound, conflict,
			fails(http.StatusPreconditionFailed, http.StatusInsufficientStorage), takes(
				param{"at", kindNumber, "of a batch: how many members the group has, so that a repeated call changes nothing; those that it has now when not set"},
				param{"lambda", kindText, "of a batch: for lines that name none"}))),
		op("GET", path+"/members", "listMembers", "List members of a group in their order, with their results", listMembers, notFound, takes(
			param{"from", kindNumber, "index of the first one"}, param{"limit", kindNumber, "100 when not set, at most 1000"})),
		op("POST", path+":seal", "sealGroup", "Say that a group gets no more members", sealGroup, notFound, conflict, fails(http.StatusPreconditionFailed), optionalBody()),
		op("POST", path+":cancel", "cancelGroup", "Seal a group and cancel its members", cancelGroup, success(http.StatusAccepted), notFound, conflict, optionalBody()),
	}
}

func createGroup(c *call, r *groupRequest) (int, *kinesinv1.Group, error) {
	request := &kinesinv1.CreateGroupRequest{Expires: int64(r.Expires)}
	var err error
	if len(r.Then)+len(r.Else)+len(r.Finally) == 0 {
		return 0, nil, invalid(`"then" is missing: want the tasks that follow in then, else or finally`)
	}
	if request.Then, request.MoreThen, err = r.Then.wire("then"); err != nil {
		return 0, nil, err
	}
	if request.Else, request.MoreElse, err = r.Else.wire("else"); err != nil {
		return 0, nil, err
	}
	if request.Finally, err = followups(r.Finally).items("finally", 0); err != nil {
		return 0, nil, invalid("%v", err)
	}
	if r.RequestID != nil {
		request.RequestId = *r.RequestID
	}
	response, err := c.Groups.CreateGroup(c.r.Context(), request)
	return created(!response.GetExisted()), response.GetGroup(), err
}

func getGroup(c *call, _ *none) (int, *kinesinv1.Group, error) {
	response, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: c.vars["id"]})
	return http.StatusOK, response.GetGroup(), err
}

func addMembers(c *call, r *membersRequest) (int, *kinesinv1.AddMembersResponse, error) {
	request := &kinesinv1.AddMembersRequest{Group: c.vars["id"], Items: make([]*kinesinv1.ScheduleItem, len(r.Members))}
	for i := range r.Members {
		item, err := r.Members[i].wire()
		if err != nil {
			return 0, nil, invalid("member %d of the call: %v", i, err)
		}
		request.Items[i] = item
	}
	if c.r.URL.RawQuery != "" {
		return 0, nil, invalid("at and lambda in the query are of a batch (%s): want them in the body", api.BatchType)
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
	return created(!response.GetExisted()), response, err
}

func sealGroup(c *call, r *sealRequest) (int, *kinesinv1.Group, error) {
	response, err := c.Groups.SealGroup(c.r.Context(), &kinesinv1.SealGroupRequest{Group: c.vars["id"], Members: r.Members})
	return http.StatusOK, response.GetGroup(), err
}

func cancelGroup(c *call, r *groupCancelRequest) (int, *kinesinv1.CancelGroupResponse, error) {
	request := &kinesinv1.CancelGroupRequest{Group: c.vars["id"], Pace: r.Pace}
	if r.RequestID != nil {
		request.RequestId = *r.RequestID
	}
	response, err := c.Groups.CancelGroup(c.r.Context(), request)
	return http.StatusAccepted, response, err
}

func listMembers(c *call, _ *none) (int, *kinesinv1.ListMembersResponse, error) {
	limit, err := c.number("limit", api.MembersListMax)
	if err != nil {
		return 0, nil, err
	}
	from, err := c.numberFrom(0, "from", 0xffffffff)
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Groups.ListMembers(c.r.Context(), &kinesinv1.ListMembersRequest{Group: c.vars["id"], From: from, Limit: limit})
	return http.StatusOK, response, err
}
