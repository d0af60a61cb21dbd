package api

import (
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// MembersListMax is how many members of a group one call lists at most.
const MembersListMax = 1000

// WireMember says which member of a group a task is; nil: of none.
func WireMember(m *task.Member) *kinesinv1.GroupMember {
	if m == nil {
		return nil
	}
	return &kinesinv1.GroupMember{Group: m.Group.String(), Index: m.Index}
}

// WireGroupEnd says after which group a task follows; nil: none.
func WireGroupEnd(g *task.GroupEnd) *kinesinv1.GroupEnd {
	if g == nil {
		return nil
	}
	return &kinesinv1.GroupEnd{Group: g.Group.String(), Members: g.Members, Ended: g.Ended.ByName(), Expired: g.Expired, Cancelled: g.Cancelled}
}
