package rest

import (
	"bytes"
	"errors"
	"net/http"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// groupFollowUps are tasks that follow: a list of them, or one alone.
type groupFollowUps []byte

func (f *groupFollowUps) fromJSON(raw []byte) error { //nolint:unparam // as fromJSON says
	if *f = bytes.TrimSpace(raw); !bytes.HasPrefix(*f, []byte("[")) {
		*f = slices.Concat([]byte("["), *f, []byte("]"))
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (f groupFollowUps) MarshalJSON() ([]byte, error) { return f, nil }

// into sets the list of an edge.
func (f groupFollowUps) into(all *kinesinv1.Followups, edge string) error {
	if f == nil {
		return nil
	}
	if _, err := jsonform.Decode(slices.Concat([]byte(`{"`+edge+`":`), f, []byte("}")), all); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// first returns the first task and the others.
func first(all []*kinesinv1.ScheduleItem) (*kinesinv1.ScheduleItem, []*kinesinv1.ScheduleItem) {
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], all[1:]
}

type groupRequest struct {
	Then      groupFollowUps `json:"then,omitempty" jsonschema:"a task, or a list of tasks, that follow when all members have ended; with else or finally only if all of them succeeded"`
	Else      groupFollowUps `json:"else,omitempty" jsonschema:"a task or tasks that follow instead if a member did not succeed, or the group expired or was cancelled"`
	Finally   groupFollowUps `json:"finally,omitempty" jsonschema:"a task or tasks that follow however the group ends"`
	Expires   moment         `json:"expires,omitzero" jsonschema:"when the group expires if it is not done; in 30 days when not set"`
	RequestID *digits        `json:"request_id,omitempty" jsonschema:"16 bytes, in hexadecimal digits, of a UUIDv7, so that a repeated call makes one group; it becomes the id"`
}

func groupRoutes() []route {
	const path = "/v1/groups/{id}"
	return []route{
		op("POST", "/v1/groups", "createGroup", "Create a group", createGroup, success(http.StatusCreated, http.StatusOK), notFound, conflict),
		op("GET", path, "getGroup", "Read a group, its members counted by state", getGroup, notFound),
		batchToo(newMemberBatch, op("POST", path+"/members", "addMembers", "Schedule members of a group: all of them, or none; of a batch all lines that come together", addMembers, without("group"), success(http.StatusCreated, http.StatusOK), notFound, conflict,
			fails(http.StatusPreconditionFailed, http.StatusInsufficientStorage), takes(
				param{"at", kindNumber, "of a batch: how many members the group has, so that a repeated call changes nothing; those that it has now when not set"},
				param{"lambda", kindText, "of a batch: for lines that name none"}))),
		op("GET", path+"/members", "listMembers", "List members of a group in their order, with their results", listMembers, notFound, takes(
			param{"from", kindNumber, "index of the first one"}, param{"limit", kindNumber, "100 when not set, at most 1000"})),
		op("POST", path+":seal", "sealGroup", "Say that a group gets no more members", sealGroup, without("group"), notFound, conflict, fails(http.StatusPreconditionFailed), optionalBody()),
		op("POST", path+":cancel", "cancelGroup", "Seal a group and cancel its members", cancelGroup, without("group"), success(http.StatusAccepted), notFound, conflict, optionalBody()),
	}
}

func createGroup(c *call, r *groupRequest) (int, *kinesinv1.Group, error) {
	request := &kinesinv1.CreateGroupRequest{Expires: int64(r.Expires)}
	all := &kinesinv1.Followups{}
	if err := errors.Join(r.Then.into(all, "then"), r.Else.into(all, "else"), r.Finally.into(all, "finally")); err != nil {
		return 0, nil, err
	}
	if len(all.GetThen())+len(all.GetElse())+len(all.GetFinally()) == 0 {
		return 0, nil, invalid(`"then" is missing: want the tasks that follow in then, else or finally`)
	}
	request.Then, request.MoreThen = first(all.GetThen())
	request.Else, request.MoreElse = first(all.GetElse())
	request.Finally = all.GetFinally()
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

func addMembers(c *call, r *kinesinv1.AddMembersRequest) (int, *kinesinv1.AddMembersResponse, error) {
	if c.r.URL.RawQuery != "" {
		return 0, nil, invalid("at and lambda in the query are of a batch (%s): want them in the body", api.BatchType)
	}
	r.Group = c.vars["id"]
	if !slices.Contains(c.given, "at") {
		now, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: r.GetGroup()})
		if err != nil {
			return 0, nil, err
		}
		r.At = now.GetGroup().GetMembers()
	}
	response, err := c.Groups.AddMembers(c.r.Context(), r)
	return created(!response.GetExisted()), response, err
}

func sealGroup(c *call, r *kinesinv1.SealGroupRequest) (int, *kinesinv1.Group, error) {
	r.Group = c.vars["id"]
	response, err := c.Groups.SealGroup(c.r.Context(), r)
	return http.StatusOK, response.GetGroup(), err
}

func cancelGroup(c *call, r *kinesinv1.CancelGroupRequest) (int, *kinesinv1.CancelGroupResponse, error) {
	r.Group = c.vars["id"]
	response, err := c.Groups.CancelGroup(c.r.Context(), r)
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
