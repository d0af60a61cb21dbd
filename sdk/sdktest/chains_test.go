package sdktest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kinesin-io/kinesin/sdk"
)

// A chain that takes a month, with a step that fails in the end: what was done is undone, and each handler
// gets how the one before it ended.
func TestAChainOfAMonth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var seen []string
	r.handle(func(_ context.Context, t *sdk.Task[Mail]) error {
		text := t.Args.To
		if p := t.Parent; p != nil {
			text += " after " + string(p.State) + " " + string(p.Result) + p.Error
		}
		seen = append(seen, text)
		if t.Args.To == "fail" {
			return sdk.Fatal(errors.New("no room"))
		}
		t.SetResult(t.Args.To)
		return nil
	})
	_, err := sdk.Chain(
		sendMail.With(Mail{To: "a"}), sendMail.With(Mail{To: "b"}).After(15*day), sendMail.With(Mail{To: "fail"}).After(15*day), sendMail.With(Mail{To: "c"}),
	).OnFailure(sendMail.With(Mail{To: "undo"})).Schedule(t.Context(), r.k.Client())
	if err != nil {
		t.Fatal(err)
	}
	r.k.Advance(31 * day)
	want := []string{"a", `b after success "a"`, `fail after success "b"`, "undo after fatal_failure no room"}
	if len(seen) != len(want) {
		t.Fatalf("%q, want %q", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("%q, want %q", seen[i], want[i])
		}
	}
}
