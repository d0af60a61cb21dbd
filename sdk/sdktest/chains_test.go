package sdktest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

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

// Finally starts once when the chain is over: after its last step, or after the one that failed, beside what
// undoes it.
func TestFinallyOfAChain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails string
		want  []string
	}{
		"success":              {want: []string{"a", "b", "c", "close after success of c"}},
		"the last step fails":  {fails: "c", want: []string{"a", "b", "c", "close after fatal_failure of c", "undo after fatal_failure of c"}},
		"a step between fails": {fails: "b", want: []string{"a", "b", "close after fatal_failure of b", "undo after fatal_failure of b"}},
		"the first step fails": {fails: "a", want: []string{"a", "close after fatal_failure of a", "undo after fatal_failure of a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			of := map[sdk.ID]string{}
			var seen []string
			r.handle(func(_ context.Context, t *sdk.Task[Mail]) error {
				text := t.Args.To
				of[t.ID] = text
				if p := t.Parent; p != nil && text >= "close" {
					text += " after " + string(p.State) + " of " + of[p.ID]
				}
				seen = append(seen, text)
				if t.Args.To == c.fails {
					return sdk.Fatal(errors.New("no room"))
				}
				return nil
			}, sdk.Slots(1))
			step := func(name string) sdk.Step { return sendMail.With(Mail{To: name}) }
			_, err := sdk.Chain(step("a"), step("b").After(day), step("c").After(day)).
				OnFailure(step("undo")).Finally(step("close").After(time.Hour)).Schedule(t.Context(), r.k.Client())
			if err != nil {
				t.Fatal(err)
			}
			r.k.Advance(3 * day)
			slices.Sort(seen)
			if !slices.Equal(seen, c.want) {
				t.Errorf("%q, want %q", seen, c.want)
			}
		})
	}
}
