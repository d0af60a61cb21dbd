package rest

import (
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func addMembers(c *call, r *kinesinv1.AddMembersRequest) (int, *kinesinv1.AddMembersResponse, error) {
	if c.r.URL.RawQuery != "" {
		return 0, nil, invalid("at and lambda in the query are of a batch (%s): want them in the body", api.BatchType)
	}
	r.Group = c.vars["group"]
	if !slices.Contains(c.given, "at") {
		now, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: r.GetGroup()})
		if err != nil {
			return 0, nil, err
		}
		r.At = now.GetGroup().GetMembers()
	}
	response, err := c.Groups.AddMembers(c.r.Context(), r)
	return c.route.status(r, response), response, err
}
