package guard

import "testing"

// A reason joins what a record says of a change.
func TestWithReason(t *testing.T) {
	for _, c := range []struct{ after, reason, want string }{
		{`{"a":1}`, "", `{"a":1}`}, {"", "", ""}, {"", `say "no"`, `{"reason":"say \"no\""}`}, {`{"a":1}`, "x", `{"reason":"x","a":1}`}, {"{}", "x", `{"reason":"x"}`},
	} {
		if got := withReason(c.after, c.reason); got != c.want {
			t.Errorf("%q because %q: %q, want %q", c.after, c.reason, got, c.want)
		}
	}
}
