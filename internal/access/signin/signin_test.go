package signin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// open seals nothing.
type open struct{}

func (open) Seal(_ string, text []byte) []byte                               { return text }
func (open) Open(_ context.Context, _ string, sealed []byte) ([]byte, error) { return sealed, nil }

// An answer is taken only for the sign-in that the browser has begun, in its time; test/web has the rest, with a provider.
func TestAnAnswerToAnotherSignInIsRefused(t *testing.T) {
	f := &Flow{Config: Config{Issuer: "https://id.example", Clock: clock.Real(), Sealer: open{}}}
	now := clock.Real().Now()
	kept := func(s state) string {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	mine := kept(state{State: "mine", Began: now, Next: "/ui/jobs"})
	for query, says := range map[string]string{
		"state=mine&error=denied":                        "the provider says denied",
		"state=other&error=denied":                       "not to the sign-in",
		"error=denied":                                   "not to the sign-in",
		"state=mine&iss=https://evil.example":            "another provider",
		"state=mine&iss=https://id.example&error=denied": "the provider says denied",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Finish(t.Context(), mine, values); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", query, err, says)
		}
	}
	late := kept(state{State: "mine", Began: now.Add(-Within - 1e9)})
	if _, _, err := f.Finish(t.Context(), late, url.Values{"state": {"mine"}}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "longer than 10 minutes") {
		t.Error(err)
	}
}
