package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// oneGroup has so many members, and refuses those of the lambda nope.
type oneGroup struct {
	kinesinv1connect.UnimplementedGroupServiceHandler

	members uint32
	calls   []string
}

func (g *oneGroup) GetGroup(context.Context, *kinesinv1.GetGroupRequest) (*kinesinv1.GetGroupResponse, error) {
	return &kinesinv1.GetGroupResponse{Group: &kinesinv1.Group{Members: g.members}}, nil
}

func (g *oneGroup) AddMembers(_ context.Context, r *kinesinv1.AddMembersRequest) (*kinesinv1.AddMembersResponse, error) {
	to := r.GetAt() + uint32(len(r.GetItems()))
	g.calls = append(g.calls, fmt.Sprintf("%d-%d", r.GetAt(), to))
	response := &kinesinv1.AddMembersResponse{Duplicate: to <= g.members}
	if !response.Duplicate && r.GetAt() != g.members {
		return nil, api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "the next are added at %d", g.members)
	}
	for i, item := range r.GetItems() {
		if item.GetLambda() == "nope" {
			return nil, api.Errorf(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "member %d: unknown lambda", r.GetAt()+uint32(i))
		}
		response.Ids = append(response.Ids, fmt.Sprint("k", r.GetAt()+uint32(i)))
	}
	g.members = max(g.members, to)
	return response, nil
}

// The lines of a batch are members in their order, those of a part all or none, and a batch that is sent
// again adds nothing twice.
func TestABatchOfMembers(t *testing.T) {
	lines := func(n int, more string) string { return strings.Repeat("{\"payload\":1}\n", n) + more }
	for _, c := range []struct {
		name, query, body string
		had               uint32
		status, added     int
		members           uint32
		says, calls       string
	}{
		{"two", "?lambda=mail", lines(2, ""), 0, 200, 2, 2, "", "[0-2]"},
		{"with lambdas of their own", "", `{"lambda":"a"}` + "\n\n" + `{"lambda":"b"}`, 3, 200, 2, 5, "", "[3-5]"},
		{"more than one part", "?lambda=mail&at=0", lines(2500, ""), 0, 200, 2500, 2500, "", "[0-1000 1000-2000 2000-2500]"},
		{"again", "?lambda=mail&at=0", lines(3, ""), 3, 200, 3, 3, "", "[0-3]"},
		{"again, with more", "?lambda=mail&at=0", lines(5, ""), 3, 200, 5, 5, "", "[0-3 3-5]"},
		{"another place", "?lambda=mail&at=4", lines(1, ""), 3, 412, 0, 3, "added at 3", "[4-5]"},
		{"no lambda", "", lines(1, ""), 0, 400, 0, 0, "line 1 behind 0 members: \"lambda\" is missing", "[]"},
		{"a bad line", "?lambda=mail", lines(2, "{\"x\":1}\n"), 0, 400, 0, 0, "line 3 behind 0 members", "[]"},
		{"a bad line later", "?lambda=mail", lines(1000, "{\"x\":1}\n{}\n"), 0, 200, 1000, 1000, "line 1 behind 1000 members", "[0-1000]"},
		{"an unknown lambda", "", `{"lambda":"a"}` + "\n" + `{"lambda":"nope"}`, 0, 404, 0, 0, "member 1: unknown lambda", "[0-2]"},
		{"nothing", "", "\n", 0, 400, 0, 0, "the batch is empty", "[]"},
		{"a bad place", "?at=x", lines(1, ""), 0, 400, 0, 0, "parameter at", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &oneGroup{members: c.had}
			server := httptest.NewServer(api.BoundBodies(New(Services{Groups: g}, api.Hooks{})))
			defer server.Close()
			got := sendBatch(t, server.URL+"/v1/groups/g1/members"+c.query, strings.NewReader(c.body))
			if got.StatusCode != c.status {
				t.Errorf("status %d, want %d", got.StatusCode, c.status)
			}
			added, text := 0, ""
			if got.StatusCode == http.StatusOK {
				for _, line := range readBatch(t, got) {
					if line.Problem != nil {
						text += line.Problem.Detail
					} else if added++; line.ID == "" {
						t.Error("a line without an id")
					}
				}
			} else {
				var all [4096]byte
				n, _ := got.Body.Read(all[:])
				text = strings.ReplaceAll(string(all[:n]), `\"`, `"`)
			}
			if added != c.added || g.members != c.members || !strings.Contains(text, c.says) || fmt.Sprint(g.calls) != c.calls {
				t.Errorf("%d added, %d members, calls %v, says %q", added, g.members, g.calls, text)
			}
		})
	}
}
