package guard_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/guard"
)

// waited has a task in each collection, some of them in the inbound buffer, and notes which ids are waited for.
type waited struct {
	kinesinv1connect.UnimplementedTaskServiceHandler

	ids []string
}

func (*waited) Get(_ context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	response := &kinesinv1.GetResponse{}
	for _, id := range r.GetIds() {
		t := &kinesinv1.Task{Id: id, Lambda: "mail", Collection: strings.TrimPrefix(id, "buffered-"), State: "scheduled"}
		if t.GetCollection() != id {
			t.Collection, t.State = "", "accepted"
		}
		response.Results = append(response.Results, &kinesinv1.GetResult{Task: t})
	}
	return response, nil
}

func (w *waited) Wait(_ context.Context, r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	w.ids = r.GetIds()
	response := &kinesinv1.GetResponse{Results: make([]*kinesinv1.GetResult, len(w.ids))}
	for i, id := range w.ids {
		response.Results[i] = &kinesinv1.GetResult{Task: &kinesinv1.Task{Id: id, Lambda: "mail", Collection: strings.TrimPrefix(id, "buffered-")}}
	}
	return response, nil
}

// A call does not wait for a task that its caller may not see: how long it takes would tell that there is one.
// The collection of one in the inbound buffer is known when it is out.
func TestNobodyWaitsForWhatHeMayNotSee(t *testing.T) {
	grants, err := access.ParseGrants([]string{"read:mail:a"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Name: "x", Grants: grants}})
	var next waited
	g := (&guard.Guard{LambdaOf: func(context.Context, string) (string, error) { return "mail", nil }}).Tasks(&next)
	r, err := g.Wait(ctx, &kinesinv1.WaitRequest{Ids: []string{"b", "a", "buffered-a", "buffered-b"}, Wait: 1})
	if err != nil || !slices.Equal(next.ids, []string{"", "a", "buffered-a", "buffered-b"}) {
		t.Errorf("waited for %q: %v", next.ids, err)
	}
	for i, seen := range []bool{false, true, true, false} {
		if got := r.GetResults()[i]; (got.GetTask() != nil) != seen || (got.GetProblem().GetReason() == kinesinv1.Reason_REASON_NOT_FOUND) == seen {
			t.Errorf("result %d: %v", i, got)
		}
	}
}
