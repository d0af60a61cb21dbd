package rest

import (
	"cmp"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// memberBatch adds members to a group. The lines of a chunk are added together or not at all, and the batch
// ends with a line that is refused, since the places of those behind it depend on it.
type memberBatch struct {
	*call

	lambda string // of lines that name none
	at     uint32
	had    uint32 // members that the group had when the batch began
}

func newMemberBatch(c *call) (batchKind, error) {
	at, err := c.number("at", task.GroupMembersMax)
	if err != nil {
		return nil, err
	}
	now, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: c.vars["group"]})
	if err != nil {
		return nil, err
	}
	b := &memberBatch{call: c, lambda: c.query.Get("lambda"), at: at, had: now.GetGroup().GetMembers()}
	if !c.query.Has("at") {
		b.at = b.had
	}
	return b, nil
}

func (b *memberBatch) item(line []byte) (*kinesinv1.ScheduleItem, error) {
	item := &kinesinv1.ScheduleItem{}
	if _, err := jsonform.DecodeAs("the line", line, item, "?lambda"); err != nil {
		return nil, invalid("%v", err)
	}
	if item.Lambda = cmp.Or(item.GetLambda(), b.lambda); item.GetLambda() == "" {
		return nil, invalid(`"lambda" is missing: want it in the line, or for all lines in the query`)
	}
	return item, nil
}

func (b *memberBatch) schedule(k *chunk) error {
	for i := range k.lines {
		if p := k.lines[i].problem; p != nil {
			return api.Errorf(kinesinv1.Reason_REASON_INVALID, "line %d behind %d members: %s; the lines that came with it were not added", i+1, b.at, p.Detail)
		}
	}
	for start := 0; start < len(k.items); {
		end := len(k.items)
		if left := int(b.had) - int(b.at); left > 0 { // an earlier call had added the first lines, and maybe in other parts
			end = min(end, start+left)
		}
		response, err := b.Groups.AddMembers(b.r.Context(), &kinesinv1.AddMembersRequest{Group: b.vars["group"], At: b.at, Items: k.items[start:end]})
		if err == nil && len(response.GetIds()) != end-start {
			err = errCount(len(response.GetIds()))
		}
		if err != nil {
			k.of = k.of[start:]
			return err
		}
		for i, id := range response.GetIds() {
			index := b.at + uint32(i)
			line := &k.lines[k.of[start+i]]
			line.done, line.index = &kinesinv1.ScheduleResult{Id: id, Duplicate: response.GetDuplicate()}, &index
		}
		b.at, start = b.at+uint32(end-start), end
	}
	return nil
}
