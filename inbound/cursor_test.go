package inbound_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// A list goes on where a server said so, and nowhere else.
func TestACursorIsOfOneList(t *testing.T) {
	run(t, func(f *fixture) {
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "pay"}}); err != nil {
			t.Fatal(err)
		}
		f.schedule(in(time.Hour), in(time.Hour), in(time.Hour))
		page := func(lambda, state string, cursor []byte) (*kinesinv1.ListResponse, error) {
			return f.List(f.ctx, &kinesinv1.ListRequest{Lambda: lambda, State: state, Limit: 1, Cursor: cursor})
		}
		first, err := page("mail", "", nil)
		if err != nil || len(first.Next) == 0 {
			t.Fatalf("%v, %v", first, err)
		}
		if next, err := page("mail", "", first.Next); err != nil || len(next.Tasks) != 1 || next.Tasks[0].Id == first.Tasks[0].Id {
			t.Errorf("%v, %v", next, err)
		}
		position := fmt.Appendf(nil, `{"s":0,"p":1,"a":%d,"i":%q}`, first.Tasks[0].Due, f.idOf(first.Tasks[0].Id).String())
		for what, c := range map[string]struct {
			lambda, state string
			cursor        []byte
		}{
			"another lambda": {"pay", "", first.Next},
			"another state":  {"mail", "scheduled", first.Next},
			"cut":            {"mail", "", first.Next[:10]},
			"no seal":        {"mail", "", position},
			"no position":    {"mail", "", []byte(`{}`)},
			"of a set":       {"mail", "", []byte(`{"n":1,"p":{"s":0}}`)},
			"changed":        {"mail", "", bytes.Replace(first.Next, []byte(`"n":`), []byte(`"n":1`), 1)},
		} {
			_, err := page(c.lambda, c.state, c.cursor)
			wantError(t, what, err, isInvalid, "next")
		}
	})
}
