package guard_test

import (
	"context"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/guard"
)

// listed lists a task of each of two collections, to whoever asks.
type listed struct {
	kinesinv1connect.UnimplementedTaskServiceHandler
}

func (listed) List(context.Context, *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
	return &kinesinv1.ListResponse{Tasks: []*kinesinv1.Task{{Id: "1", Lambda: "mail", Collection: "a"}, {Id: "2", Lambda: "mail", Collection: "b"}}}, nil
}

// A service that lists tasks of all collections shows only those that the caller may read.
func TestAListShowsOnlyCollectionsThatMayBeRead(t *testing.T) {
	g := (&guard.Guard{}).Tasks(listed{})
	for grant, want := range map[string]int{"read:mail:b": 1, "read:mail": 2, "read:*": 2} {
		grants, err := access.ParseGrants([]string{grant})
		if err != nil {
			t.Fatal(err)
		}
		ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Name: "x", Grants: grants}})
		r, err := g.List(ctx, &kinesinv1.ListRequest{Lambda: "mail"})
		if err != nil || len(r.GetTasks()) != want || r.GetTasks()[want-1].GetId() != "2" {
			t.Errorf("%s: %v, %v; want %d tasks", grant, r, err, want)
		}
	}
}
