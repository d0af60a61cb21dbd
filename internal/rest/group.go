package rest

import (
	"net/http"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

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
		op("POST", path+"/seal", "sealGroup", "Say that a group gets no more members", sealGroup, without("group"), notFound, conflict, fails(http.StatusPreconditionFailed), optionalBody()),
		op("POST", path+"/cancel", "cancelGroup", "Seal a group and cancel its members", cancelGroup, without("group"), success(http.StatusAccepted), notFound, conflict, optionalBody()),
	}
}

func createGroup(c *call, r *kinesinv1.CreateGroupRequest) (int, *kinesinv1.Group, error) {
	response, err := c.Groups.CreateGroup(c.r.Context(), r)
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
