package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Orders of a list; empty: by time, as far as that is cheap.
const (
	orderDue     = "due"
	orderCreated = "-created"
	orderEnded   = "-ended"
)

// setCursor is where a list of a set goes on. Now is when it began: durations in its filter count from then.
type setCursor struct {
	Now   task.Instant    `json:"n"`
	Place json.RawMessage `json:"p"`
}

// listSet pages over the tasks that a filter selects.
func (in *Inbound) listSet(ctx context.Context, r *kinesinv1.ListRequest, limit int) (*kinesinv1.ListResponse, error) {
	name := fmt.Sprintf("set %q %q %q %q", r.Lambda, r.State, r.Where, r.Order)
	at := setCursor{Now: in.Clock.Now()}
	if len(r.Cursor) > 0 {
		text, err := in.Pages.Open(ctx, name, r.Cursor)
		if err != nil || json.Unmarshal(text, &at) != nil {
			return nil, errCursor
		}
	}
	of, err := in.selectionOf(ctx, r, at.Now)
	if err != nil {
		return nil, err
	}
	if r.MaxExamined < 0 || r.MaxExamined > newestExaminedMax {
		return nil, refusal.Invalid("max_examined %d: want 1 to %d, or 0 for the most", r.MaxExamined, newestExaminedMax)
	}
	var page Page
	newest := newestList{name: name, began: at.Now, ends: r.Order != orderCreated, most: cmp.Or(int(r.MaxExamined), newestExaminedMax)}
	switch r.Order {
	case "":
		page, err = in.byTime(ctx, of, newest, at.Place, limit)
	case orderDue:
		page, err = in.byDue(ctx, of, at.Place, limit)
	case orderCreated, orderEnded:
		page, err = in.newest(ctx, of, newest, at.Place, limit)
	default:
		return nil, refusal.Invalid("order %q: want due, -created or -ended, or no order", r.Order)
	}
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.ListResponse{}
	for i := range page.Rows {
		response.Tasks = append(response.Tasks, in.view(&page.Rows[i].Task))
	}
	if at.Place = page.Next; len(page.Next) > 0 {
		next, err := json.Marshal(at)
		if err != nil {
			return nil, err
		}
		response.Next = in.Pages.Seal(name, next)
	}
	return response, nil
}

// selectionOf returns the set of a list.
func (in *Inbound) selectionOf(ctx context.Context, r *kinesinv1.ListRequest, now task.Instant) (*Selection, error) {
	of, err := Select(r.Where, now, access.From(ctx).Grants)
	if err != nil {
		return nil, err
	}
	if r.Lambda != "" {
		if of.Lambda, err = in.Catalog.Find(ctx, r.Lambda); err != nil {
			return nil, refusal.Wire(err)
		}
	}
	if r.State != "" {
		if of.State, err = task.ParseState(r.State); err != nil {
			return nil, refusal.Invalid("%v", err)
		}
	}
	of = of.narrowed()
	switch {
	case r.Order == orderDue && !of.Live && of.Ended:
		return nil, refusal.Invalid("order due is that of live tasks, and the filter selects only ended ones: want -ended")
	case r.Order == orderEnded && !of.Ended && of.Live:
		return nil, refusal.Invalid("order -ended is that of ended tasks, and the filter selects only live ones: want due")
	}
	return &of, nil
}
