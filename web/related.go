package web

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// TraceID stands for the id of a trace in a Config.TraceURL.
const TraceID = "{trace_id}"

// membersShown is how many members of a group a page lists.
const membersShown = 100

// related is what a task has to do with other tasks.
type related struct {
	Self    string
	Chain   *kinesinv1.GetChainResponse
	Group   *kinesinv1.Group
	Ends    []end
	Members []*kinesinv1.MemberOfGroup
	More    bool     // the group has more members than are listed
	Missing []string // what cannot be shown, and why
}

// end is how many members of a group are in one state.
type end struct {
	State string
	Count uint32
}

// relatedOf reads the chain and the group of a task. Tasks that the viewer may not read are left out, and
// said.
func (c *call) relatedOf(t *kinesinv1.Task) *related {
	r := &related{Self: t.GetId()}
	ctx := c.r.Context()
	if t.GetChain() != nil {
		chain, err := c.Chains.GetChain(ctx, &kinesinv1.GetChainRequest{Id: t.GetId()})
		r.Chain = chain
		r.missing("Its chain", err)
	}
	group := cmp.Or(t.GetMember().GetGroup(), t.GetGroup().GetGroup())
	if group == "" {
		return r
	}
	err := c.addGroup(r, group, t.GetMember().GetIndex())
	r.missing("Its group", err)
	return r
}

// addGroup reads a group, and the members around one of them.
func (c *call) addGroup(r *related, group string, at uint32) error {
	ctx := c.r.Context()
	response, err := c.Groups.GetGroup(ctx, &kinesinv1.GetGroupRequest{Id: group})
	if err != nil {
		return err
	}
	r.Group = response.GetGroup()
	counts := r.Group.GetCounts()
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		r.Ends = append(r.Ends, end{state, counts[state]})
	}
	from := uint32(0)
	if at >= membersShown { // a page of which the task is one
		from = at - membersShown/2
	}
	members, err := c.Groups.ListMembers(ctx, &kinesinv1.ListMembersRequest{Group: group, From: from, Limit: membersShown})
	r.Members, r.More = members.GetMembers(), members.GetMore() || from > 0
	r.missing("The members of its group", err)
	return nil
}

func (r *related) missing(what string, err error) {
	if err != nil {
		r.Missing = append(r.Missing, what+" cannot be shown: "+problemOf(err).Text)
	}
}

// traceURL returns where the trace of a task is shown; empty: nowhere.
func (c *call) traceURL(t *kinesinv1.Task) string {
	parts := strings.Split(t.GetTraceparent(), "-") // version, trace, span, flags
	const idChars = 32
	if c.TraceURL == "" || len(parts) < 4 || len(parts[1]) != idChars || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return strings.ReplaceAll(c.TraceURL, TraceID, parts[1])
}

// waitOf returns what a task waits for that has not started, in more cases than the task itself says.
func (c *call) waitOf(t *kinesinv1.Task, running, ended bool) *kinesinv1.WaitsFor {
	switch w := t.GetWaitsFor(); {
	case running || ended:
		return nil
	case t.GetChain().GetPaused():
		return &kinesinv1.WaitsFor{Reason: "chain paused", Text: "Its chain is paused. Resume it: kinesin chain resume " + t.GetChain().GetRoot()}
	case w.GetReason() == "quota": // the lambda has its figures
		if h := c.heldBack(t, "quota"); h != nil {
			return &kinesinv1.WaitsFor{Reason: "quota", Text: h.GetText(), Until: w.GetUntil()}
		}
		return w
	case w != nil:
		return w
	case t.GetState() == "retriable_failure":
		return &kinesinv1.WaitsFor{Reason: "its next attempt", Text: "Its last attempt failed, and the backoff of its lambda is not over.", Until: t.GetNext()}
	case t.GetDue() > c.now().UnixMicro() || !c.sees(t.GetLambda()):
		return nil
	}
	if h := c.heldBack(t, ""); h != nil {
		return &kinesinv1.WaitsFor{Reason: h.GetReason(), Text: "Of the tasks of its lambda: " + h.GetText(), Until: h.GetUntil()}
	}
	return nil
}

// heldBack returns what holds back tasks of the lambda and priority of a task, for a reason or, if it is
// empty, for any; nil: nothing that is known.
func (c *call) heldBack(t *kinesinv1.Task, reason string) *kinesinv1.HeldBy {
	if !c.sees(t.GetLambda()) {
		return nil
	}
	for _, s := range c.live.snapshot().stats {
		if s.GetLambda() != t.GetLambda() {
			continue
		}
		for _, h := range s.GetHeldBy() {
			if (h.GetPriority() == "" || h.GetPriority() == t.GetPriority()) && (reason == "" || reason == h.GetReason()) {
				return h
			}
		}
	}
	return nil
}
